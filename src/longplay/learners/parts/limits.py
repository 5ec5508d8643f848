"""Hyper-parameters of learners -> a clear error where one is out of range.

A name has the same limits in every learner. What depends on two of them is checked by
the part that uses them: `capacity` by the replay and dqn, `size` by vision and network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

from longplay.errors import ConfigError

MEMORIES = ("carry", "reset", "library")
METHODS = ("none", "rehearsal", "ewc", "redo", "shrink-perturb")


class Limit(NamedTuple):
    """The values that a hyper-parameter may have, in words and as a test."""

    expected: str
    allows: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    return is_real and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return _is_number(value) and isinstance(value, Integral) and int(value) >= 1


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


_COUNT = Limit("a whole number, at least 1", _is_count)
_POSITIVE = Limit("a number above 0", lambda value: _is_number(value) and value > 0)
_NOT_NEGATIVE = Limit(
    "a number, at least 0", lambda value: _is_number(value) and value >= 0
)
_SHARE = Limit("a number from 0 to 1", _is_share)
_SHARE_BELOW_1 = Limit(
    "a number from 0 to below 1", lambda value: _is_share(value) and value < 1
)
_SHARE_ABOVE_0 = Limit(
    "a number above 0, at most 1", lambda value: _is_share(value) and value > 0
)
# The bandit tries each rate again after 25 blocks: with 25 rates it never chooses.
_MOST_RATES = 10
_RATES = Limit(
    f"a list of 1 to {_MOST_RATES} rates from 0 to 1",
    lambda value: (
        isinstance(value, list | tuple)
        and 1 <= len(value) <= _MOST_RATES
        and all(map(_is_share, value))
    ),
)
_MEMORY = Limit(
    f"one of {', '.join(MEMORIES)}",
    lambda value: isinstance(value, str) and value in MEMORIES,
)
_METHOD = Limit(
    f"one of {', '.join(METHODS)}",
    lambda value: isinstance(value, str) and value in METHODS,
)
_STRENGTH = Limit(
    "null or a number above 0",
    lambda value: value is None or (_is_number(value) and value > 0),
)
_FLAG = Limit("true or false", lambda value: isinstance(value, bool))

LIMITS: Mapping[str, Limit] = {
    "step_size": _NOT_NEGATIVE,  # 0: without learning
    "discount": _SHARE,
    "trace_decay": _SHARE,
    "bias": _POSITIVE,
    "horizon": _COUNT,
    "epsilons": _RATES,
    "block_decisions": _COUNT,
    "kappa": _POSITIVE,
    "cut_traces": _FLAG,
    "shared_parts": _FLAG,
    "sparsity": _SHARE_BELOW_1,
    "size": _COUNT,
    "frames": _COUNT,
    "hidden": _COUNT,
    "pull": _SHARE,
    "renewal": _SHARE,
    "returns": _COUNT,
    "batch_size": _COUNT,
    "decisions_per_update": _COUNT,
    "first_update": _NOT_NEGATIVE,
    "target_share": _SHARE_ABOVE_0,
    "capacity": _COUNT,
    "samples": _COUNT,
    "ridge": _POSITIVE,
    "decisions_per_copy": _COUNT,
    "pair_size": _SHARE,
    "memory": _MEMORY,
    "method": _METHOD,
    "strength": _STRENGTH,
}


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Checks every argument of `init` that has a limit; others are the caller's own.

    Raises:
        ConfigError: A hyper-parameter is of the wrong type or out of range.
    """
    for name, value in arguments.items():
        limit = LIMITS.get(name)
        if limit is not None and not limit.allows(value):
            raise ConfigError(f"{name}: expected {limit.expected}, found {value!r}")
