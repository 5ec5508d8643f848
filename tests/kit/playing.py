"""Plays one run, for tests that need one."""

from __future__ import annotations

from typing import Any

import longplay
from longplay.experiments.job import RunResult


def play_run(suite: str, agent: Any, *, seed: int = 0, **options: Any) -> RunResult:
    """The one run of an experiment of one seed."""
    (result,) = longplay.run(suite, agent, seeds=[seed], **options).runs
    return result
