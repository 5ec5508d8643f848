"""How a run shows itself."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from longplay.cli.progress import ProgressLine, _live_line
from longplay.runs.loop import Progress
from longplay.runs.progress import describe_progress
from longplay.runs.status import StatusWriter

PROGRESS = Progress(
    frame=1_200_000,
    frames_total=4_826_371,
    game_id="battle_zone",
    visit_idx=23,
    visits_total=24,
    cycle_idx=2,
    last_return=12_000.0,
    elapsed_s=150.0,
)


LEARNING = replace(
    PROGRESS,
    reward_rate=0.012345,
    frame_noun="timestep",
    metrics={"loss": 1.5, "q\x1b[2J": -0.25, "a" * 30: 2e6},
)


def render(width: int, progress: Progress = PROGRESS) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(_live_line(progress, width))
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 130, 200])
def test_live_line_fits_one_line_and_says_everything(width: int) -> None:
    line = render(width)
    assert line.count("\n") == 1
    assert "…" not in line
    for part in ("battle_zone", "23/24", "1,200,000/4,826,371", "12000", "8,000 fps"):
        assert part in line
    assert "7:33 left" in line


@pytest.mark.parametrize(
    ("width", "shown", "left_out"),
    [
        (80, [], ["rew", "loss"]),
        (84, ["rew 0.0123"], ["loss"]),
        (100, ["rew 0.0123", "loss 1.5"], ["aaaa"]),
        (130, [], ["rew"]),
        (160, ["reward 0.0123 per timestep"], ["loss"]),
        (240, ["reward 0.0123 per timestep", "loss 1.5", "a" * 24 + " 2e+06"], ["…"]),
    ],
)
def test_live_line_shows_learning_where_there_is_room(
    width: int, shown: list[str], left_out: list[str]
) -> None:
    line = render(width, LEARNING)
    assert line.count("\n") == 1
    assert "7:33 left" in line
    assert [text for text in shown if text not in line] == []
    assert [text for text in left_out if text in line] == []


def test_plain_line_ends_with_reward_rate_and_metrics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    with ProgressLine(quiet=False) as line:
        line(LEARNING)
    metrics = rf"loss 1.5 · q\x1b[2J -0.25 · {'a' * 24} 2e+06"
    shown = f"left · reward 0.0123 per timestep · {metrics}\n"
    assert stderr.getvalue().endswith(shown)


def test_status_shows_reward_rate_and_metrics(
    finished_run: Path,
    tmp_path: Path,
    invoke: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    experiment = Path(shutil.copytree(finished_run.parents[1], tmp_path / "copy"))
    run_dir = experiment / "episodes" / finished_run.name
    for name in ("status.json", "score.json", "run_summary.json"):
        (run_dir / name).unlink()
    writer = StatusWriter.create(run_dir, 4_826_371)
    writer.observe(LEARNING)
    answer = invoke("status", experiment)
    assert "1,200,000/4,826,371" in answer.stdout
    told = r"seed 0: reward 0.0123 per frame, loss 1.5, q\x1b[2J -0.25"
    assert told in answer.stdout
    (run,) = invoke("status", experiment, "--json").json
    assert run["reward_rate"] == LEARNING.reward_rate
    assert run["metrics"] == LEARNING.metrics
    writer.enter("COMPLETED", 4_826_371)
    assert writer.status.metrics == LEARNING.metrics


def test_short_line_has_no_bar() -> None:
    assert "━" in render(130)
    assert "━" not in render(80)


def test_run_among_several_is_named() -> None:
    assert describe_progress(PROGRESS)["run"] == ""
    named = replace(PROGRESS, run="seed 3")
    assert next(iter(describe_progress(named).values())) == "seed 3"


def test_before_the_first_return_and_second() -> None:
    start = Progress(0, 100, "pong", 0, 1, 0, None, 0.0)
    parts = describe_progress(start)
    assert parts["return"] == "last return –"
    assert parts["left"] == ""


def test_time_left_is_not_estimated_from_the_first_seconds() -> None:
    assert describe_progress(replace(PROGRESS, elapsed_s=4.9))["left"] == ""
    assert describe_progress(replace(PROGRESS, elapsed_s=5.0))["left"] == "0:15 left"


def test_terminal_that_goes_away_does_not_stop_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", Gone())
    with ProgressLine(quiet=False) as line:
        line(PROGRESS)
        line(PROGRESS)


def test_names_that_look_like_markup_are_shown_as_they_are(
    invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    agent = tmp_path / "a[red]b.py"
    agent.write_text(
        "class Agent:\n"
        "    def __init__(self, num_actions, seed): pass\n"
        "    def step(self, *p): raise ValueError('see [/tmp/x] [bold]')\n"
    )
    out = tmp_path / "o[bold]"
    settings = ("--set", "base_visit_frames=50", "--quiet")
    answer = invoke("run", "stream-smoke-v1", "--agent", agent, "--out", out, *settings)
    assert answer.exit_code == 1
    assert "see [/tmp/x] [bold]" in answer.stderr
    shown = re.sub(r"\s+", " ", invoke("show", out).stdout)
    assert "see [/tmp/x] [bold]" in shown
    assert "o[bold]" in shown
    assert "[/tmp/x]" in invoke("check-agent", agent).stdout
