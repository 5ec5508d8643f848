"""What all pages share: the index, the cards of runs, and files read so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longplay.contract.curves import Curves
from longplay.contract.layout import probes_of
from longplay.contract.rows import EpisodeRow
from longplay.contract.rundir import PACK_SUFFIX, RunDirectory
from longplay.lab.analysis.runs import FoundRuns, MeasuredRun, RunReader
from longplay.lab.report.draw.colours import Style
from longplay.lab.report.site.pages import render_page
from longplay.lab.report.site.verdicts import open_pack
from longplay.lab.viewer.cards import CardReader, RunCard
from longplay.lab.viewer.index import (
    ExperimentEntry,
    Index,
    RunEntry,
    StudyEntry,
    fingerprint,
    identify,
)
from longplay.lab.viewer.kept import Kept, PageNotFoundError
from longplay.lab.viewer.replays import Replays
from longplay.lab.viewer.tail import (
    GrowingRun,
    MetricPoints,
    read_packed_metrics,
)
from longplay.scoring.anchors import Anchors
from longplay.verify.pack_file import PackFile

# Runs whose rows are kept in memory; the least recently used one is dropped.
_MOST_GROWING = 8


@dataclass(frozen=True)
class ShownRun:
    """A run that a page shows.

    Attributes:
        card: Its line in the list.
        run: Its documents.
        episodes: Game episodes that have ended; None of a pack.
        curves: Windows of its visits; None without curves, or where not read.
        metrics: Metric of the agent -> its points; empty where not read.
    """

    card: RunCard
    run: RunDirectory
    episodes: Sequence[EpisodeRow] | None
    curves: Curves | None = None
    metrics: Mapping[str, MetricPoints] = field(default_factory=dict)


class Site:
    """The state of a viewer; everything that changes is a cache.

    Attributes:
        index: The runs to show.
        anchors: The anchors that define z.
        styles: Agent -> how it is drawn, by a file; others by their names.
        cards: Reads a line of the list.
        replays: Frames that were replayed.
    """

    def __init__(
        self, index: Index, anchors: Anchors, styles: Mapping[str, Style] | None = None
    ) -> None:
        self.index = index
        self.anchors = anchors
        self.styles = styles or {}
        self.cards = CardReader(anchors)
        self.replays = Replays()
        self._growing: Kept[GrowingRun] = Kept(_MOST_GROWING)

    def find_run(self, run_id: str) -> RunEntry:
        """A run by its id.

        Raises:
            PageNotFoundError: The index has no such id.
        """
        listing = self.index.read()
        entry = listing.runs.get(run_id) or listing.others.get(run_id)
        if entry is None:
            raise PageNotFoundError("no run has this id")
        return entry

    def open_probe(self, path: Path) -> RunDirectory | None:
        """A probe; None if it is not in the index.

        Raises:
            DocumentError: Its files must not be read.
        """
        entry = self.index.read().others.get(identify(path))
        return None if entry is None else entry.open()

    def link_probe(self, run: MeasuredRun, state: str) -> str:
        """The address of the branches of a probe; empty if it is not in the index."""
        probes, folder = self.index.read().others, probes_of(run.path)
        for name in (state, f"{state}{PACK_SUFFIX}"):
            if (probe_id := identify(folder / name)) in probes:
                return f"/runs/{probe_id}#visits"
        return ""

    def find_experiment(self, experiment_id: str) -> ExperimentEntry:
        """An experiment by its id.

        Raises:
            PageNotFoundError: The index has no such id.
        """
        entry = self.index.read().experiments.get(experiment_id)
        if entry is None:
            raise PageNotFoundError("no experiment has this id")
        return entry

    def find_study(self, study_id: str) -> StudyEntry:
        """A study by its id.

        Raises:
            PageNotFoundError: The index has no such id.
        """
        entry = self.index.read().studies.get(study_id)
        if entry is None:
            raise PageNotFoundError("no study has this id")
        return entry

    def read_cards(self) -> list[RunCard]:
        """The cards of all runs."""
        return [self.cards.read(entry) for entry in self.index.read().runs.values()]

    @contextmanager
    def show_run(self, entry: RunEntry, *, with_curves: bool) -> Iterator[ShownRun]:
        """Reads what was added to a run since it was last shown.

        Args:
            entry: The run.
            with_curves: Whether its windows and metrics are needed.

        Raises:
            DocumentError: A file is damaged.
        """
        run = entry.open()
        card = self.cards.read(entry)
        if entry.is_pack:
            yield self._show_pack(card, run, with_curves=with_curves)
            return
        config_file = fingerprint(entry.path / "config.json")
        with self._growing.hold((entry.id, config_file)) as place:
            if not place:
                place.append(GrowingRun(entry.path, run.config))
            (growing,) = place
            is_whole = card.state == "COMPLETED"
            growing.update(with_windows=with_curves and not is_whole)
            if not with_curves:
                yield ShownRun(card, run, growing.episodes)
                return
            curves = run.curves if is_whole else growing.windows.whole_curves()
            yield ShownRun(card, run, growing.episodes, curves, growing.metrics())

    def _show_pack(
        self, card: RunCard, run: RunDirectory, *, with_curves: bool
    ) -> ShownRun:
        """A pack has documents, curves and metrics, but no rows."""
        if not with_curves:
            return ShownRun(card, run, None)
        with PackFile(run.path) as packed:
            metrics = read_packed_metrics(packed)
        return ShownRun(card, run, None, run.curves, metrics)

    def read_runs(self, entries: list[RunEntry]) -> FoundRuns:
        """The complete runs among some, and the reasons of the others.

        Raises:
            DocumentError: The files of a run must not be read.
        """
        for entry in entries:
            entry.open()
        reader = RunReader(open_pack, leaves_out_conflicts=True)
        return reader.read([entry.path for entry in entries])

    def render(self, template: str, **values: Any) -> bytes:
        """Fills a template of the viewer."""
        return render_page(f"viewer/{template}", assets="/static/", **values)
