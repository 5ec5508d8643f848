"""Plays the fixed actions of `longplay doctor`, and writes what they must give.

python tools/doctor_traces.py
"""

from __future__ import annotations

import platform

import numpy as np

from longplay.console.ale import ALE_VERSION
from longplay.contract.files import write_document
from longplay.plan import plan_run
from longplay.verify.doctor import (
    SCHEDULE_SUITE,
    TRACES,
    Traces,
    list_suite_games,
    trace_game,
)


def make_traces() -> Traces:
    """Plays the fixed actions on every game of the suites."""
    return Traces(
        versions={
            "python": platform.python_version(),
            "ale_py": ALE_VERSION,
            "numpy": np.__version__,
        },
        schedule_hash=plan_run(SCHEDULE_SUITE).config.benchmark_contract_hash,
        games={game_id: trace_game(game_id) for game_id in list_suite_games()},
    )


if __name__ == "__main__":
    write_document(TRACES, make_traces())
