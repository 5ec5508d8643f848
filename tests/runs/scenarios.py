"""The runs that are stopped and resumed: every boundary kind, every built-in agent."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from killing import Ended, Fault, find_run_dir, read_result, run_command

EXAMPLES = Path(__file__).parents[2] / "examples"
# Has no `save`; its answers depend on everything it has seen.
REPLAYED = Path(__file__).parent / "replayed_agent.py"


@dataclass(frozen=True)
class Scenario:
    """A run to be stopped."""

    name: str
    agent: str
    settings: dict[str, Any] = field(default_factory=dict)
    suite: str = "stream-smoke-v1"

    def run(self, out: Path, *options: object, fault: Fault | None = None) -> Ended:
        """Starts or resumes the run: the same command line does both."""
        sets = [f"--set={key}={json.dumps(v)}" for key, v in self.settings.items()]
        return run_command(
            *(out.with_suffix(".process"), "run", self.suite, "--agent", self.agent),
            *("--out", out, "--resume", "--quiet", *sets, *options),
            fault=fault,
        )


# In both games there are few lives, and some visits contain a game over.
SHORT_GAMES = {"games": ["berzerk", "breakout"], "base_visit_frames": 800}
QUICK = {"games": ["breakout", "berzerk"], "num_cycles": 1, "base_visit_frames": 150}

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("random", "random", {**SHORT_GAMES, "num_cycles": 1}),
        Scenario(
            "life loss",
            str(EXAMPLES / "streaming_bandit.py"),
            {
                **SHORT_GAMES,
                "life_loss_termination": True,
                "delay": 6,
                "jitter_pct": 0.1,
            },
        ),
        Scenario(
            "every frame",
            "repeat",
            {
                **QUICK,
                "num_cycles": 2,
                "decision_interval": 1,
                "delay": 0,
                "jitter_pct": 0.0,
                "sticky": 0.0,
                "full_action_space": False,
            },
        ),
        Scenario("rare", "noop", {**QUICK, "decision_interval": 7, "delay": 3}),
        Scenario(
            "control",
            str(EXAMPLES / "control_linear_q.py"),
            {"base_visit_frames": 60},
            "control-smoke-v1",
        ),
        Scenario(
            "control game over",
            "random",
            {"games": ["breakout", "berzerk"], "base_visit_frames": 220},
            "control-smoke-v1",
        ),
        Scenario("functional", str(EXAMPLES / "control_linear_q.py"), QUICK),
        Scenario("replayed", str(REPLAYED), QUICK),
        Scenario("tiny", "random", {**QUICK, "base_visit_frames": 40}),
    )
}


@dataclass(frozen=True)
class Reference:
    """An uninterrupted run."""

    scenario: Scenario
    run_dir: Path
    result: dict[str, Any]
    counts: dict[str, int]

    @classmethod
    def play(cls, scenario: Scenario, folder: Path) -> Reference:
        ended = scenario.run(folder / "reference")
        assert ended.exit_code == 0, ended.output
        run_dir = find_run_dir(folder / "reference")
        assert run_dir is not None
        return cls(scenario, run_dir, read_result(run_dir), ended.counts)


@dataclass(frozen=True)
class Stopped:
    """A run that was killed at a visit's end, while it wrote a checkpoint."""

    reference: Reference
    out: Path

    @property
    def run_dir(self) -> Path:
        run_dir = find_run_dir(self.out)
        assert run_dir is not None
        return run_dir

    @property
    def checkpoint(self) -> Path:
        """The document of the last checkpoint."""
        (document,) = self.run_dir.glob("checkpoint/*/checkpoint.json")
        return document

    @property
    def kept_bytes(self) -> dict[str, int]:
        """The lengths of the row files at the last checkpoint."""
        sizes: dict[str, int] = json.loads(self.checkpoint.read_text())["recorder"][
            "sizes_bytes"
        ]
        return sizes
