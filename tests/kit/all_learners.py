"""Every learner of the package, and arguments that make it small.

A new learner is found here, and so by every test that is made for all of them.
"""

from __future__ import annotations

from typing import Any

from learner_tables import (
    LEARNERS,
    find_learners_with_numba,
    is_predictor,
    list_hyper_parameters,
)

__all__ = [
    "LEARNERS",
    "SMALL",
    "WITHOUT_NUMBA",
    "WITH_NUMBA",
    "choose",
    "is_predictor",
    "list_defaults",
]

WITH_NUMBA = [name for name in LEARNERS if name in find_learners_with_numba()]
WITHOUT_NUMBA = [name for name in LEARNERS if name not in WITH_NUMBA]
# Learners whose `init` hands other keywords on to that of another one.
_HANDED_ON = {"stream-q-l2init": "stream-q"}
# As small as it can be: every line of code still runs within a few hundred timesteps.
SMALL: dict[str, Any] = {
    **{"block_decisions": 7, "first_update": 20, "decisions_per_update": 7},
    **{"capacity": 90, "batch_size": 4, "size": 42, "hidden": 16},
    **{"pull": 1e-3, "renewal": 0.5},
}


def list_defaults(name: str) -> dict[str, Any]:
    """Hyper-parameter -> default, with those that are handed on."""
    handed_on = _HANDED_ON.get(name)
    more = list_hyper_parameters(handed_on) if handed_on else {}
    return more | list_hyper_parameters(name)


def choose(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Those of some hyper-parameters that a learner has."""
    known = list_defaults(name)
    return {key: value for key, value in values.items() if key in known}
