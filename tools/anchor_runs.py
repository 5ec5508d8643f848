"""Runs -> the measurements behind the anchors, and the anchors themselves.

lower, any suite     runs of the random agent on the suite
upper, anchors-2     visits of anchor policies (`python -m references anchors`); on
                     games without one as in anchors-1
upper, anchors-1     the reference policies of a prediction suite, which play there
                     whatever the agent predicts; on streaming suites runs of
                     specialists, one game each
explore-only         runs of that agent on the suite
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longplay.contract.config import RunConfig
from longplay.contract.curves import Curves
from longplay.errors import ConfigError
from longplay.lab.analysis.intervals import standard_error
from longplay.lab.analysis.runs import MeasuredRun
from longplay.scoring.anchors import GameAnchors, SuiteAnchors, UpperSource
from longplay.scoring.metrics import mean_or_none
from longplay.suites import get_suite
from references.training.anchor_facts import AnchorFacts

_LAST_THIRD = 1 / 3
_RULES = (
    "frame_skip",
    "reward",
    "decision_interval",
    "delay",
    "sticky",
    "life_loss_termination",
    "full_action_space",
)


@dataclass(frozen=True)
class RandomMeasurement:
    """The random agent on one game.

    Attributes:
        rates: (runs,) mean over the game's visits of reward per frame.
        forgetting: (runs,) mean over its revisits; empty without revisits.
        recovery: (runs,) the same for recovery.
    """

    rates: NDArray[np.float64]
    forgetting: NDArray[np.float64]
    recovery: NDArray[np.float64]


@dataclass(frozen=True)
class UpperMeasurement:
    """The upper anchor on one game: (runs or visits,) reward per frame."""

    rates: NDArray[np.float64]
    source: UpperSource


def make_game_anchors(
    random: RandomMeasurement,
    upper: UpperMeasurement | None,
    explore_only: float | None = None,
) -> GameAnchors:
    """Measurements -> the anchors of a game.

    Raises:
        ValueError: The random agent has no run.
    """
    lower = mean_or_none(random.rates.tolist())
    if lower is None:
        raise ValueError("expected at least one run of the random agent, found none")
    return GameAnchors(
        lower=lower,
        lower_error=standard_error(random.rates),
        upper=None if upper is None else mean_or_none(upper.rates.tolist()),
        upper_error=None if upper is None else standard_error(upper.rates),
        upper_source=None if upper is None else upper.source,
        random_forgetting=mean_or_none(random.forgetting.tolist()),
        random_recovery=mean_or_none(random.recovery.tolist()),
        explore_only=explore_only,
    )


def measure_random(runs: Sequence[MeasuredRun]) -> dict[str, RandomMeasurement]:
    """Game -> measurements of the random agent, run by run."""
    rates = [run.measure() for run in runs]
    found = {}
    for column, game in enumerate(runs[0].config.games):
        average, forgetting, recovery = (
            np.array([getattr(one, name)[column] for one in rates])
            for name in ("average", "forgetting", "recovery")
        )
        found[game] = RandomMeasurement(
            average,
            forgetting[~np.isnan(forgetting)],
            recovery[~np.isnan(recovery)],
        )
    return found


def measure_policies(runs: Sequence[MeasuredRun]) -> dict[str, UpperMeasurement]:
    """Game -> reward rate of its reference policy, per run of a prediction suite."""
    games = runs[0].config.games
    rates = np.array([run.measure().average for run in runs])
    return {
        game: UpperMeasurement(column, "reference policy")
        for game, column in zip(games, rates.T, strict=True)
    }


def measure_specialists(runs: Sequence[MeasuredRun]) -> dict[str, UpperMeasurement]:
    """Game -> reward rate of its specialist in the last third of each run.

    Raises:
        ConfigError: A run has several games, or its rows are missing.
    """
    rates: dict[str, list[float]] = {}
    for run in runs:
        if len(run.config.games) != 1 or run.curves is None:
            raise ConfigError(
                f"{run.path}: expected a run of one game with its rows, found "
                f"{len(run.config.games)} games"
                + ("" if run.curves else " and no rows")
            )
        rate = rate_of_last(run.curves, _LAST_THIRD)
        rates.setdefault(run.config.games[0], []).append(rate)
    return {
        game: UpperMeasurement(np.array(values), "specialist")
        for game, values in rates.items()
    }


def rate_of_last(curves: Curves, share: float) -> float:
    """Reward per frame over the last share of a run, to the nearest window."""
    frames, rewards = curves.frames.ravel(), curves.rewards.ravel()
    starts = np.cumsum(frames) - frames
    kept = starts >= round((1 - share) * frames.sum())
    return float(rewards[kept].sum() / frames[kept].sum())


def measure_anchor_policies(
    facts: Sequence[AnchorFacts],
) -> dict[str, UpperMeasurement]:
    """Game -> reward rate of its anchor policy, visit by visit."""
    return {
        one.game: UpperMeasurement(
            np.array([visit.rate for visit in one.visits]), "anchor policy"
        )
        for one in facts
    }


def measure_suite(
    random_runs: Sequence[MeasuredRun],
    upper_runs: Sequence[MeasuredRun],
    policies: Sequence[AnchorFacts] = (),
    explorers: Sequence[MeasuredRun] = (),
) -> SuiteAnchors:
    """Measurements of both anchors -> the anchors of the random runs' suite.

    Args:
        random_runs: The random agent on the suite.
        upper_runs: Runs of a prediction suite, or of specialists.
        policies: Anchor policies; they take precedence over `upper_runs`.
        explorers: `explore-only` on the suite.

    Raises:
        ConfigError: The runs are not of one suite, or do not fit each other.
    """
    _check_agent(random_runs, "random")
    config = random_runs[0].config
    uppers: dict[str, UpperMeasurement] = {}
    if upper_runs:
        _check_uppers(upper_runs, config)
        are_policies = upper_runs[0].track.predicts
        measure = measure_policies if are_policies else measure_specialists
        uppers = measure(upper_runs)
    for facts in policies:
        _check_rules(facts.game, _rules_of_policy(facts), config)
    uppers |= measure_anchor_policies(policies)
    explored = _measure_explorers(explorers, random_runs)
    versions = config.versions or {}
    visited = {visit.seed for facts in policies for visit in facts.visits}
    return SuiteAnchors(
        random_seeds=tuple(_seeds_of(random_runs)),
        upper_seeds=tuple(sorted({*_seeds_of(upper_runs), *visited})),
        versions={n: versions[n] for n in ("longplay", "ale_py") if n in versions},
        games={
            game: make_game_anchors(random, uppers.get(game), explored.get(game))
            for game, random in measure_random(random_runs).items()
        },
    )


def _measure_explorers(
    runs: Sequence[MeasuredRun], random_runs: Sequence[MeasuredRun]
) -> dict[str, float]:
    """Game -> mean rate of `explore-only`; empty without runs."""
    if not runs:
        return {}
    _check_agent(runs, "explore-only")
    if runs[0].conditions != random_runs[0].conditions:
        raise ConfigError(
            f"explore-only: expected runs of {random_runs[0].conditions.suite}, found "
            f"{runs[0].conditions.suite}"
        )
    rates = np.array([run.measure().average for run in runs])
    return dict(zip(runs[0].config.games, rates.mean(axis=0).tolist(), strict=True))


def _check_agent(runs: Sequence[MeasuredRun], agent: str) -> None:
    """Refuses runs that are not one run per seed of one agent on one suite."""
    suites = {run.conditions for run in runs}
    if len(suites) != 1:
        names = ", ".join(sorted(conditions.suite for conditions in suites)) or "none"
        raise ConfigError(f"{agent}: expected runs of one suite, found {names}")
    agents = sorted({run.agent.name for run in runs})
    seeds = _seeds_of(runs)
    if agents != [agent] or len(seeds) != len(runs):
        raise ConfigError(
            f"{agent}: expected one run per seed of `{agent}`, found "
            f"{len(runs)} runs of {', '.join(agents)} on {len(seeds)} seeds"
        )


def _check_uppers(runs: Sequence[MeasuredRun], config: RunConfig) -> None:
    """Refuses runs that say nothing about the games as the random agent played them."""
    if len({run.track.predicts for run in runs}) > 1:
        raise ConfigError(
            "upper anchor: expected runs of a prediction suite or of specialists, "
            "found both"
        )
    played = Counter((run.config.games, run.seed) for run in runs)
    (games, seed), count = played.most_common(1)[0]
    if count > 1:
        raise ConfigError(
            f"upper anchor: expected one run per seed, found {count} of "
            f"{', '.join(games)} on seed {seed}"
        )
    agents = sorted({run.agent.name for run in runs})
    if len(agents) > 1:
        raise ConfigError(
            f"upper anchor: expected runs of one agent, found {', '.join(agents)}"
        )
    for run in runs:
        _check_rules(str(run.path), _rules_of(run.config), config)


def _check_rules(where: str, found: Mapping[str, Any], config: RunConfig) -> None:
    expected = _rules_of(config)
    for name in expected:
        if found[name] != expected[name]:
            raise ConfigError(
                f"{where}: {name}: expected {expected[name]}, as in the random "
                f"agent's runs, found {found[name]}"
            )


def _rules_of(config: RunConfig) -> dict[str, Any]:
    """Emulator and rules: what the reward of an action depends on."""
    return {
        "ale_py": (config.versions or {}).get("ale_py"),
        **{name: getattr(config, name) for name in _RULES},
    }


def _rules_of_policy(facts: AnchorFacts) -> dict[str, Any]:
    suite = get_suite(facts.suite)
    return {
        "ale_py": facts.versions["ale_py"],
        **{name: getattr(suite, name, None) for name in _RULES},
    }


def _seeds_of(runs: Sequence[MeasuredRun]) -> list[int]:
    return sorted({run.seed for run in runs if run.seed is not None})
