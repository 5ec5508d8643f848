"""What `import longplay` offers, what it costs, and how runs are read."""

from __future__ import annotations

import importlib.metadata
import inspect
import io
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longplay
from longplay import errors, eval_log
from longplay.contract.rundir import RunDirectory
from longplay.errors import DocumentError, MissingExtraError, NotARunError
from playing import play_run
from rows import read_rows

HEAVY = ("ale_py", "duckdb", "typer", "rich", "torch", "pyarrow")


def run_python(code: str, *args: object) -> str:
    """Runs code in a process of its own and returns what it prints."""
    command = [sys.executable, "-W", "error", "-c", code, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def imported_by(statement: str) -> list[str]:
    """Which heavy packages are there after a statement."""
    code = f"import sys\n{statement}\nprint(*[m for m in {HEAVY} if m in sys.modules])"
    return run_python(code).split()


# --- names ----------------------------------------------------------------------


FUNCTIONS = """compare get_suite load_agent plot probe read_experiment read_run report
    run score_run study validate_run verify_run""".split()
RECORDS = """Comparison ControlScore Experiment ExperimentDirectory ExperimentResult
    Figure LoadedAgent PredictionScore ProbeResult Report RunDirectory RunResult Score
    StudyResult Suite Table Verification""".split()
ERRORS = [
    name
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.LongplayError)
]


def test_all_is_pinned():
    assert longplay.__all__ == sorted([*FUNCTIONS, *RECORDS, *ERRORS, "__version__"])


def test_dir_shows_the_public_names_and_nothing_else():
    assert dir(longplay) == longplay.__all__


def test_all_names_exist():
    for name in longplay.__all__:
        assert getattr(longplay, name) is not None


def test_other_names_do_not_exist():
    with pytest.raises(AttributeError, match="no attribute 'play'"):
        longplay.play  # noqa: B018


def test_the_version_has_one_source():
    assert longplay.__version__ == importlib.metadata.version("longplay")


@pytest.mark.parametrize("name", [*FUNCTIONS, *RECORDS])
def test_public_names_are_documented(name):
    assert inspect.getdoc(getattr(longplay, name))


def test_eval_log_exports_every_class_of_the_format():
    assert set(eval_log.__all__) == set(
        """UsageSummary AgentInfo BenchmarkSubset InvestigatorLLMConfig Findings
        Verifier ExperimentRecord EpisodeRecord EvalLog Evidence Trust""".split()
    )
    for name in eval_log.__all__:
        assert inspect.isclass(getattr(eval_log, name))


def test_every_error_is_drawn_in_the_tree():
    assert len(ERRORS) > 10
    drawn = {word for line in errors.__doc__.splitlines() for word in line.split()}
    assert [name for name in ERRORS if name not in drawn] == []


def test_the_tree_draws_no_error_that_is_not_there():
    lines = [line for line in errors.__doc__.splitlines() if "── " in line]
    drawn = [line.split("── ")[1].split()[0] for line in lines]
    assert [name for name in drawn if not hasattr(errors, name)] == []
    for name in drawn:
        assert issubclass(getattr(errors, name), errors.LongplayError)


# --- imports --------------------------------------------------------------------


def test_importing_longplay_imports_nothing_heavy():
    assert imported_by("import longplay") == []


@pytest.mark.parametrize(
    "module",
    ["longplay.validation", "longplay.scoring.streaming", "longplay.contract.rundir"],
)
def test_reading_side_imports_no_emulator(module):
    assert "ale_py" not in imported_by(f"import {module}")


def test_runs_are_validated_and_scored_without_the_emulator(finished_run):
    code = """
import sys
sys.modules["ale_py"] = None  # an import of it would raise
import longplay
run_dir = sys.argv[1]
print(longplay.validate_run(run_dir).is_valid, longplay.score_run(run_dir).frames)
"""
    frames = len(read_rows(finished_run / "events.jsonl"))
    assert run_python(code, finished_run).split() == ["True", str(frames)]


@pytest.mark.few(1)
@pytest.mark.parametrize("command", ["compare", "plot", "report", "leaderboard"])
def test_runs_are_compared_without_the_emulator(finished_run, tmp_path, command):
    code = """
import sys
sys.modules["ale_py"] = None
from longplay.cli.app import app
app(sys.argv[1:])
"""
    output = tmp_path / ("figure.svg" if command == "plot" else "pages")
    where = [] if command == "compare" else ["-o", output]
    shown = run_python(code, command, finished_run, *where)
    assert output.exists() if where else "random" in shown


# --- columns --------------------------------------------------------------------

NUMPY_KINDS = {int: "i", float: "f", bool: "b", str: "O"}


@pytest.mark.parametrize("name", ["events", "episodes", "segments"])
def test_numpy_columns_hold_the_rows(finished_run, name):
    rows = read_rows(finished_run / f"{name}.jsonl")
    columns = getattr(longplay.read_run(finished_run), name).numpy(*rows[0])
    assert list(columns) == list(rows[0])
    for key, column in columns.items():
        assert isinstance(column, np.ndarray)
        assert column.dtype.kind == NUMPY_KINDS[type(rows[0][key])], key
        assert column.tolist() == [row[key] for row in rows], key


def test_some_columns_only(finished_run):
    columns = longplay.read_run(finished_run).events.numpy("reward", "lives")
    assert list(columns) == ["reward", "lives"]


def test_all_columns_without_naming_them(finished_run):
    events = longplay.read_run(finished_run).events
    columns = events.numpy()
    assert tuple(columns) == events.columns
    assert set(read_rows(finished_run / "events.jsonl")[0]) <= set(columns)


@pytest.mark.parametrize("name", ["events", "episodes", "segments"])
def test_arrow_columns_hold_the_rows(finished_run, name):
    rows = read_rows(finished_run / f"{name}.jsonl")
    reader = getattr(longplay.read_run(finished_run), name).arrow(*rows[0])
    assert reader.schema.names == list(rows[0])
    assert reader.read_all().to_pylist() == rows


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_of_data_frames_is_named(finished_run, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)  # an import of it raises
    events = longplay.read_run(finished_run).events
    with pytest.raises(MissingExtraError, match=f"pip install {library}"):
        getattr(events, f"to_{library}")("reward")


@pytest.mark.parametrize("kind", ["numpy", "arrow"])
def test_unknown_column_is_refused_by_name(finished_run, kind):
    events = longplay.read_run(finished_run).events
    with pytest.raises(KeyError, match="no column 'rewards'"):
        getattr(events, kind)("rewards")


# --- laziness -------------------------------------------------------------------


def test_opening_reads_nothing(tmp_path):
    (tmp_path / "config.json").write_text("not JSON at all")
    run = longplay.read_run(tmp_path)
    with pytest.raises(DocumentError, match=r"events\.jsonl: missing"):
        run.events.numpy("reward")
    with pytest.raises(DocumentError, match=r"config\.json: not readable as JSON"):
        run.config  # noqa: B018


def test_rows_are_read_when_asked_for(copy_of, finished_run):
    run_dir = copy_of(finished_run)
    content = (run_dir / "events.jsonl").read_bytes()
    (run_dir / "events.jsonl").unlink()
    run = longplay.read_run(run_dir)
    assert run.config.total_frames == content.count(b"\n")
    (run_dir / "events.jsonl").write_bytes(content[: content.index(b"\n") + 1])
    assert run.events.numpy("global_frame_idx")["global_frame_idx"].tolist() == [0]


def test_documents_that_are_not_there_are_none(copy_of, finished_run):
    run_dir = copy_of(finished_run)
    for name in ("score.json", "run_summary.json", "status.json"):
        (run_dir / name).unlink()
    run = longplay.read_run(run_dir)
    assert run.score is run.summary is run.status is None


def test_documents_of_a_finished_run(finished_run):
    run = longplay.read_run(finished_run)
    assert run.status.state == "COMPLETED"
    assert run.summary.frames == run.score.frames == run.config.total_frames


# --- folders --------------------------------------------------------------------


def test_experiment_is_read_as_its_one_run(finished_run):
    run = longplay.read_run(finished_run.parent.parent)
    assert isinstance(run, RunDirectory)
    assert run.path == finished_run


def test_folder_may_be_given_as_text(finished_run):
    assert longplay.read_run(str(finished_run)).path == finished_run


@pytest.mark.parametrize("function", ["read_run", "score_run", "validate_run"])
def test_folder_without_a_run_is_refused(tmp_path, function):
    with pytest.raises(NotARunError, match="expected a run directory"):
        getattr(longplay, function)(tmp_path)


def test_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(NotARunError, match="no such folder"):
        longplay.read_run(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "name",
    [
        "lr[0.1]",
        "a*b",
        "**",
        "it's",
        'say "hi"',
        "what?",
        "[!a]",
        "a]b[",
        "{a,b}",
        "back\\slash",
        "per%20cent",
        "$HOME ~ ;--",
        "ünïcödé",
    ],
)
def test_folder_names_are_only_names(finished_run, tmp_path, name):
    run_dir = Path(shutil.copytree(finished_run, tmp_path / name))
    rewards = longplay.read_run(run_dir).events.numpy("reward")["reward"]
    assert len(rewards) == len(read_rows(finished_run / "events.jsonl"))
    assert len(longplay.read_run(run_dir).episodes.arrow().read_all()) > 0
    assert longplay.score_run(run_dir) == longplay.score_run(finished_run)
    assert longplay.validate_run(run_dir).is_valid


@pytest.mark.parametrize("name", ["run[ab]", "run*", "run?", "*"])
def test_pattern_in_a_folder_name_matches_no_other_folder(finished_run, tmp_path, name):
    for folder in (name, "runa", "runb"):
        shutil.copytree(finished_run, tmp_path / folder)
    rewards = longplay.read_run(tmp_path / name).events.numpy("reward")["reward"]
    assert len(rewards) == len(read_rows(finished_run / "events.jsonl"))
    assert longplay.score_run(tmp_path / name) == longplay.score_run(finished_run)


# --- running --------------------------------------------------------------------


class Fixed:
    """An agent given as a class."""

    def __init__(self, num_actions: int, seed: int, action: int = 1) -> None:
        assert num_actions == 18
        self._action = action

    def step(self, obs_rgb, reward, terminated, truncated, info) -> int:
        return self._action


TINY = {"games": ["pong"], "num_cycles": 1, "base_visit_frames": 40, "delay": 0}


def test_run_takes_a_class(tmp_path):
    result = play_run(
        "stream-smoke-v1",
        Fixed,
        out=tmp_path / "out",
        overrides=TINY,
        agent_args={"action": 7},
    )
    assert result.report.is_valid
    assert result.run_dir.parents[1] == tmp_path / "out"
    run = longplay.read_run(result.run_dir)
    assert set(run.events.numpy("applied_action_idx")["applied_action_idx"]) == {7}
    assert run.config.agent.config["_type"].endswith("test_public_api.Fixed")
    assert run.config.agent.config["args"] == {"action": 7}
    assert run.score == result.score


class Slow(Fixed):
    """An agent slow enough to be watched."""

    def step(self, obs_rgb, reward, terminated, truncated, info) -> int:
        if info["global_frame_idx"] == 8:  # a decision frame, where the clock is read
            time.sleep(0.5)
        return self._action


def test_run_tells_an_observer(tmp_path):
    seen: list[Any] = []
    result = play_run(
        "stream-smoke-v1",
        Slow,
        out=tmp_path / "out",
        overrides=TINY,
        observer=seen.append,
    )
    assert {progress.game_id for progress in seen} == {"pong"}
    assert {progress.frames_total for progress in seen} == {result.score.frames}
    # Told after the slow frame at the latest.
    assert 9 in [progress.frame for progress in seen]


# --- notebooks and terminals ----------------------------------------------------


def test_notebooks_show_runs_experiments_and_suites(tmp_path):
    out = tmp_path / "out"
    result = longplay.run("stream-smoke-v1", "random", out=out, overrides=TINY)
    run = longplay.read_run(out)
    for shown in (run, result.runs[0]):
        page = shown._repr_html_()
        for fact in ("stream-smoke-v1+", "random", "1000", "COMPLETED", "final score"):
            assert fact in page
    page = result._repr_html_()
    for fact in ("1000", "COMPLETED", "valid", f"{run.score.headline:.5g}"):
        assert f">{fact}</td>" in page
    page = longplay.read_experiment(out)._repr_html_()
    for fact in ("1000", "COMPLETED", f"{run.score.headline:.5g}"):
        assert f">{fact}</td>" in page
    windows = longplay.read_experiment(out).windows
    assert windows._repr_html_().count("<tr>") == 11
    page = longplay.get_suite("control-v1")._repr_html_()
    assert "longplay/Control-v1" in page
    assert "0, 1, 2, 3, 4" in page


def test_notebooks_show_what_is_wrong_with_a_run(tmp_path):
    (tmp_path / "config.json").write_text("<b>not JSON</b>")
    page = longplay.read_run(tmp_path)._repr_html_()
    assert "config.json: not readable as JSON" in page
    assert "<b>" not in page


class Stream(io.StringIO):
    """A stream that looks like a terminal, or is called as Jupyter's is."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


class JupyterStream(Stream):
    __module__ = "ipykernel.iostream"


def play_slowly(out: Path, **options: Any) -> None:
    longplay.run("stream-smoke-v1", Slow, out=out, overrides=TINY, **options)


@pytest.mark.parametrize(
    ("stream", "progress", "is_shown"),
    [
        (Stream(is_terminal=True), None, True),
        (JupyterStream(is_terminal=False), None, True),
        (Stream(is_terminal=False), None, False),
        (Stream(is_terminal=False), True, True),
        (Stream(is_terminal=True), False, False),
        (JupyterStream(is_terminal=False), False, False),
    ],
)
def test_run_shows_its_progress(stream, progress, is_shown, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    play_slowly(tmp_path / "e", progress=progress)
    shown = stream.getvalue()
    assert ("pong · visit 0/1" in shown) is is_shown
    # A line that is rewritten is gone at the end.
    is_rewritten = is_shown and (stream.isatty() or progress is None)
    assert shown.endswith("\r") is is_rewritten


def test_an_observer_is_called_beside_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Stream(is_terminal=True))
    seen: list[Any] = []
    play_slowly(tmp_path / "e", observer=seen.append, progress=True)
    assert seen
