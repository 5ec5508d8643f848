"""All runs: the first page, and what changes on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from longplay.lab.viewer.cards import (
    RunCard,
    describe_date,
    describe_learning,
    describe_progress,
    describe_state,
)
from longplay.lab.viewer.index import ExperimentEntry
from longplay.lab.viewer.site import Site
from longplay.runs.status import describe_age
from longplay.tables import NOTHING, format_number

GROUPS = ("", "agent", "suite", "experiment")


@dataclass(frozen=True)
class CardGroup:
    """Runs under one heading; the heading is empty without groups."""

    heading: str
    cards: Sequence[RunCard]


@dataclass(frozen=True)
class ListedExperiment:
    """An experiment in the list."""

    entry: ExperimentEntry
    cards: Sequence[RunCard]

    @property
    def planned(self) -> int:
        """Number of runs it has, or will have."""
        plan = self.entry.plan
        return len(plan.seeds) if plan else len(self.cards)

    @property
    def complete(self) -> int:
        """Number of complete runs."""
        return sum(card.state == "COMPLETED" for card in self.cards)


def render_list(site: Site, group: str) -> bytes:
    """The list of runs.

    Args:
        site: The viewer.
        group: One of `GROUPS`; anything else is no grouping.
    """
    cards = site.read_cards()
    by_id = {card.entry.id: card for card in cards}
    experiments = [
        ListedExperiment(
            entry, [by_id[run.id] for run in entry.runs if run.id in by_id]
        )
        for entry in site.index.read().experiments.values()
    ]
    names = {e.entry.id: e.entry.name for e in experiments}
    return site.render(
        "runs.html",
        groups=_group(cards, group, names),
        group=group if group in GROUPS else "",
        group_names=GROUPS,
        count=len(cards),
        live=sum(card.is_live for card in cards),
        experiments=experiments,
        studies=list(site.index.read().studies.values()),
        describe_state=describe_state,
        describe_progress=describe_progress,
        describe_age=describe_age,
        describe_date=describe_date,
        format_value=format_number,
    )


def _group(
    cards: Sequence[RunCard], group: str, names: dict[str, str]
) -> list[CardGroup]:
    if group not in GROUPS[1:]:
        return [CardGroup("", cards)]
    found: dict[str, list[RunCard]] = {}
    for card in cards:
        if group == "experiment":
            heading = names.get(card.entry.experiment_id or "", "")
        else:
            heading = card.agent if group == "agent" else card.suite
        found.setdefault(heading or "unknown", []).append(card)
    return [CardGroup(heading, found[heading]) for heading in sorted(found)]


def list_news(site: Site) -> dict[str, Any]:
    """The runs in progress, as texts of cells of the list."""
    cards = site.read_cards()
    live = [card for card in cards if card.is_live]
    texts: dict[str, str] = {}
    for card in live:
        texts |= live_texts(card)
    known = "-".join((str(len(cards)), *(card.entry.id for card in live)))
    return {"texts": texts, "version": known}


def state_news(cards: Sequence[RunCard]) -> dict[str, Any]:
    """What changes on a page of some runs, which is loaded again with every state."""
    texts: dict[str, str] = {}
    for card in cards:
        texts |= live_texts(card) if card.is_live else {}
    states = "-".join((str(len(cards)), *(card.state for card in cards)))
    return {"texts": texts, "version": states}


def live_texts(card: RunCard) -> dict[str, str]:
    """Name of a place on a page -> its text."""
    name = card.entry.id
    return {
        f"{name}-state": describe_state(card.state),
        f"{name}-progress": describe_progress(card),
        f"{name}-learning": describe_learning(card),
        f"{name}-heartbeat": describe_age(card.heartbeat_utc)
        if card.heartbeat_utc
        else NOTHING,
    }
