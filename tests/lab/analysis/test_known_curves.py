"""An agent that learns and forgets by construction, played on a scripted console."""

from __future__ import annotations

from pathlib import Path

import pytest

from longplay.console.base import ConsoleStep
from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import RunConfig
from longplay.lab.analysis.comparison import Request, compare
from longplay.lab.analysis.records import AgentNumbers
from longplay.lab.analysis.runs import RunReader
from longplay.stream import Percept, Stream
from made_up_anchors import make_anchors, make_game
from written_runs import make_config, name_short_suite, write_run

VISIT_FRAMES = 600
TENTH = VISIT_FRAMES // 10
RULES = {
    "base_visit_frames": VISIT_FRAMES,
    "jitter_pct": 0.0,
    "delay": 0,
    "decision_interval": 1,
}
SUITE = name_short_suite(RULES)
# What share of the frames of each tenth it does the right thing in.
LEARNING = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
REMEMBERING = [0.9] * 10
FORGETTING = [0.4] + [0.9] * 9
LOSING_ALL = LEARNING


class PayingConsole(ScriptedConsole):
    """A point for every frame with the fire button pressed."""

    def step(self, action: int) -> ConsoleStep:
        _, game_over, lives = super().step(action)
        return float(action == 1), game_over, lives


class PlannedLearner:
    """Presses fire in a planned share of each tenth; counts visits by `truncated`."""

    def __init__(self, *plans: list[float]) -> None:
        self._plans = plans
        self._visit, self._frame = 0, 0

    def step(self, percept: Percept) -> int:
        if percept.truncated:
            self._visit, self._frame = self._visit + 1, 0
        tenth, within = divmod(self._frame, TENTH)
        self._frame += 1
        share = self._plans[self._visit // 3][tenth]
        return int(within < round(share * TENTH))


def play(run_dir: Path, config: RunConfig, agent: PlannedLearner) -> None:
    stream = Stream.from_config(config, PayingConsole(life_frames=37))
    rewards = []
    while not stream.done:
        rewards.append(stream.advance(agent.step(stream.percept())).reward)
    write_run(run_dir, config, rewards)


def analyse(folder: Path, *plans: list[float]) -> AgentNumbers:
    """b = 0.1, u = 0.6: z of a rate of 0.35 is ½. Random loses nothing at a reset."""
    play(folder / "run", make_config(overrides=RULES), PlannedLearner(*plans))
    entry = make_game(
        lower=0.1,
        lower_error=0.01,
        upper=0.6,
        upper_error=0.01,
        random_forgetting=0.0,
        random_recovery=0.0,
    )
    games = dict.fromkeys(("centipede", "ms_pacman", "qbert"), entry)
    request = Request(make_anchors(SUITE, **games))
    found = compare(RunReader().read([folder]), request)
    return next(suite for suite in found.suites if suite.suite == SUITE).agents[0]


@pytest.mark.parametrize(
    ("second", "retention", "change", "recovery"),
    [
        # Heads 0.9 and 0.0: kept (0.9 - 0) / 0.5, nothing lost, nothing to recover.
        (REMEMBERING, 1.8, 0.0, 0.0),
        # Heads 0.4 and 0.0; the tail before was 0.9; the first half after has 0.8.
        (FORGETTING, 0.8, 1.0, 0.2),
        # Begins anew: kept nothing, lost 0.9, the first half after has 0.2.
        (LOSING_ALL, 0.0, 1.8, 1.4),
    ],
)
def test_retention_and_change_have_the_right_size(
    tmp_path, second, retention, change, recovery
):
    agent = analyse(tmp_path, LEARNING, second)
    assert agent.numbers["retention"].mean == pytest.approx(retention)
    assert agent.numbers["change_at_revisit"].mean == pytest.approx(change)
    assert agent.numbers["recovery"].mean == pytest.approx(recovery)


def test_performance_has_the_right_size(tmp_path):
    """Rates 0.45 and 0.85 over the visits, 0.9 at the end: (x - 0.1) / 0.5."""
    agent = analyse(tmp_path, LEARNING, FORGETTING)
    assert agent.numbers["average"].mean == pytest.approx((0.65 - 0.1) / 0.5)
    assert agent.numbers["final"].mean == pytest.approx((0.9 - 0.1) / 0.5)


@pytest.mark.parametrize(
    ("first", "transfer"), [(LEARNING, 0.0), (REMEMBERING, 0.9), ([0.0] * 10, -0.9)]
)
def test_forward_transfer_has_the_right_size(tmp_path, first, transfer):
    """Alone on a game a fresh agent has a rate of 0.45 over as many frames."""
    for game in ("centipede", "ms_pacman", "qbert"):
        single = make_config(
            seed=1, overrides={**RULES, "games": [game], "num_cycles": 1}
        )
        play(tmp_path / game, single, PlannedLearner(LEARNING))
    agent = analyse(tmp_path, first, first)
    assert agent.numbers["transfer"].mean == pytest.approx(transfer)
