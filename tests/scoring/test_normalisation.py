"""z by hand, and the games that have none."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from anchor_runs import (
    RandomMeasurement,
    UpperMeasurement,
    make_game_anchors,
)
from longplay.contract.files import read_document, write_document
from longplay.errors import ConfigError, DocumentError
from longplay.scoring.anchors import Anchors, GameAnchors, shipped_anchors
from longplay.scoring.normalisation import make_scale
from made_up_anchors import make_anchors, make_game

SUITE = "stream-3x2-v1"


def test_z_by_hand():
    scale = make_scale(
        make_anchors(SUITE, qbert=make_game(), pong=make_game(lower=-1.0)),
        SUITE,
        ("qbert", "pong"),
    )
    z = scale.normalise(np.array([[1.0, -1.0], [3.0, 3.0], [2.0, 0.0], [5.0, -3.0]]))
    assert z.tolist() == [[0, 0], [1, 1], [0.5, 0.25], [2, -0.5]]
    assert scale.reasons == {}


def test_differences_and_corrections_by_hand():
    scale = make_scale(make_anchors(SUITE, qbert=make_game()), SUITE, ("qbert",))
    assert scale.normalise_difference(np.array([1.0])).tolist() == [0.5]
    assert scale.correct_forgetting(np.array([1.2])) == pytest.approx([0.5])
    assert scale.correct_recovery(np.array([0.6])) == pytest.approx([0.5])


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (None, "anchors-1 lacks this game"),
        (
            make_game(upper=None),
            "anchors-1 has no upper anchor for this game",
        ),
        (make_game(upper_error=None), "an anchor measured once has no standard error"),
        (make_game(lower_error=None), "an anchor measured once has no standard error"),
        # Errors 0.3 and 0.4 make 0.5: 1 is not above two of them.
        (
            make_game(upper=2.0),
            "u - b = 1 is not above two standard errors of the difference (1)",
        ),
        (
            make_game(upper=0.5),
            "u - b = -0.5 is not above two standard errors of the difference (1)",
        ),
    ],
)
def test_games_without_z_are_named(entry, reason):
    games = {} if entry is None else {"qbert": entry}
    scale = make_scale(
        make_anchors(SUITE, **games, pong=make_game()), SUITE, ("qbert", "pong")
    )
    assert scale.reasons == {"qbert": reason}
    assert scale.has_z.tolist() == [False, True]
    assert np.isnan(scale.normalise(np.array([9.0, 9.0]))).tolist() == [True, False]


def test_another_suite_has_no_z():
    scale = make_scale(
        make_anchors(SUITE, qbert=make_game()), f"{SUITE}+01234567", ("qbert",)
    )
    assert not scale.has_z.any()
    assert scale.reasons["qbert"] == f"anchors-1 has no anchors for {SUITE}+01234567"


def test_game_without_revisits_has_z_and_no_forgetting():
    entry = make_game(random_forgetting=None, random_recovery=None)
    scale = make_scale(make_anchors(SUITE, qbert=entry), SUITE, ("qbert",))
    assert scale.has_z.all()
    assert np.isnan(scale.correct_forgetting(np.array([1.0]))).all()


def test_anchors_are_made_of_measurements():
    # Rates 1, 2, 6: mean 3, deviation √7, so a standard error of √(7 / 3).
    random = RandomMeasurement(
        np.array([1.0, 2.0, 6.0]), np.array([0.5, 1.5]), np.array([])
    )
    upper = UpperMeasurement(np.array([5.0, 7.0]), "reference policy")
    assert make_game_anchors(random, upper) == GameAnchors(
        lower=3.0,
        lower_error=math.sqrt(7) / math.sqrt(3),
        upper=6.0,
        upper_error=1.0,
        upper_source="reference policy",
        random_forgetting=1.0,
        random_recovery=None,
    )
    assert make_game_anchors(random, None).upper is None
    with pytest.raises(ValueError, match="at least one run of the random agent"):
        make_game_anchors(RandomMeasurement(*[np.array([])] * 3), None)


def test_an_unknown_set_of_anchors_is_refused():
    with pytest.raises(
        ConfigError, match=r"expected one of \['anchors-1'.*'anchors-9'"
    ):
        shipped_anchors("anchors-9")


def test_shipped_anchors_can_be_read():
    anchors = shipped_anchors()
    assert anchors.name == "anchors-2"
    # Too short or too long to have specialists.
    assert not anchors.suites.keys() & {"stream-smoke-v1", "stream-8x3-1m-v1"}


def test_anchors_are_written_and_read(tmp_path: Path):
    anchors = make_anchors(SUITE, qbert=make_game())
    write_document(tmp_path / "anchors.json", anchors)
    assert read_document(tmp_path / "anchors.json", Anchors) == anchors
    (tmp_path / "anchors.json").write_text('{"name": 3, "suites": {}}')
    with pytest.raises(DocumentError, match="name: expected a string, found 3"):
        read_document(tmp_path / "anchors.json", Anchors)
