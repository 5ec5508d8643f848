"""Draws the pictures of docs/prediction.md: a prediction run and the audits.

    python benchmarks/pictures.py [--run DIR] [--timesteps 3000] [--folder DIR]

    visits.svg    prediction, target and realised return over the first visits of a run
    audit.svg     reference values against the rollouts of their audit, game by game

Both are made of the references in use: the shipped ones, unless LONGPLAY_REFERENCES
names others. Without a run, examples/prediction_td_lambda.py plays one with seed 0, on
the first three games that have a reference. The same inputs give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import Path

import longplay
from longplay.contract.files import make_directory, write_file
from longplay.errors import ConfigError, LongplayError
from longplay.reference.facts import AuditedState, ReferenceFacts
from longplay.reference.library import find_data, list_references, read_all_facts
from longplay.report.reference_tables import describe_r2
from longplay.scoring.play import Play, PlayedVisit, read_play
from longplay.scoring.prediction import (
    VisitForecasts,
    collect_forecasts,
    normalised_error,
)
from svg import (
    Panel,
    Position,
    Scale,
    draw_label,
    draw_line,
    draw_segment,
    draw_text,
    draw_upright_label,
    element,
    find_range,
    number,
    render_picture,
)

ROOT = Path(__file__).parent.parent
AGENT = ROOT / "examples" / "prediction_td_lambda.py"
MOST_VISITS = 3

# --- visits ---------------------------------------------------------------------------

VISITS_STYLE = """
.return { fill: none; stroke: #b9a36a; stroke-width: 1.2 }
.prediction { fill: none; stroke: #d0583f; stroke-width: 1.3 }
.target { fill: none; stroke: #1f5582; stroke-width: 1.6 }
.return, .prediction, .target { stroke-linejoin: round }
.end { stroke: #23262b; stroke-width: 0.8; stroke-dasharray: 2 3 }
"""
# Class of the line, what it is, and the width that takes.
LEGEND = (
    ("target", "target: the reference value", 218.0),
    ("prediction", "prediction", 120.0),
    ("return", "realised return", 146.0),
    ("end", "game over", 0.0),
)
VISITS_WIDTH, VISIT_HEIGHT = 920.0, 150.0
VISIT_LEFT, VISIT_RIGHT, VISIT_TOP, VISIT_GAP = 66.0, 892.0, 70.0, 52.0


def draw_visits(play: Play) -> bytes:
    """The first visits of a prediction run, one panel each."""
    shown = play.visits[:MOST_VISITS]
    parts = [_draw_legend((VISIT_LEFT, 26))]
    for index, visit in enumerate(shown):
        top = VISIT_TOP + index * (VISIT_HEIGHT + VISIT_GAP)
        parts.append(_draw_visit(visit, collect_forecasts(play, visit), top))
    bottom = VISIT_TOP + len(shown) * (VISIT_HEIGHT + VISIT_GAP) - VISIT_GAP
    middle = ((VISIT_LEFT + VISIT_RIGHT) / 2, bottom + 38)
    parts.append(draw_label(middle, "timestep of the visit"))
    side = (18, (VISIT_TOP + bottom) / 2)
    parts.append(draw_upright_label(side, "discounted sum of rewards (signs)"))
    size = (VISITS_WIDTH, bottom + 54)
    title = "Prediction, target and realised return over a visit"
    return render_picture(size, title, VISITS_STYLE, parts)


def _draw_legend(at: Position) -> str:
    x, y = at
    parts = []
    for class_, words, width_px in LEGEND:
        parts.append(draw_segment((x, y - 4), (x + 22, y - 4), class_))
        parts.append(draw_text((x + 28, y), words, class_="note"))
        x += width_px
    return "\n".join(parts)


def _draw_visit(visit: PlayedVisit, found: VisitForecasts, top: float) -> str:
    right, bottom = VISIT_RIGHT, top + VISIT_HEIGHT
    lines = {
        "return": found.returns.tolist(),
        "prediction": found.predictions.tolist(),
        "target": found.targets.tolist(),
    }
    low, high = find_range(value for line in lines.values() for value in line)
    panel = Panel(
        Scale(0, len(found.ends), VISIT_LEFT, right), Scale(low, high, bottom, top)
    )
    nmse = normalised_error(found.predictions, found.targets)
    note = "nmse –" if nmse is None else f"nmse {nmse:.2f}"
    parts = [
        draw_text((VISIT_LEFT, top - 9), visit.visit.game_id, class_="name"),
        draw_text((right, top - 9), note, text_anchor="end", class_="note"),
        panel.draw_frame(x_ticks=6, y_ticks=5),
    ]
    ends = [int(row) for row in found.ends.nonzero()[0]]
    for row in ends:
        parts.append(draw_segment(panel.place(row, low), panel.place(row, high), "end"))
    for class_, line in lines.items():
        parts += _draw_games(panel, line, ends, class_)
    return "\n".join(parts)


def _draw_games(
    panel: Panel, line: Sequence[float], ends: Sequence[int], class_: str
) -> list[str]:
    """One line per game episode of the visit: lines break at game over."""
    starts = [0, *(row + 1 for row in ends)]
    stops = [*starts[1:], len(line)]
    return [
        draw_line([panel.place(row, line[row]) for row in range(start, stop)], class_)
        for start, stop in zip(starts, stops, strict=True)
        if start < min(stop, len(line))
    ]


# --- audits ---------------------------------------------------------------------------

AUDIT_STYLE = """
.identity { stroke: #a9a698; stroke-dasharray: 4 3 }
.error { stroke: #8fb0c9; stroke-width: 1 }
.state { fill: #1f5582; fill-opacity: 0.8 }
"""
MOST_COLUMNS = 4
AUDIT_SIDE = 168.0
AUDIT_LEFT, AUDIT_TOP = 66.0, 40.0
AUDIT_STEP_X, AUDIT_STEP_Y = AUDIT_SIDE + 46, AUDIT_SIDE + 58


@dataclass(frozen=True)
class Grid:
    """Where the panels of some games are: rows as even as they can be."""

    games: int

    @property
    def rows(self) -> int:
        """As few as fit."""
        return ceil(self.games / MOST_COLUMNS)

    @property
    def columns(self) -> int:
        """Of a full row."""
        return ceil(self.games / self.rows)

    def place(self, index: int) -> Position:
        """The upper left corner of a panel."""
        row, column = divmod(index, self.columns)
        return AUDIT_LEFT + column * AUDIT_STEP_X, AUDIT_TOP + row * AUDIT_STEP_Y

    @property
    def bounds(self) -> Position:
        """The lower right corner of all panels."""
        right = AUDIT_LEFT + self.columns * AUDIT_STEP_X
        bottom = AUDIT_TOP + self.rows * AUDIT_STEP_Y
        return right - AUDIT_STEP_X + AUDIT_SIDE, bottom - AUDIT_STEP_Y + AUDIT_SIDE


def draw_audits(references: Sequence[ReferenceFacts]) -> bytes:
    """The audit of every reference, one panel each."""
    grid = Grid(len(references))
    right, bottom = grid.bounds
    across, down = (AUDIT_LEFT + right) / 2, (AUDIT_TOP + bottom) / 2
    parts = [
        *(_draw_audit(facts, grid.place(k)) for k, facts in enumerate(references)),
        draw_label((across, bottom + 38), "reference value"),
        draw_label((across, bottom + 56), "bars: ± standard error"),
        draw_upright_label((18, down), "mean return of rollouts"),
    ]
    size = (right + 28, bottom + 72)
    title = "Reference values against rollouts from the same states"
    return render_picture(size, title, AUDIT_STYLE, parts)


def _draw_audit(facts: ReferenceFacts, corner: Position) -> str:
    (left, top), audited = corner, facts.audit.audited
    low, high = find_range(
        bound for state in audited for bound in (state.value, *_error_bounds(state))
    )
    panel = Panel(
        Scale(low, high, left, left + AUDIT_SIDE),
        Scale(low, high, top + AUDIT_SIDE, top),
    )
    r2 = f"R² {describe_r2(facts.audit.summary.r2_corrected)}"
    name, note = (left, top - 9), (left + AUDIT_SIDE, top - 9)
    return "\n".join(
        [
            draw_text(name, facts.game, class_="name"),
            draw_text(note, r2, text_anchor="end", class_="note"),
            panel.draw_frame(x_ticks=5, y_ticks=5),
            draw_segment(panel.place(low, low), panel.place(high, high), "identity"),
            _draw_errors(panel, audited),
            _draw_states(panel, audited),
        ]
    )


def _error_bounds(state: AuditedState) -> tuple[float, float]:
    """One standard error of the mean to either side."""
    error = sqrt(state.sampling_variance)
    return state.mean_return - error, state.mean_return + error


def _draw_errors(panel: Panel, audited: Sequence[AuditedState]) -> str:
    bars = []
    for state in audited:
        low, high = map(panel.y.place, _error_bounds(state))
        bars.append(
            f"M{number(panel.x.place(state.value))},{number(low)}V{number(high)}"
        )
    return element("path", d="".join(bars), class_="error")


def _draw_states(panel: Panel, audited: Sequence[AuditedState]) -> str:
    places = [panel.place(state.value, state.mean_return) for state in audited]
    dots = [element("circle", cx=x, cy=y, r=2.3) for x, y in places]
    return element("g", "\n".join(dots), class_="state")


# --- both -----------------------------------------------------------------------------


def play_run(folder: Path, timesteps: int) -> Path:
    """A run of the example agent on the first games that have a reference."""
    overrides = {
        "games": list_references()[:MOST_VISITS],
        "base_visit_frames": timesteps,
    }
    out = folder / "run"
    result = longplay.run("prediction-v1", str(AGENT), out=out, overrides=overrides)
    return result.runs[0].run_dir


def draw_pictures(folder: Path, run_dir: Path) -> None:
    """Writes both pictures."""
    pictures = {
        "visits.svg": draw_visits(read_play(longplay.read_run(run_dir))),
        "audit.svg": draw_audits(read_all_facts()),
    }
    make_directory(folder, exist_ok=True)
    for name, picture in pictures.items():
        write_file(folder / name, picture)
        print(f"wrote {folder / name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--timesteps", type=int, default=3_000)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "pictures")
    options = parser.parse_args()
    try:
        if not list_references():
            raise ConfigError(f"expected references in {find_data()}, found none")
        with tempfile.TemporaryDirectory(prefix="longplay-pictures-") as name:
            run_dir = options.run or play_run(Path(name), options.timesteps)
            draw_pictures(options.folder, run_dir)
    except LongplayError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
