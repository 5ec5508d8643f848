"""The kinds of figures by name (`longplay plot --kind`), and which agents and games."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from longplay.errors import ConfigError, UnknownNameError
from longplay.lab.analysis.records import SuiteComparison
from longplay.lab.report.draw.drawings import (
    Drawing,
    Shown,
    draw_curves,
    draw_games,
    draw_improvement,
    draw_predictions,
    draw_profile,
    draw_retention,
    draw_stream,
)
from longplay.lab.report.draw.memory_drawings import draw_matrix, draw_memory
from longplay.lab.report.draw.summary_drawings import draw_average, draw_lifetime

KINDS: Mapping[str, Callable[[Shown], Drawing]] = {
    "average": draw_average,
    "lifetime": draw_lifetime,
    "curves": draw_curves,
    "games": draw_games,
    "profile": draw_profile,
    "retention": draw_retention,
    "stream": draw_stream,
    "improvement": draw_improvement,
    "predictions": draw_predictions,
    "memory": draw_memory,
    "matrix": draw_matrix,
}


def draw(kind: str, shown: Shown) -> Drawing:
    """Makes a drawing of the given kind.

    Raises:
        UnknownNameError: There is no such kind.
        ConfigError: The runs lack the data for it.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of figure", kind, KINDS)
    return KINDS[kind](shown)


# --- some of the agents and games -------------------------------------------------

# The others are about all games of a suite at once.
_BY_GAME = ("curves", "games", "predictions", "memory", "matrix")


def choose_agents(shown: Shown, labels: Sequence[str]) -> Shown:
    """Only some agents; their styles stay those of the whole comparison.

    Raises:
        UnknownNameError: There is no such agent.
    """
    labels = _list_names(labels)
    agents = shown.suite.agents
    _check_known("agent among the runs", labels, [agent.label for agent in agents])
    kept = tuple(agent for agent in agents if agent.label in labels)
    styles = {agent.label: shown.style(agent) for agent in kept}
    suite = shown.suite.model_copy(update={"agents": kept})
    return replace(shown, suite=suite, styles=styles)


def choose_games(shown: Shown, kind: str, names: Sequence[str] | int) -> Shown:
    """Only some games, in a figure that shows games one by one.

    Args:
        shown: All games.
        kind: The kind of figure.
        names: The games, or how many: those in which agents differ most.

    Raises:
        ConfigError: The figure is about all games at once, or the number is below 1.
        UnknownNameError: The suite has no such game.
    """
    if kind not in _BY_GAME:
        raise ConfigError(
            f"a figure of kind {kind} is about all games of the suite; expected the "
            f"kind {', '.join(_BY_GAME)}",
            option="games",
        )
    known = shown.suite.games
    if isinstance(names, int):
        if names < 1:
            raise ConfigError(f"expected 1 or more, found {names}", option="games")
        chosen = rank_games(shown.suite)[:names]
    else:
        chosen = _list_names(names)
        _check_known("game of the suite", chosen, known)
    games = tuple(game for game in known if game in chosen)
    return replace(shown, suite=shown.suite.model_copy(update={"games": games}))


def rank_games(suite: SuiteComparison) -> list[str]:
    """Games by how much agents differ in them, most first.

    The difference is that between the highest and the lowest mean: of z, or, where a
    suite has none, of rates or errors relative to the largest of them.
    """
    return sorted(suite.games, key=lambda game: -_spread(suite, game))


def _spread(suite: SuiteComparison, game: str) -> float:
    metric = "error" if suite.error else suite.lead
    metric = "rate" if metric == "headline" else metric
    means = [
        agent.games[game][metric].mean
        for agent in suite.agents
        if metric in agent.games.get(game, {})
    ]
    if len(means) < 2:
        return 0.0
    unit = 1.0 if metric == "average" else max(map(abs, means)) or 1.0
    return (max(means) - min(means)) / unit


def _list_names(names: Sequence[str]) -> list[str]:
    """The names; a text is one name, not a sequence of letters."""
    return [names] if isinstance(names, str) else list(names)


def _check_known(kind: str, names: Sequence[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            raise UnknownNameError(kind, name, known)
