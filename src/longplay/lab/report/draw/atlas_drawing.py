"""An atlas -> a drawing of its abilities and difficulties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from longplay.errors import ConfigError
from longplay.lab.atlas.atlas import Atlas
from longplay.lab.report.draw.colours import agent_colour
from longplay.lab.report.draw.drawings import Drawing, Panel, Series

Reals = NDArray[np.float64]

_MOST_ROWS = 40
_Z_95 = 1.96


def draw_atlas(atlas: Atlas) -> Drawing:
    """Abilities and difficulties with 95 % intervals, the greatest first.

    Raises:
        ConfigError: There is no Rasch model.
    """
    if atlas.rasch is None:
        raise ConfigError("atlas: nothing to draw: success is the same in all entries")
    tasks = [task.task_id for task in atlas.matrix.tasks]
    rasch = atlas.rasch
    panels = (
        _draw_side("ability", atlas.labels, rasch.ability, rasch.ability_se),
        _draw_side("difficulty", tasks, rasch.difficulty, rasch.difficulty_se),
    )
    word = "reward above the random agent's"
    if atlas.response == "success":
        word = "reward above 0"
    return Drawing(
        "atlas",
        "Abilities and difficulties",
        "logits",
        "",
        panels,
        f"Rasch model of success ({word}); 95 % intervals. Of more than {_MOST_ROWS} "
        "rows, some at equal distances in rank are shown.",
    )


def _draw_side(title: str, names: Sequence[str], values: Reals, errors: Reals) -> Panel:
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(-values[known], kind="stable")]
    if len(order) > _MOST_ROWS:
        ranks = np.linspace(0, len(order) - 1, _MOST_ROWS).round().astype(int)
        order = order[ranks]
    x, margin = values[order], _Z_95 * errors[order]
    series = Series(
        "estimate",
        agent_colour(0),
        tuple(x.tolist()),
        tuple(map(float, range(len(order)))),
        tuple((x - margin).tolist()),
        tuple((x + margin).tolist()),
    )
    categories = tuple(names[n] for n in order.tolist())
    return Panel(title, (series,), categories, marks=(0.0,))
