"""The pictures of docs/prediction.md, on numbers worked out by hand."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import pictures
from longplay.contract.records import ScheduledVisit
from longplay.plan import plan_run
from longplay.reference.facts import AuditedState, ReferenceFacts
from longplay.reference.library import REFERENCE_GAMES
from longplay.scoring.metrics import Rewards
from longplay.scoring.play import Forecasts, Play, played_visits
from made_up_references import make_facts
from svg import Scale, find_range, number, thin_out, write_tick

LARGEST_BYTES = 150_000


def read_elements(picture: bytes, class_: str) -> list[ElementTree.Element]:
    """The elements of a class, in a picture that must be well-formed."""
    root = ElementTree.fromstring(picture)
    return [found for found in root.iter() if found.get("class") == class_]


def read_words(picture: bytes, class_: str) -> list[str | None]:
    return [found.text for found in read_elements(picture, class_)]


# --- drawing --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [(12.0, "12"), (12.34, "12.3"), (-0.04, "0"), (-0.5, "-0.5"), (-10.0, "-10")],
)
def test_positions_have_a_tenth_of_a_pixel(value: float, text: str) -> None:
    assert number(value) == text


def test_scale_places_numbers_either_way() -> None:
    assert Scale(0, 10, 100, 200).place(2.5) == 125
    assert Scale(-1, 1, 50, 10).place(0.5) == 20  # pixels count downwards


@pytest.mark.parametrize(
    ("low", "high", "intervals", "ticks"),
    [
        (0, 3000, 6, [0, 500, 1000, 1500, 2000, 2500, 3000]),
        (-1.3, 0.7, 5, [-1, -0.5, 0, 0.5]),
        (0, 0.31, 4, [0, 0.1, 0.2, 0.3]),
        (2.01, 2.05, 2, [2.02, 2.04]),
    ],
)
def test_ticks_are_round(
    low: float, high: float, intervals: int, ticks: list[float]
) -> None:
    assert Scale(low, high, 0, 1).choose_ticks(intervals) == ticks


def test_ticks_are_typeset() -> None:
    assert [write_tick(tick) for tick in (1500, -0.5, 0)] == ["1,500", "−0.5", "0"]


def test_a_range_is_never_empty() -> None:
    assert find_range([2.0, 2.0]) == (1.5, 2.5)


def test_thinning_keeps_extremes() -> None:
    column = [(0.0, 5.0), (0.5, 9.0), (1.0, 1.0), (1.5, 4.0)]
    assert thin_out([*column, (2.0, 3.0)]) == [(0.5, 9.0), (1.0, 1.0), (2.0, 3.0)]


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
    picture = pictures.draw_audits([facts])
    # The panel is (66, 40) to (234, 208), for -0.06 … 1.06: 150 pixels are 1.
    dots = [(c.get("cx"), c.get("cy")) for c in read_elements(picture, "state")[0]]
    assert dots == [("75", "199"), ("225", "124")]
    (errors,) = read_elements(picture, "error")  # ±0.2 around 0.5
    assert errors.get("d") == "M75,199V199M225,154V94"
    (line,) = read_elements(picture, "identity")
    ends = [line.get(name) for name in ("x1", "y1", "x2", "y2")]
    assert ends == ["66", "208", "234", "40"]
    assert read_words(picture, "note") == ["R² 0.88"]


def test_an_audit_without_r2_has_a_dash() -> None:
    picture = pictures.draw_audits([make_audited("pong", (0.5, 0.5, 0.0))])
    assert read_words(picture, "note") == ["R² –"]


@pytest.mark.parametrize(
    ("games", "columns", "rows"),
    [(1, 1, 1), (2, 2, 1), (5, 3, 2), (9, 3, 3), (20, 4, 5)],
)
def test_every_game_has_a_panel(games: int, columns: int, rows: int) -> None:
    names = list(REFERENCE_GAMES[:games])
    states = [(k / 49, 0.123456 * k, 0.01) for k in range(50)]
    picture = pictures.draw_audits([make_audited(game, *states) for game in names])
    assert read_words(picture, "name") == names
    panels = read_elements(picture, "panel")
    assert len({(panel.get("x"), panel.get("y")) for panel in panels}) == games
    assert len({panel.get("x") for panel in panels}) == columns
    assert len({panel.get("y") for panel in panels}) == rows
    assert len(picture) < LARGEST_BYTES


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
    picture = pictures.draw_visits(play)
    lines = {
        # The first is the legend's.
        class_: [line.get("points") for line in read_elements(picture, class_)[1:]]
        for class_ in ("return", "prediction", "target")
    }
    # 826 pixels for 7 timesteps from x = 66 on; 150 for -0.06 … 1.06 from y = 220 up.
    assert lines == {
        "return": ["66,195.2 184,178.5 302,145 420,78"],  # 1/8, 1/4, 1/2, 1; then cut
        "prediction": ["66,145 184,145 302,145 420,145", "538,145 656,145 774,145"],
        "target": ["66,212 184,212 302,212 420,212", "538,145 656,212 774,212"],
    }


def test_a_game_over_is_marked_where_it_was(play: Play) -> None:
    _, mark = read_elements(pictures.draw_visits(play), "end")  # the legend's, and this
    assert (mark.get("x1"), mark.get("x2")) == ("420", "420")


def test_a_visit_is_shown_with_its_error(play: Play) -> None:
    picture = pictures.draw_visits(play)
    assert read_words(picture, "name") == ["pong"]
    # Squared errors: six of 1/4. Targets: mean 1/14, variance 1/28 - 1/196 = 6/196.
    assert read_words(picture, "note")[-1] == "nmse 7.00"


# --- both -----------------------------------------------------------------------------


def draw(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    options = ["--timesteps", "60", "--folder", str(folder)]
    monkeypatch.setattr(sys, "argv", ["pictures.py", *options])
    pictures.main()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_references_give_the_same_bytes(
    references: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = draw(tmp_path / "a", monkeypatch)
    assert set(drawn) == {"visits.svg", "audit.svg"}
    assert read_words(drawn["visits.svg"], "name") == list(REFERENCE_GAMES[:3])
    assert read_words(drawn["audit.svg"], "name") == list(REFERENCE_GAMES)
    assert draw(tmp_path / "b", monkeypatch) == drawn


def test_without_references_nothing_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGPLAY_REFERENCES", str(tmp_path))
    with pytest.raises(SystemExit, match=re.escape(f"{tmp_path}, found none")):
        draw(tmp_path / "a", monkeypatch)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("name", ["visits.svg", "audit.svg"])
def test_the_pictures_in_the_docs_are_sound(name: str) -> None:
    page = (pictures.ROOT / "docs" / "prediction.md").read_text(encoding="utf-8")
    assert f"](pictures/{name})" in page
    picture = (pictures.ROOT / "docs" / "pictures" / name).read_bytes()
    assert read_elements(picture, "panel")
    assert len(picture) < LARGEST_BYTES
