"""The figure of an atlas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from generated_records import make_line, write_lines
from longplay.errors import ConfigError
from longplay.lab.atlas.atlas import make_atlas
from longplay.lab.atlas.matrix import read_matrix
from longplay.lab.report.draw.atlas_drawing import draw_atlas
from longplay.lab.report.draw.paper import render_paper


def make(tmp_path: Path, lines: list[dict[str, Any]]) -> Any:
    return make_atlas(read_matrix([write_lines(tmp_path / "lines.jsonl", lines)]))


def make_square(agents: int, tasks: int) -> list[dict[str, Any]]:
    """Agent a succeeds on the tasks below a."""
    return [
        make_line(f"a{a:03}", f"t{t:03}", 1.0 if t < a else -1.0)
        for a in range(agents)
        for t in range(tasks)
    ]


def test_abilities_and_difficulties_are_drawn_with_intervals(tmp_path):
    atlas = make(tmp_path, make_square(3, 3))
    drawing = draw_atlas(atlas)
    able, difficult = drawing.panels
    assert able.categories == ("a002", "a001", "a000")
    assert difficult.categories == ("t002", "t001", "t000")
    (series,) = able.series
    assert series.x == tuple(atlas.rasch.ability[::-1])
    assert series.y == (0.0, 1.0, 2.0)
    half = (np.array(series.high) - np.array(series.low)) / 2
    assert half == pytest.approx(1.96 * atlas.rasch.ability_se[::-1])
    assert "reward above 0" in drawing.caption


def test_of_many_agents_some_are_drawn(tmp_path):
    able, difficult = draw_atlas(make(tmp_path, make_square(100, 30))).panels
    assert len(able.categories) == 40
    assert (able.categories[0], able.categories[-1]) == ("a030", "a000")
    assert len(difficult.categories) == 30


def test_figure_is_the_same_twice(tmp_path):
    drawing = draw_atlas(make(tmp_path, make_square(4, 5)))
    figure = render_paper(drawing, "pdf", 2)
    assert figure.startswith(b"%PDF")
    assert render_paper(drawing, "pdf", 2) == figure


def test_nothing_to_draw_is_said(tmp_path):
    atlas = make(tmp_path, [make_line("a", "t", 1.0)])
    with pytest.raises(ConfigError, match="nothing to draw: success is the same"):
        draw_atlas(atlas)
