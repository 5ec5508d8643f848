"""States of an agent: kept with its run, and loaded again."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import longplay
from longplay.agents.global_random import GlobalRandom, GlobalRandomState
from longplay.agents.isolation.levels import Isolation
from longplay.errors import AgentLoadError, ConfigError, DocumentError
from longplay.runs.options import RunOptions
from planning import plan_experiment
from rows import read_rows

SHORT = {"games": ["qbert"], "num_cycles": 1, "base_visit_frames": 40, "jitter_pct": 0}

# Counts the frames it has seen.
AGENT = """
class Agent:
    def __init__(self, num_actions, seed, first=0):
        self.frames = first

    def step(self, obs_rgb, reward, terminated, truncated, info):
        self.frames += 1
        return 0

    def save(self, directory):
        (directory / "frames.txt").write_text(str(self.frames))

    def load(self, directory):
        self.frames = int((directory / "frames.txt").read_text())
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agent") / "counting.py"
    path.write_text(AGENT)
    return path


def play(agent: object, out: Path, options: RunOptions | None = None) -> Path:
    experiment = plan_experiment(
        "stream-smoke-v1",
        str(agent),
        out=out,
        overrides=SHORT,
        agent_args={"first": 100} if str(agent).endswith(".py") else {},
    )
    if options is not None:
        experiment = replace(experiment, options=options)
    (result,) = experiment.run_sequentially()
    assert result.is_valid, result.error
    return result.run_dir


def read_files(folder: Path) -> dict[Path, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def run_dir(agent: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play(agent, tmp_path_factory.mktemp("kept") / "out")


def test_the_state_after_the_last_frame_is_kept(run_dir):
    assert (run_dir / "agent/final/agent/frames.txt").read_text() == "140"
    assert not (run_dir / "checkpoint").exists()


def test_it_is_built_in_that_state(agent, run_dir):
    loaded = longplay.load_agent(str(agent), state=run_dir)
    assert loaded.agent_args == {"first": 100}
    assert loaded.build(seed=0).frames == 140
    # A fresh agent has the arguments, and not the state.
    assert longplay.load_agent(str(agent)).build(seed=0).frames == 0


def test_a_directory_never_names_the_code(run_dir):
    with pytest.raises(AgentLoadError, match="never imports a name found in a file"):
        longplay.load_agent(state=run_dir)


def test_another_agent_does_not_get_the_state(run_dir, tmp_path):
    other = tmp_path / "counting.py"
    other.write_text(AGENT + "\n# changed\n")
    with pytest.raises(
        AgentLoadError, match="is a different agent: expected source_sh"
    ):
        longplay.load_agent(str(other), state=run_dir)


def test_other_arguments_are_refused(agent, run_dir):
    with pytest.raises(AgentLoadError, match="agent_args: expected those of the run"):
        longplay.load_agent(str(agent), {"first": 1}, state=run_dir)


def test_neither_spec_nor_state(tmp_path):
    with pytest.raises(AgentLoadError, match="found neither"):
        longplay.load_agent()


@pytest.mark.parametrize(
    ("limit", "is_kept"), [(0, False), (3, False), (20_000, True), (None, True)]
)
def test_it_is_kept_up_to_a_size(agent, tmp_path, limit, is_kept):
    options = RunOptions(kept_agent_bytes=limit)
    run_dir = play(agent, tmp_path / "out", options)
    assert (run_dir / "agent").exists() == is_kept
    assert not (run_dir / "checkpoint").exists()


def test_a_run_without_state_says_how_to_keep_it(agent, tmp_path):
    run_dir = play(agent, tmp_path / "out", RunOptions(kept_agent_bytes=0))
    with pytest.raises(DocumentError, match="--keep-agent final"):
        longplay.load_agent(str(agent), state=run_dir)


def test_a_built_in_agent_needs_no_spec(tmp_path):
    run_dir = play("linear-sarsa", tmp_path / "out")
    agent = longplay.load_agent(state=run_dir).build(seed=0)
    again = tmp_path / "again"
    again.mkdir()
    agent.save(again)
    assert read_files(again) == read_files(run_dir / "agent/final/agent") != {}


def test_a_kill_after_the_last_frame_loses_nothing(agent, tmp_path, monkeypatch):
    from longplay.runs import session

    with monkeypatch.context() as patch:
        patch.setattr(session, "remove_checkpoints", lambda *args: None)
        run_dir = play(agent, tmp_path / "out")
    assert (run_dir / "agent/final/agent/frames.txt").read_text() == "140"
    assert not (run_dir / "checkpoint").exists()


# --- a state after every visit --------------------------------------------------------

# Three visits of 40 frames. The agent draws from a global generator, too.
VISITS = {"base_visit_frames": 40, "num_cycles": 1, "jitter_pct": 0}
DRAWING = AGENT.replace("return 0", "return random.randrange(18)") + "\nimport random\n"
KEEP_VISITS = RunOptions(keep_agent="visits")
STATES = ["visit-0", "visit-1", "visit-2", "final"]


@pytest.fixture(scope="module")
def drawing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agent") / "drawing.py"
    path.write_text(DRAWING)
    return path


def play_visits(
    agent: Path, out: Path, level: str = "none", options: RunOptions = KEEP_VISITS
) -> Path:
    experiment = plan_experiment(
        *("stream-smoke-v1", str(agent)),
        out=out,
        overrides=VISITS,
        isolation=Isolation(level),
    )
    experiment = replace(experiment, options=options)
    (result,) = experiment.run_sequentially()
    assert result.is_valid, result.error
    return result.run_dir


@pytest.fixture(scope="module")
def kept(drawing: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play_visits(drawing, tmp_path_factory.mktemp("visits") / "out")


def test_every_visit_has_a_state_with_its_hash(drawing, kept):
    assert sorted(path.name for path in (kept / "agent").iterdir()) == sorted(STATES)
    recorded = longplay.read_run(kept).summary.agent_states
    assert list(recorded) == STATES
    files = read_files(kept / "agent/visit-1")
    names = ["agent/frames.txt", "global_random.json"]
    assert sorted(path.as_posix() for path in files) == names
    listed = [[n, hashlib.sha256(files[Path(n)]).hexdigest()] for n in names]
    text = json.dumps(listed, separators=(",", ":"))
    assert recorded["visit-1"].sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert recorded["visit-1"].bytes == sum(map(len, files.values()))
    assert recorded["visit-2"] == recorded["final"]
    for visit, frames in enumerate((40, 80, 120)):
        loaded = longplay.load_agent(str(drawing), state=kept, visit=visit)
        assert loaded.build(seed=0).frames == frames


def test_a_state_has_the_generators_of_the_next_percept(kept):
    content = (kept / "agent/visit-0/global_random.json").read_bytes()
    state = msgspec.json.decode(content, type=GlobalRandomState)
    events = [
        row["decided_action_idx"]
        for row in read_rows(kept / "events.jsonl")
        if row["visit_idx"] == 1
    ]
    with GlobalRandom(0).in_use():
        state.restore()
        drawn = [random.randrange(18) for _ in range(40)]
    assert events[::4] == drawn[::4]


@pytest.mark.few(1)
@pytest.mark.parametrize("level", ["process", "sandbox"])
def test_states_are_the_same_at_every_isolation_level(drawing, kept, level, tmp_path):
    isolated = play_visits(drawing, tmp_path / "out", level)
    assert read_files(isolated / "agent") == read_files(kept / "agent")
    summaries = (longplay.read_run(path).summary for path in (isolated, kept))
    assert len({str(summary.agent_states) for summary in summaries}) == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("stop_frame", [20, 40, 55])
@pytest.mark.parametrize("loses_checkpoint", [False, True])
def test_a_resumed_run_ends_with_the_same_states(
    drawing, kept, stop_frame, loses_checkpoint, tmp_path, spawn
):
    """The run that is resumed is not told again what to keep."""
    stopping = tmp_path / "drawing.py"
    stop = f"if self.frames == {stop_frame} and not os.path.exists('{tmp_path}/stop'):"
    stopping.write_text(
        DRAWING.replace(
            "        return random",
            f"        {stop}\n"
            f"            open('{tmp_path}/stop', 'w').close()\n"
            "            os.kill(os.getpid(), signal.SIGTERM)\n"
            "            time.sleep(0.3)\n"
            "        return random",
        )
        + "import os, signal, time\n"
    )
    out = tmp_path / "out"
    settings = [f"--set={name}={value}" for name, value in VISITS.items()]
    options = ("--seed", "1000", "--keep-agent", "visits", "--quiet", *settings)
    first = spawn("run", "stream-smoke-v1", "--agent", stopping, "--out", out, *options)
    assert first.exit_code == 75, first.stderr
    (run_dir,) = (out / "episodes").iterdir()
    if loses_checkpoint:
        shutil.rmtree(run_dir / "checkpoint")
        shutil.rmtree(run_dir / "agent", ignore_errors=True)
    answer = spawn("resume", out, "--agent", stopping, "--quiet")
    assert answer.exit_code == 0, answer.stderr
    assert read_files(run_dir / "agent") == read_files(kept / "agent")
    summaries = (longplay.read_run(path).summary for path in (run_dir, kept))
    assert len({str(summary.agent_states) for summary in summaries}) == 1


def test_a_run_that_starts_over_keeps_what_it_was_to_keep(tmp_path, invoke):
    flag, agent = tmp_path / "flag", tmp_path / "failing.py"
    failing = f"if self.frames == 50 and not Path('{flag}').exists(): 1 / 0"
    text = AGENT.replace("        return 0", f"        {failing}\n        return 0")
    agent.write_text(f"from pathlib import Path\n{text}")
    out = tmp_path / "out"
    settings = [f"--set={name}={value}" for name, value in VISITS.items()]
    run = ("run", "stream-smoke-v1", "--agent", agent, "--out", out, "--quiet")
    assert invoke(*run, "--keep-agent", "visits", *settings).exit_code == 1
    flag.touch()
    (run_dir,) = (out / "episodes").iterdir()
    shutil.rmtree(run_dir / "checkpoint")
    (run_dir / "events.jsonl").unlink()
    answer = invoke("retry", out, "--agent", agent, "--quiet")
    assert answer.exit_code == 0, answer.stderr
    assert list(longplay.read_run(run_dir).summary.agent_states) == STATES


def test_nothing_is_kept_beyond_the_limit(drawing, kept, tmp_path):
    size_bytes = longplay.read_run(kept).summary.agent_states["visit-0"].bytes
    notices = []
    experiment = plan_experiment(
        "stream-smoke-v1", str(drawing), out=tmp_path / "out", overrides=VISITS
    )
    limit = 2 * size_bytes + 10
    options = RunOptions(keep_agent="visits", kept_agent_bytes=limit)
    experiment = replace(experiment, options=options)
    (result,) = experiment.run_sequentially(lambda p: notices.append(p.notice))
    assert list(longplay.read_run(result.run_dir).summary.agent_states) == STATES[:2]
    assert sorted(read_files(result.run_dir / "agent")) == sorted(
        path for path in read_files(kept / "agent") if path.parts[0] in STATES[:2]
    )
    assert "no state of the agent is kept from visit-2 on" in max(notices)
    output = (result.run_dir / "agent_output.txt").read_text()
    assert output.count("no state of the agent") == 1


def test_a_changed_state_is_refused(drawing, kept, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(kept, copy)
    (copy / "agent/visit-1/agent/frames.txt").write_text("81")
    with pytest.raises(DocumentError, match=r"visit-1: expected the files that the"):
        longplay.load_agent(str(drawing), state=copy, visit=1)
    assert longplay.load_agent(str(drawing), state=copy, visit=0) is not None
    with pytest.raises(AgentLoadError, match="visit: expected state=RUN"):
        longplay.load_agent(str(drawing), visit=1)


def test_status_shows_the_size(kept, invoke):
    experiment = kept.parent.parent
    assert " MB kept" in invoke("status", experiment).stdout
    (run,) = invoke("status", experiment, "--json").json
    recorded = longplay.read_run(kept).summary.agent_states.values()
    assert run["kept_agent_bytes"] == sum(state.bytes for state in recorded)


# --- the interval of checkpoints -----------------------------------------------------


class Clocked:
    """Takes a second for a step, and as long as it is told for a save."""

    now_s = 0.0
    save_s = 0.0
    saves: list[float]

    def __init__(self, num_actions: int, seed: int) -> None:
        pass

    def step(self, obs_rgb, reward, terminated, truncated, info) -> int:
        Clocked.now_s += 1.0
        return 0

    def save(self, directory: Path) -> None:
        Clocked.saves.append(Clocked.now_s)
        Clocked.now_s += self.save_s

    def load(self, directory: Path) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("save_s", "expected", "notice"),
    [
        # 60 frames of a second, read every fourth frame; the last save ends the visit.
        (0.25, [21.0, 41.25, 60.5], ""),
        # 2 s are 2 % of 100 s.
        (2.0, [21.0, 62.0], "a checkpoint took 2.0 s: the next one is due in 100 s in"),
    ],
)
def test_a_slow_save_lengthens_the_interval(
    tmp_path, monkeypatch, save_s, expected, notice
):
    from longplay.runs import loop

    for clock in ("monotonic", "perf_counter"):
        monkeypatch.setattr(loop, clock, lambda: Clocked.now_s)
    monkeypatch.setattr(Clocked, "now_s", 0.0)
    monkeypatch.setattr(Clocked, "save_s", save_s)
    monkeypatch.setattr(Clocked, "saves", [], raising=False)
    experiment = plan_experiment(
        "stream-smoke-v1",
        Clocked,
        out=tmp_path / "out",
        overrides={**SHORT, "base_visit_frames": 60},
    )
    experiment = replace(experiment, options=RunOptions(checkpoint_s=20.0))
    notices: set[str] = set()
    experiment.run_sequentially(lambda progress: notices.add(progress.notice))
    assert Clocked.saves == pytest.approx(expected)
    assert max(notices).startswith(notice)
    assert bool(max(notices)) == bool(notice)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--checkpoint-every", "soon"), "--checkpoint-every: expected a time as 300s"),
        (("--checkpoint-every", "0s"), "--checkpoint-every: expected a time as 300s"),
        (
            ("--keep-agent", "all"),
            "--keep-agent: expected none, final or visits, found",
        ),
        (("--debug", "--ray", "2"), "--debug: cannot be combined with --ray"),
        (("--debug", "--isolate", "process"), "--debug: only with --isolate none"),
    ],
)
def test_wrong_options_are_refused(invoke, options, message):
    answer = invoke("run", "stream-smoke-v1", "--agent", "random", *options)
    assert answer.exit_code == 2
    assert message in answer.stderr


@pytest.mark.parametrize(
    ("text", "seconds"), [("300s", 300), ("90", 90), ("5m", 300), ("1.5h", 5400)]
)
def test_times(text, seconds):
    from longplay.cli.options import parse_seconds

    assert parse_seconds(text, "--checkpoint-every") == seconds
    with pytest.raises(ConfigError):
        parse_seconds(f"-{text}", "--checkpoint-every")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--checkpoint-every", "300s"),
        ("--checkpoint-every", "0.5s", "--keep-agent", "none"),
        ("--keep-agent", "final", "--track", "wandb"),
        ("--keep-agent", "visits", "--keep-agent-bytes", "5"),
    ],
)
def test_options_and_their_words(words, monkeypatch):
    from longplay.cli.options import RecordOptions, describe_run_options

    monkeypatch.setenv("WANDB_MODE", "offline")  # needs no account
    given = dict(zip(words[::2], words[1::2], strict=True))
    limit = given.get("--keep-agent-bytes")
    options = RecordOptions(
        given.get("--checkpoint-every"),
        given.get("--keep-agent"),
        None if limit is None else int(limit),
        given.get("--track"),
    )
    assert describe_run_options(options.make()) == list(words)


# --- debugging -----------------------------------------------------------------------

STOPPING = """
print("imported")

class Agent:
    def __init__(self, num_actions, seed):
        self.frames = 6

    def step(self, obs_rgb, reward, terminated, truncated, info):
        if info["global_frame_idx"] == 3:
            breakpoint()
        return 0
"""


def test_debug_stops_at_a_breakpoint_on_the_terminal(spawn, tmp_path):
    (tmp_path / "stopping.py").write_text(STOPPING)
    settings = [f"--set={key}={json.dumps(value)}" for key, value in SHORT.items()]
    answer = spawn(
        *("run", "stream-smoke-v1", "--agent", tmp_path / "stopping.py", *settings),
        *("--out", tmp_path / "out", "--debug"),
        input="p 'frames', self.frames * 7\nc\n",
    )
    assert answer.exit_code == 0, answer.stderr
    assert "imported" in answer.stdout
    assert "('frames', 42)" in answer.stdout
    assert not list(tmp_path.rglob("agent_output.txt"))
