"""The pictures of README and docs, on numbers worked out by hand."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

import pictures
import stream_picture
from figure_files import render_figure
from longplay.contract.config import ScheduledVisit
from longplay.contract.rows import EventRow
from longplay.plan import plan_run
from longplay.reference.facts import AuditedState, ReferenceFacts
from longplay.reference.library import REFERENCE_GAMES
from longplay.scoring.metrics import Rewards
from longplay.scoring.play import Forecasts, Play, played_visits
from longplay.verify.replay import ReplayedFrame
from made_up_references import make_facts
from prediction_pictures import arrange_panels, draw_audits, draw_visits

LARGEST_BYTES = 400_000


def titles(axes: Axes) -> tuple[str, str]:
    return axes.get_title("left"), axes.get_title("right")


def lines_of(axes: Axes, colour: str) -> list[list[tuple[float, float]]]:
    """The points of every line of a colour."""
    return [
        [tuple(point) for point in line.get_xydata().tolist()]
        for line in axes.get_lines()
        if line.get_color() == colour
    ]


# --- audits ---------------------------------------------------------------------------


def make_audited(
    game: str, *states: tuple[float, float, float], r2: float | None = None
) -> ReferenceFacts:
    """A reference with audited states of (value, mean return, sampling variance)."""
    facts = make_facts(b"", game)
    audited = tuple(
        AuditedState(
            visit=0,
            timestep=timestep,
            value=value,
            mean_return=mean,
            sampling_variance=variance,
            continuations=32,
        )
        for timestep, (value, mean, variance) in enumerate(states)
    )
    summary = facts.audit.summary.model_copy(update={"r2_corrected": r2})
    changes = {"audited": audited, "summary": summary}
    return facts.model_copy(update={"audit": facts.audit.model_copy(update=changes)})


def test_audited_states_are_where_they_should_be() -> None:
    facts = make_audited("pong", (0.0, 0.0, 0.0), (1.0, 0.5, 0.04), r2=0.876)
    (axes,) = draw_audits([facts]).axes
    (container,) = axes.containers
    dots, _, (bars,) = container
    assert dots.get_xydata().tolist() == [[0.0, 0.0], [1.0, 0.5]]
    ends = [segment.tolist() for segment in bars.get_segments()]
    assert ends == [[[0, 0], [0, 0]], [[1, 0.3], [1, 0.7]]]  # ±0.2 around 0.5
    # The widest range is that of the values: 0 … 1, and 6 % on either side.
    assert axes.get_xlim() == axes.get_ylim() == pytest.approx((-0.06, 1.06))
    assert titles(axes) == ("pong", "R² 0.88")


def test_audit_without_r2_has_a_dash_and_a_range() -> None:
    (axes,) = draw_audits([make_audited("pong", (0.5, 0.5, 0.0))]).axes
    assert titles(axes) == ("pong", "R² –")
    assert axes.get_xlim() == (0.0, 1.0)


@pytest.mark.parametrize(
    ("games", "columns", "rows"),
    [(1, 1, 1), (2, 2, 1), (5, 3, 2), (9, 3, 3), (20, 4, 5)],
)
def test_every_game_has_a_panel(games: int, columns: int, rows: int) -> None:
    assert arrange_panels(games) == (rows, columns)
    names = list(REFERENCE_GAMES[:games])
    figure = draw_audits([make_audited(game, (0.0, 1.0, 0.1)) for game in names])
    shown = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title("left") for axes in shown] == names


# --- visits ---------------------------------------------------------------------------


@pytest.fixture
def play(references: Path) -> Play:
    """Seven timesteps of pong; its game ends with the fourth, for a reward of 1."""
    config = plan_run("prediction-v1", 0, {"games": ["pong"]}).config
    visit = ScheduledVisit(visit_idx=0, cycle_idx=0, game_id="pong", visit_frames=7)
    config = config.model_copy(update={"schedule": (visit,), "discount": 0.5})
    rewards = Rewards(np.array([3]), np.array([1.0]))
    predictions, targets = np.full(7, 0.5), np.array([0, 0, 0, 0, 0.5, 0, 0])
    return Play(
        config=config,
        visits=played_visits(config),
        rewards=rewards,
        game_rewards=rewards,
        terminated_ends=np.array([3]),
        fps=None,
        forecasts=Forecasts(predictions, targets),
    )


def test_lines_of_a_visit_are_where_they_should_be(play: Play) -> None:
    (axes,) = draw_visits(play).axes
    returns, predictions, targets = (
        lines_of(axes, colour) for colour in ("#E69F00", "#D55E00", "#0072B2")
    )
    assert returns == [[(0, 0.125), (1, 0.25), (2, 0.5), (3, 1)]]  # then not known
    assert predictions == [
        [(0, 0.5), (1, 0.5), (2, 0.5), (3, 0.5)],
        [(4, 0.5), (5, 0.5), (6, 0.5)],
    ]
    assert targets == [[(0, 0), (1, 0), (2, 0), (3, 0)], [(4, 0.5), (5, 0), (6, 0)]]


def test_game_over_is_marked_where_it_was(play: Play) -> None:
    (axes,) = draw_visits(play).axes
    assert lines_of(axes, "0.3") == [[(3, 0), (3, 1)]]


def test_visit_is_shown_with_its_error(play: Play) -> None:
    (axes,) = draw_visits(play).axes
    # Squared errors: six of 1/4. Targets: mean 1/14, variance 1/28 - 1/196 = 6/196.
    assert titles(axes) == ("pong", "nmse 7.00")


# --- the stream -----------------------------------------------------------------------


COLOURS = ((50, 0, 99), (200, 99, 0))


@pytest.fixture
def shown() -> stream_picture.Shown:
    """Two visits of 100 and 300 timesteps."""
    visits = tuple(
        ScheduledVisit(visit_idx=n, cycle_idx=0, game_id=game, visit_frames=frames)
        for n, (game, frames) in enumerate((("pong", 100), ("qbert", 300)))
    )
    config = plan_run("control-smoke-v1", 1000).config
    return stream_picture.Shown(
        config.model_copy(update={"schedule": visits}),
        np.array([np.full(20, 0.5), np.arange(20) / 20]),
        np.array([0.1, 0.2]),
        [
            ReplayedFrame(
                np.full((210, 160, 3), colour, np.uint8), make_row(frame), 0.0
            )
            for frame, colour in zip((75, 325), COLOURS, strict=True)
        ],
    )


def make_row(frame: int) -> EventRow:
    return EventRow(frame, "pong", 0, 0, 0, 0, 0, True, 0, 0, 0.0, False, False, 3)


def test_timeline_has_the_rates_of_every_visit(shown: stream_picture.Shown) -> None:
    (axes,) = stream_picture.draw_stream(shown).axes
    first, second = lines_of(axes, "#0072B2")
    assert first[0] == (2.5, 0.5)  # the middle of the first 20th of 100
    assert second[0] == (107.5, 0.0)
    assert second[-1] == pytest.approx((392.5, 0.95))
    assert lines_of(axes, "0.35") == [
        [(0, 0.1), (100, 0.1)],
        [(100, 0.2), (400, 0.2)],
    ]
    assert [point[0][0] for point in lines_of(axes, "0.2")] == [75, 325]
    assert [text.get_text() for text in axes.texts] == ["pong", "qbert"]
    assert axes.get_xlim() == (0, 400)


def test_frames_are_shown_pixel_by_pixel(shown: stream_picture.Shown) -> None:
    with Image.open(io.BytesIO(render_figure(stream_picture.draw_stream(shown)))) as im:
        found = np.array(im.convert("RGB"))
    for colour in COLOURS:
        assert (found == colour).all(axis=2).sum() == 160 * 210


def shorten_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stream_picture.OVERRIDES, "base_visit_frames", 60)
    monkeypatch.setitem(stream_picture.OVERRIDES, "num_cycles", 1)


@pytest.mark.exhaustive
def test_stream_is_played_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_stream(monkeypatch)
    shown = stream_picture.play_stream(tmp_path)
    frames = [frame.row.global_frame_idx for frame in shown.frames]
    assert frames == [45, 105, 165]
    assert shown.rates.shape == (3, 10)
    assert shown.config.seed == stream_picture.SEED >= 1000


# --- all of them ----------------------------------------------------------------------


def draw(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    shorten_stream(monkeypatch)
    options = ["--timesteps", "60", "--folder", str(folder)]
    monkeypatch.setattr(sys, "argv", ["pictures.py", *options])
    pictures.main()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.exhaustive
def test_same_runs_give_the_same_bytes(
    references: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = draw(tmp_path / "a", monkeypatch)
    assert set(drawn) == {"stream.png", "hud.png", "visits.png", "audit.png"}
    assert draw(tmp_path / "b", monkeypatch) == drawn


def test_without_references_nothing_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGPLAY_REFERENCES", str(tmp_path))
    with pytest.raises(SystemExit, match=re.escape(f"{tmp_path}, found none")):
        draw(tmp_path / "a", monkeypatch)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("page", "link", "name"),
    [
        ("README.md", "docs/pictures", "stream.png"),
        ("docs/video.md", "pictures", "hud.png"),
        ("docs/prediction.md", "pictures", "visits.png"),
        ("docs/prediction.md", "pictures", "audit.png"),
    ],
)
def test_pictures_in_the_docs_are_small_and_shown(
    page: str, link: str, name: str
) -> None:
    assert f"{link}/{name}" in (pictures.ROOT / page).read_text(encoding="utf-8")
    picture = (pictures.ROOT / "docs" / "pictures" / name).read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < LARGEST_BYTES


def test_style_of_the_docs_does_not_leak(play: Play) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    assert isinstance(draw_visits(play), Figure)
    assert dict(mpl.rcParams) == before
