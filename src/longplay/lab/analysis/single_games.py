"""Runs of an agent on one game alone, the baseline of forward transfer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from longplay.contract.config import RunConfig
from longplay.lab.analysis.agent_arrays import AloneRate
from longplay.lab.analysis.runs import MeasuredRun
from longplay.scoring.metrics import mean_or_none


class SingleGameRuns:
    """The single-game runs among the given runs."""

    def __init__(self, runs: Iterable[MeasuredRun]) -> None:
        self._runs: dict[Any, list[MeasuredRun]] = {}
        for run in runs:
            if len(run.config.games) == 1 and run.curves is not None:
                (game,) = run.config.games
                key = (run.agent, game, _rules_of(run.config, game))
                self._runs.setdefault(key, []).append(run)

    def rates_for(self, run: MeasuredRun) -> AloneRate:
        """Rates of the same agent and settings on single games, mean over runs.

        Single-game runs shorter than the requested length are ignored.
        """

        def find(game: str, frames: int) -> float | None:
            key = (run.agent, game, _rules_of(run.config, game))
            rates = [
                single.curves.rate_of_first(0, frames)
                for single in self._runs.get(key, ())
                if single.curves is not None
            ]
            return mean_or_none([rate for rate in rates if not math.isnan(rate)])

        return find


def _rules_of(config: RunConfig, game: str) -> tuple[Any, ...]:
    """All settings of a run except the schedule, and its emulator and ROM."""
    roms = config.rom_sha256 or config.rom_md5 or {}
    return (
        (config.versions or {}).get("ale_py"),
        roms.get(game),
        config.benchmark_contract_version,
        config.decision_interval,
        config.delay,
        config.sticky,
        config.life_loss_termination,
        config.full_action_space,
        config.frame_skip,
        config.reward,
    )
