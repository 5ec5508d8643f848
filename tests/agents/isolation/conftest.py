"""Fixtures that start agents in their own processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longplay.agents.isolation.levels import Isolation
from longplay.agents.isolation.remote import (
    IsolatedAgent,
    RemoteAgent,
    load_isolated_agent,
)

FRAME = np.zeros((210, 160, 3), np.uint8)
DECIDE = {"is_decision_frame": True}
WAIT = {"is_decision_frame": False}


def ask(agent: Any, info: dict[str, bool] = DECIDE) -> Any:
    return agent.step(FRAME, 0.0, False, False, dict(info))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    """Writes a file of an agent and returns its path."""

    def write(source: str, name: str = "agent.py") -> str:
        path = tmp_path / "agent" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        return str(path)

    return write


@pytest.fixture
def start(
    write: Callable[..., str],
) -> Iterator[Callable[..., tuple[IsolatedAgent, RemoteAgent]]]:
    """Builds an agent in its own process, from source."""
    built: list[RemoteAgent] = []

    def start(
        source: str, level: str = "process", **options: Any
    ) -> tuple[IsolatedAgent, RemoteAgent]:
        isolation = Isolation(level, **options)  # type: ignore[arg-type]
        loaded = load_isolated_agent(write(source), isolation)
        agent = loaded.build(7)
        built.append(agent)
        return loaded, agent

    yield start
    for agent in built:
        agent._process.close()
