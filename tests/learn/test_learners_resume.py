"""Every learner continues bit for bit from what it saved, and does not grow."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longplay
import made_up_visits
from all_learners import LEARNERS, SMALL, choose, is_predictor
from killing import Ended, Fault, find_run_dir, read_result, run_command
from longplay.agents.source.loading import load_agent
from longplay.runs.continuation import Continuation, find_differences
from longplay.runs.trial import CONTROL_TRIAL

SHAPE = (210, 160, 3)
each_learner = pytest.mark.parametrize("name", LEARNERS)


def build(name: str) -> Any:
    return made_up_visits.build(LEARNERS[name], **choose(name, SMALL))


class MadeUpStream:
    """A made-up stream of pixels and rewards, the same for every agent."""

    def __init__(self, timesteps: int) -> None:
        rng = np.random.default_rng(9)
        self.frames = [rng.integers(0, 256, SHAPE, np.uint8) for _ in range(8)]
        self.shown = rng.integers(8, size=timesteps + 1)
        self.rewards = rng.integers(-1, 2, size=timesteps).astype(float)
        self.infos = [
            {"terminated": bool(k % 37 == 36), "truncated": bool(k % 101 == 100)}
            for k in range(timesteps)
        ]

    def play(
        self, name: str, state: Any, start: int, stop: int
    ) -> tuple[Any, list[Any]]:
        step, answers = LEARNERS[name].step, []
        for k in range(start, stop):
            before, now = (self.frames[self.shown[j]] for j in (k, k + 1))
            state, *answer = step(state, before, now, self.rewards[k], self.infos[k])
            answers.append(answer)
        return state, answers


def save(name: str, state: Any, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    LEARNERS[name].save(state, folder)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@each_learner
def test_saved_and_loaded_at_random_moments(name: str, tmp_path: Path) -> None:
    stream = MadeUpStream(220)
    state, answers = stream.play(name, build(name), 0, 220)
    expected = save(name, state, tmp_path / "straight")
    moments = sorted(random.Random(name).sample(range(220), 3))
    again, start, found = build(name), 0, []
    for moment in [*moments, 220]:
        again, more = stream.play(name, again, start, moment)
        found += more
        save(name, again, tmp_path / str(moment))
        again, start = LEARNERS[name].load(tmp_path / str(moment)), moment
    assert found == answers
    assert save(name, again, tmp_path / "resumed") == expected


@pytest.mark.parametrize("name", ["dqn", "stream-q"])
def test_check_agent_notices_lost_state(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, state = load_agent(name, choose(name, SMALL)), LEARNERS[name].State
    continuation = Continuation(CONTROL_TRIAL, lambda: loaded.build(5), 5)
    played, saved = continuation.play(tmp_path), state.SAVED
    assert not any(find_differences(played, continuation.resume(tmp_path)))
    # The generator of DQN is the explorer's, too; without a method it has no state.
    for lost in set(saved) - {"rng", "method"}:
        monkeypatch.setattr(state, "SAVED", [n for n in saved if n != lost])
        resumed = continuation.resume(tmp_path)
        assert any(find_differences(played, resumed)), lost


def test_a_state_from_before_a_new_key_loads(tmp_path: Path) -> None:
    save("dqn", build("dqn"), tmp_path / "saved")
    path = tmp_path / "saved" / "state.json"
    text = path.read_text()
    document = json.loads(text)
    del document["replay.is_cut"]
    path.write_text(json.dumps(document))
    LEARNERS["dqn"].load(tmp_path / "saved")
    path.write_text(text.replace("replay.added", "replay.other"))
    with pytest.raises(KeyError):
        LEARNERS["dqn"].load(tmp_path / "saved")


@each_learner
def test_nothing_is_pickled(name: str, tmp_path: Path) -> None:
    files = save(name, build(name), tmp_path / "saved")
    assert set(files) == {"state.json", "arrays.safetensors.zst"}
    json.loads(files["state.json"])


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@each_learner
def test_memory_is_flat(name: str) -> None:
    stream = MadeUpStream(300)
    # Weights that start at zero take memory when they are first written, and copies of
    # them when they are first copied: in the first two rounds.
    state, _ = stream.play(name, build(name), 0, 300)
    state, _ = stream.play(name, state, 0, 300)
    before = resident_bytes()
    for _ in range(3):
        state, _ = stream.play(name, state, 0, 300)
    assert resident_bytes() - before < 3_000_000


def test_dqn_stays_far_below_a_gigabyte() -> None:
    state = LEARNERS["dqn"].init(SHAPE, 18, 0)
    kept = [state.network.weights, state.target_weights, *vars(state.replay).values()]
    arrays = [value for value in kept if isinstance(value, np.ndarray)]
    assert sum(array.nbytes for array in arrays) < 100_000_000


# --- real runs, killed --------------------------------------------------------------

# Frames of a visit; a run has three. Checkpoints are about 30 frames apart.
VISIT_FRAMES = 200
FRAMES = 3 * VISIT_FRAMES
EXIT_CODES = {signal.SIGTERM: 75, signal.SIGKILL: -signal.SIGKILL}


def run(name: str, out: Path, fault: Fault | None = None) -> Ended:
    """Starts or resumes a run: the same command line does both."""
    suite = "prediction-smoke-v1" if is_predictor(name) else "control-smoke-v1"
    given = [f"--agent-arg={k}={json.dumps(v)}" for k, v in choose(name, SMALL).items()]
    return run_command(
        *(out.with_suffix(".process"), "run", suite, "--agent", name, *given),
        *("--set", f"base_visit_frames={VISIT_FRAMES}", "--seed", 1000),
        *("--out", out, "--resume", "--quiet"),
        fault=fault,
    )


def choose_faults(rng: random.Random) -> list[Fault]:
    """Three signals, each after a checkpoint and long before the end of the run."""
    return [
        Fault("frame", rng.randint(40, FRAMES // 4), rng.choice(list(EXIT_CODES)))
        for _ in range(3)
    ]


def read_played(out: Path) -> dict[str, Any]:
    """Everything that must be identical in a run that was killed."""
    run_dir = find_run_dir(out)
    assert run_dir is not None
    metrics = (run_dir / "metrics.jsonl").read_bytes()
    assert metrics.count(b"\n") == 3
    return {**read_result(run_dir), "metrics": metrics}


def kill_and_compare(name: str, folder: Path, seed: str) -> None:
    straight, killed = folder / "straight", folder / "killed"
    ended = run(name, straight)
    assert ended.exit_code == 0, ended.output
    assert ended.counts["frame"] == FRAMES
    faults = choose_faults(random.Random(seed))
    for fault in faults:
        ended = run(name, killed, fault)
        assert ended.exit_code == EXIT_CODES[fault.signal], (fault, ended.output)
    ended = run(name, killed)
    assert ended.exit_code == 0, ended.output
    # The last of them, too, resumed from a checkpoint that the agent had saved.
    assert ended.counts["load"] == 1
    assert 0 < ended.counts["frame"] < FRAMES
    assert longplay.read_run(killed).summary.tries == 1 + len(faults)
    expected, found = read_played(straight), read_played(killed)
    for part, content in expected.items():
        assert found[part] == content, (part, faults)


def test_a_killed_run_ends_with_the_same_bytes(tmp_path: Path) -> None:
    kill_and_compare("stream-q", tmp_path, "quick")


@pytest.mark.exhaustive
@each_learner
@pytest.mark.parametrize("trial", range(3))
def test_killed_runs_end_with_the_same_bytes(
    name: str, trial: int, tmp_path: Path
) -> None:
    kill_and_compare(name, tmp_path, f"{name} {trial}")
