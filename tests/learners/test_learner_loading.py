"""Learners by name: their configs, and an install without the extra."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import longplay.learners
from all_learners import LEARNERS, WITH_NUMBA, WITHOUT_NUMBA
from longplay.agents.source.loading import BUILT_IN_AGENTS, load_agent
from longplay.errors import MissingExtraError


def test_each_module_of_the_folder_is_a_learner_by_its_name() -> None:
    folder = Path(longplay.learners.__file__).parent
    stems = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert {name.replace("-", "_") for name in LEARNERS} == stems
    assert BUILT_IN_AGENTS["linear-td"] == "longplay.learners.linear_td:module"


def test_it_is_known_what_needs_numba() -> None:
    assert {"blind", "linear-sarsa", "linear-td"} <= set(WITHOUT_NUMBA)
    assert {"dqn", "stream-q", "lstd-td"} <= set(WITH_NUMBA)


@pytest.mark.parametrize("name", LEARNERS)
def test_config_has_the_revision(name: str) -> None:
    config = load_agent(name).entry.config
    module = LEARNERS[name]
    assert config == {
        "_type": f"{module.__name__}.module",
        "args": {},
        "revision": module.REVISION,
    }
    assert module.REVISION >= 1


def test_another_revision_is_another_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_agent("linear-sarsa").entry.agent_id
    monkeypatch.setattr(LEARNERS["linear-sarsa"], "REVISION", 99)
    assert load_agent("linear-sarsa").entry.agent_id != first


def test_other_agents_have_none() -> None:
    assert "revision" not in load_agent("random").entry.config
    assert "revision" not in load_agent("longplay.learners.dqn:module").entry.config


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if numba were not installed, and no learner imported yet."""
    for name in [n for n in sys.modules if n.startswith("longplay.learners")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numba", None)


@pytest.mark.parametrize("name", WITH_NUMBA)
@pytest.mark.usefixtures("without_numba")
def test_compiled_learners_need_the_extra(name: str) -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'longplay\[learn\]'"):
        load_agent(name)


@pytest.mark.parametrize("name", WITHOUT_NUMBA)
@pytest.mark.usefixtures("without_numba")
def test_others_need_no_extra(name: str) -> None:
    assert load_agent(name).name == name


@pytest.mark.usefixtures("without_numba")
def test_agents_are_listed_without_the_extra(invoke: Callable[..., Any]) -> None:
    rows = {row["agent"]: row["summary"] for row in invoke("agents", "--json").json}
    assert "pip install 'longplay[learn]'" in rows["stream-q"]
    assert rows["linear-sarsa"].startswith("Linear expected Sarsa")
