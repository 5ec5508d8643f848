"""Grids, and the rule that chooses one of their points."""

from __future__ import annotations

import pytest

from longplay.errors import IncompleteRunError
from longplay.lab.studies.tuning import Point, choose_point, expand_grid


def test_the_last_argument_varies_fastest():
    assert expand_grid({"a": [1, 2], "b": ["x", "y"]}) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_a_list_can_be_an_alternative():
    assert expand_grid({"layers": [[64], [64, 64]]}) == [
        {"layers": [64]},
        {"layers": [64, 64]},
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([(1, 3), (2, 2.5), (0, 1)], 1, id="highest mean"),
        pytest.param([(1, 3), (2, 2)], 0, id="the first of equal ones"),
        pytest.param([(9, None), (1, 1)], 1, id="one without a value is out"),
        pytest.param([(-3, -1), (-1, -2)], 1, id="negative"),
    ],
)
def test_the_rule(values, expected):
    points = [Point(str(n), found) for n, found in enumerate(values)]
    assert choose_point(points).name == str(expected)


def test_no_choice_without_a_value():
    with pytest.raises(IncompleteRunError, match="found none of 2"):
        choose_point([Point("a", (None,)), Point("b", (1.0, None))])
