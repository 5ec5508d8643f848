"""docs/learners.md says what the code does."""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from longplay.agents.source.loading import BUILT_IN_AGENTS

ROOT = Path(__file__).parents[2]
GIVEN = ("observation_shape", "num_actions", "seed")
LEARNERS = {
    name: importlib.import_module(where.partition(":")[0])
    for name, where in BUILT_IN_AGENTS.items()
    if where.endswith(":module")
}


def read_page() -> str:
    return (ROOT / "docs/learners.md").read_text(encoding="utf-8")


def write_default(value: Any) -> str:
    """As `--agent-arg` reads it, where that is JSON."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def list_defaults(name: str) -> dict[str, str]:
    """Hyper-parameter -> default, as the table writes it."""
    parameters = inspect.signature(LEARNERS[name].init).parameters
    return {
        key: write_default(parameter.default)
        for key, parameter in parameters.items()
        if key not in GIVEN and parameter.kind is not parameter.VAR_KEYWORD
    }


def make_table() -> list[str]:
    """One row per hyper-parameter, one column per learner."""
    defaults = {name: list_defaults(name) for name in LEARNERS}
    keys = list(dict.fromkeys(key for each in defaults.values() for key in each))
    header = "| | " + " | ".join(f"`{name}`" for name in defaults) + " |"
    rows = [
        f"| `{key}` | "
        + " | ".join(each.get(key, "") for each in defaults.values())
        + " |"
        for key in keys
    ]
    return [header, "|---|" + "---|" * len(defaults), *rows]


def test_hyper_parameters_are_those_of_the_code() -> None:
    page = read_page().split("<!-- hyper-parameters -->\n")[1].split("<!-- end -->")[0]
    table = [line for line in page.splitlines() if line.startswith("|")]
    assert table == make_table()


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_is_on_the_page(name: str) -> None:
    assert f"| `{name}` |" in read_page()
