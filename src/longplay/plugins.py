"""Entry points of installed packages -> agents, suites, tracks and metrics by name.

    [project.entry-points."longplay.suites"]
    my-suite-v1 = "my_package.suites:MY_SUITE"

    longplay.agents    a class, factory or module, as for MODULE:ATTR of an agent spec
    longplay.suites    a `suites.Suite`; the name is its id
    longplay.tracks    a `tracks.base.Track`; the name is the track's
    longplay.metrics   a `lab.analysis.metrics.Metric`; the name is the metric's

An entry point is imported only when something of its name is asked for and longplay has
nothing of that name, or when all of them are listed.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from typing import TypeVar

from longplay.errors import ConfigError, describe_exception

AGENTS = "longplay.agents"
SUITES = "longplay.suites"
TRACKS = "longplay.tracks"
METRICS = "longplay.metrics"

Kind = TypeVar("Kind")


@cache
def list_entry_points(group: str) -> Mapping[str, EntryPoint]:
    """Name -> entry point of a group; nothing is imported.

    Kept, since finding them takes 25 ms: a package that is installed later counts for
    the next process.
    """
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}


def load_entry_point(group: str, name: str, kind: type[Kind]) -> Kind | None:
    """The object that an installed package offers; None if there is none of this name.

    Raises:
        ConfigError: Importing it raised, or it is something else.
    """
    point = list_entry_points(group).get(name)
    if point is None:
        return None
    try:
        found = point.load()
    except Exception as error:
        raise ConfigError(
            f"entry point {name!r} of {group}: importing {point.value} raised "
            f"{describe_exception(error)}; repair or uninstall its package"
        ) from error
    if not isinstance(found, kind):
        raise ConfigError(
            f"entry point {name!r} of {group}: expected {point.value} to be a "
            f"{kind.__name__}, found {type(found).__name__}"
        )
    return found


def load_entry_points(group: str, kind: type[Kind]) -> dict[str, Kind]:
    """Name -> object of all entry points of a group.

    Raises:
        ConfigError: As `load_entry_point`.
    """
    found = {n: load_entry_point(group, n, kind) for n in list_entry_points(group)}
    return {name: loaded for name, loaded in found.items() if loaded is not None}
