"""A branch continues exactly as the stream itself would have."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import longplay
from longplay.agents.isolation.levels import Isolation
from longplay.agents.isolation.remote import load_agent_at
from longplay.contract.config import PendingPercept, ProbeConfig, ProbeOrigin
from longplay.contract.rundir import RunDirectory
from longplay.errors import AgentLoadError, ConfigError
from longplay.experiments.experiment import Experiment, plan_seeds
from longplay.plan import RunPlan, plan_probe
from longplay.runs.options import RunOptions
from longplay.runs.probe_session import ProbeSession
from longplay.seeds import policy_seed
from longplay.verify.verification import verify_run

EXAMPLES = Path(__file__).parents[2] / "examples"
# Not the same in a probe, whose rows count from 0.
COUNTED = ("global_frame_idx", "visit_idx", "cycle_idx", "episode_id", "segment_id")

TRACKS = {
    "streaming": ("stream-smoke-v1", {"games": ["qbert", "pong"]}),
    "control": ("control-smoke-v1", {"games": ["qbert", "pong"]}),
    "prediction": ("prediction-smoke-v1", {"games": ["pong", "breakout"]}),
}
COUNTER = """
import json, pathlib, zlib

class Agent:
    def __init__(self, num_actions, seed):
        self.num_actions, self.total = num_actions, seed

    def step(self, obs_rgb, reward, terminated, truncated, info):
        self.total += int(3 * reward) + terminated + 1
        return (zlib.crc32(obs_rgb.tobytes()) + self.total) % self.num_actions

    def save(self, directory):
        (pathlib.Path(directory) / "total.json").write_text(json.dumps(self.total))

    def load(self, directory):
        self.total = json.loads((pathlib.Path(directory) / "total.json").read_text())
"""
# Track -> an agent of each kind: built in, a learner, functions, a class of one's own.
ACTING = {
    "random": "random",
    "learner": "linear-sarsa",
    "functions": str(EXAMPLES / "control_linear_q.py"),
    "class": "counter.py",
}
AGENTS = {
    "streaming": ACTING,
    "control": ACTING,
    "prediction": {
        "learner": "linear-td",
        "functions": str(EXAMPLES / "prediction_td_lambda.py"),
    },
}


def find_agent(folder: Path, track: str, kind: str) -> str:
    if kind != "class":
        return AGENTS[track][kind]
    path = folder / AGENTS[track][kind]
    path.write_text(COUNTER)
    return str(path)


def play(folder: Path, track: str, kind: str, level: str = "none") -> Path:
    """A run with short visits that keeps its states."""
    suite, overrides = TRACKS[track]
    settings = {**overrides, "base_visit_frames": 130, "num_cycles": 1}
    if track == "streaming":
        settings |= {"jitter_pct": 0.0}
    plans = plan_seeds(suite, [1000], settings)
    experiment = Experiment.create(
        plans,
        find_agent(folder, track, kind),
        out=folder / "run",
        isolation=Isolation(level),  # type: ignore[arg-type]
    )
    experiment = replace(experiment, options=RunOptions(keep_agent="visits"))
    (result,) = experiment.run_sequentially()
    assert result.state == "COMPLETED", result.error
    return result.run_dir


def plan_branch(run: RunDirectory, state: str, branches: int = 2) -> RunPlan:
    """The next visit of the run, twice, with the run's own emulator seed."""
    config, summary = run.config, run.summary
    assert summary is not None and config.agent is not None
    assert config.config_given is not None and config.seed is not None
    after = -1 if state == "fresh" else int(state.removeprefix("visit-"))
    frames = sum(visit.visit_frames for visit in config.schedule[: after + 1])
    rows = run.events.numpy("reward", "terminated", "truncated")
    pending = PendingPercept(
        reward=0.0 if frames == 0 else float(rows["reward"][frames - 1]),
        terminated=frames > 0 and bool(rows["terminated"][frames - 1]),
        truncated=frames > 0 and bool(rows["truncated"][frames - 1]),
        global_frame_idx=frames,
    )
    probe = ProbeConfig(
        state=state,
        state_sha256=(summary.agent_states or {})[state].sha256 if frames else None,
        of=ProbeOrigin(
            suite=str(config.suite),
            seed=config.seed,
            agent_id=config.agent.agent_id,
            chain_head=str(summary.chain_head),
        ),
        pending=pending,
        branches=branches,
        frames=config.schedule[after + 1].visit_frames,
    )
    (run_plan,) = plan_seeds(
        config.config_given.suite, [config.seed], config.config_given.overrides
    )
    plan = plan_probe(run_plan, probe, [config.schedule[after + 1].game_id])
    assert config.emulator_seeds is not None
    seeds = (config.emulator_seeds[after + 1],) * branches
    plan.__dict__["config"] = plan.config.model_copy(update={"emulator_seeds": seeds})
    return plan


def read_rows(run_dir: Path, visit: int) -> list[dict[str, object]]:
    lines = (run_dir / "events.jsonl").read_bytes().splitlines()
    rows = [msgspec.json.decode(line) for line in lines]
    mine = [row for row in rows if row["visit_idx"] == visit]
    return [{k: v for k, v in row.items() if k not in COUNTED} for row in mine]


LEVELS = ("none", "process", "sandbox")
CASES = [
    (track, kind, level)
    for level in LEVELS
    for track in AGENTS
    for kind in AGENTS[track]
]


@pytest.mark.few(6)
@pytest.mark.parametrize("state", ["fresh", "visit-0"])
@pytest.mark.parametrize(("track", "kind", "level"), CASES)
def test_branch_gives_the_rows_of_the_stream(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    track: str,
    kind: str,
    level: str,
    state: str,
) -> None:
    run_dir = play(tmp_path, track, kind, level)
    run = RunDirectory(run_dir)
    played = 0 if state == "fresh" else 1
    # The policy of the prediction track plays as it did in the run.
    monkeypatch.setattr(
        "longplay.reference.guide.branch_policy_seed",
        lambda seed, *_: policy_seed(seed, played),
    )
    plan = plan_branch(run, state)
    saved = None if state == "fresh" else run_dir / "agent" / state
    spec = find_agent(tmp_path, track, kind)
    loaded = load_agent_at(Isolation(level), spec)  # type: ignore[arg-type]
    ProbeSession(plan, loaded, tmp_path / "probe", saved).run()
    expected = read_rows(run_dir, played)
    for branch in (0, 1):
        assert read_rows(tmp_path / "probe", branch) == expected
    assert RunDirectory(tmp_path / "probe").score is None


def test_probe_is_judged_like_a_run(tmp_path: Path) -> None:
    run_dir = play(tmp_path, "control", "learner")
    plan = plan_branch(RunDirectory(run_dir), "visit-0")
    del plan.__dict__["config"]
    loaded = load_agent_at(Isolation("none"), "linear-sarsa", {})
    saved = run_dir / "agent" / "visit-0"
    ProbeSession(plan, loaded, tmp_path / "probe", saved).run()
    report = longplay.validate_run(tmp_path / "probe")
    assert report.is_valid, report.findings.shown
    assert verify_run(tmp_path / "probe").passed
    result = tmp_path / "probe" / "probe.json"
    record = json.loads(result.read_text())
    rows = read_rows(tmp_path / "probe", 1)
    total = sum(row["reward"] for row in rows)  # type: ignore[misc]
    assert record["branches"][1]["x"] == pytest.approx(total / len(rows))
    record["branches"][1]["x"] += 0.5
    result.write_text(json.dumps(record))
    assert "score" in longplay.validate_run(tmp_path / "probe").findings.counts


def test_state_and_plan_must_fit(tmp_path: Path) -> None:
    run_dir = play(tmp_path, "control", "learner")
    plan = plan_branch(RunDirectory(run_dir), "visit-0")
    loaded = load_agent_at(Isolation("none"), "linear-sarsa", {})
    with pytest.raises(ConfigError, match="expected a plan with a saved state"):
        ProbeSession(plan, loaded, tmp_path / "probe", None)
    forgetful = load_agent_at(Isolation("none"), str(EXAMPLES / "control_random.py"))
    with pytest.raises(AgentLoadError, match="without them cannot be probed"):
        ProbeSession(plan, forgetful, tmp_path / "probe", run_dir / "agent" / "visit-0")
