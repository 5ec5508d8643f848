"""How a run shows itself."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from longplay.cli.progress import ProgressLine, _live_line, describe_progress
from longplay.runs.loop import Progress

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


def render(width: int) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(_live_line(PROGRESS, width))
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 130, 200])
def test_live_line_fits_one_line_and_says_everything(width: int) -> None:
    line = render(width)
    assert line.count("\n") == 1
    assert "…" not in line
    for part in ("battle_zone", "24/24", "1,200,000/4,826,371", "12000", "8,000 fps"):
        assert part in line
    assert "7:33 left" in line


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
