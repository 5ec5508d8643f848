"""Shipped results of a suite -> lines below a score, and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from longplay.contract.config import RunConfig
from longplay.lab.analysis.results import shipped_results
from longplay.lab.report.tables import format_estimate
from longplay.tracks.catalogue import track_of

_WIDTH = 78


def describe_results(config: RunConfig) -> Iterator[str]:
    """The headlines of longplay's own agents on the official seeds of a suite.

    A customised suite has none.
    """
    found = shipped_results().headlines_of(config.suite or "")
    if not found:
        return
    track = track_of(config)
    order = sorted(found, key=lambda agent: found[agent].mean)
    if not track.less_is_better:
        order.reverse()
    name = track.headline.replace("_", " ")
    line = f"{name} on official seeds:"
    for number, agent in enumerate(order):
        words = f"{agent} {format_estimate(found[agent])}"
        words += "" if number == len(order) - 1 else ","
        if len(line) + 1 + len(words) > _WIDTH:
            yield line
            line = f"  {words}"
        else:
            line += f" {words}"
    yield line


def shipped_to_json(config: RunConfig) -> dict[str, Any] | None:
    """Agent -> its headline on the official seeds."""
    found = shipped_results().headlines_of(config.suite or "")
    return {name: found[name].model_dump(mode="json") for name in found} or None
