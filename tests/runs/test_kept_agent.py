"""The final state of an agent: kept with its run, and loaded again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import longplay
from longplay.errors import AgentLoadError, ConfigError, DocumentError
from longplay.experiments.experiment import plan_experiment
from longplay.runs.options import RunOptions

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
        experiment.options = options
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
    assert (run_dir / "agent/frames.txt").read_text() == "140"
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
    ("limit", "is_kept"), [(0, False), (2, False), (3, True), (None, True)]
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
    assert read_files(again) == read_files(run_dir / "agent") != {}


def test_a_kill_before_it_was_moved_loses_nothing(agent, tmp_path, monkeypatch):
    from longplay.runs import session

    with monkeypatch.context() as patch:
        patch.setattr(session, "keep_agent", lambda *args: None)
        patch.setattr(session, "remove_checkpoints", lambda *args: None)
        run_dir = play(agent, tmp_path / "out")
    assert (run_dir / "agent/frames.txt").read_text() == "140"
    assert not (run_dir / "checkpoint").exists()


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
    experiment.options = RunOptions(checkpoint_s=20.0)
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
        (("--keep-agent", "all"), "--keep-agent: expected none or final, found 'all'"),
        (("--debug", "--ray", "2"), "--debug: expected no --ray"),
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
    from longplay.cli.settings import parse_seconds

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
    ],
)
def test_options_and_their_words(words):
    from longplay.cli.settings import describe_run_options, make_run_options

    given = dict(zip(words[::2], words[1::2], strict=True))
    names = ("--checkpoint-every", "--keep-agent", "--track")
    options = make_run_options(*(given.get(name) for name in names))
    assert describe_run_options(options) == list(words)


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
