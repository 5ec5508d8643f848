"""The modules of `longplay.learners` -> the tables of docs/learners.md.

    python docs/generate/learner_tables.py        writes them again

One table has what each learner does, from the first line of its docstring, and what it
needs; the other its hyper-parameters with their defaults, from the signature of `init`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from longplay.agents.source.loading import BUILT_IN_AGENTS

PAGE = Path(__file__).parents[1] / "learners.md"
LEARNERS: Mapping[str, ModuleType] = {
    name: importlib.import_module(where.partition(":")[0])
    for name, where in BUILT_IN_AGENTS.items()
    if where.startswith("longplay.learners.")
}
# What `init` is given by the track, not by the user.
_GIVEN = ("observation_shape", "num_actions", "seed")

_PRINT_WHAT_NEEDS_NUMBA = """
import importlib, sys
from longplay.errors import MissingExtraError
sys.modules["numba"] = None  # importing it raises ModuleNotFoundError
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except MissingExtraError:
        print(name)
"""


@cache
def find_learners_with_numba() -> frozenset[str]:
    """The learners that cannot be imported without numba."""
    names = {module.__name__: name for name, module in LEARNERS.items()}
    command = [sys.executable, "-c", _PRINT_WHAT_NEEDS_NUMBA, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return frozenset(names[line] for line in done.stdout.splitlines())


def list_hyper_parameters(name: str) -> dict[str, Any]:
    """Hyper-parameter -> default, of what a learner's `init` lists by name."""
    parameters = inspect.signature(LEARNERS[name].init).parameters
    return {
        key: parameter.default
        for key, parameter in parameters.items()
        if key not in _GIVEN and parameter.kind is not parameter.VAR_KEYWORD
    }


def is_predictor(name: str) -> bool:
    """Whether a learner predicts, and does not act."""
    return "num_actions" not in inspect.signature(LEARNERS[name].init).parameters


def _list_learners() -> list[str]:
    needs = dict.fromkeys(find_learners_with_numba(), "`pip install '.[learn]'`")
    rows = []
    for name, module in LEARNERS.items():
        summary = (module.__doc__ or "").splitlines()[0].rstrip(".")
        plays = "prediction" if is_predictor(name) else "control, streaming"
        rows.append(f"| `{name}` | {summary} | {plays} | {needs.get(name, 'NumPy')} |")
    return ["| name | what it is | suites | needs |", "|---|---|---|---|", *rows]


def _list_defaults() -> list[str]:
    """One row per learner: `name=default`, as `--agent-arg` takes it."""
    rows = []
    for name in LEARNERS:
        defaults = list_hyper_parameters(name).items()
        settings = ", ".join(f"`{key}={_write(value)}`" for key, value in defaults)
        rows.append(f"| `{name}` | {settings} |")
    return ["| learner | hyper-parameters with their defaults |", "|---|---|", *rows]


def _write(value: Any) -> str:
    """A default as `--agent-arg` reads it."""
    if value is None or isinstance(value, bool | tuple):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def fill_tables(page: str) -> str:
    """The page with its generated tables."""
    page = _fill(page, "learners", _list_learners())
    return _fill(page, "hyper-parameters", _list_defaults())


def _fill(page: str, mark: str, lines: Sequence[str]) -> str:
    table = "\n".join(lines) + "\n"
    pattern = rf"(<!-- {mark} -->\n).*?(<!-- end -->)"
    return re.sub(pattern, rf"\g<1>{table}\g<2>", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(fill_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
