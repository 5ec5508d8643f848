"""Runs that were ticked, or those of an experiment -> the figures of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlencode

from longplay.lab.analysis.comparison import Request, compare, runs_by_label
from longplay.lab.analysis.records import Comparison, SuiteComparison
from longplay.lab.analysis.runs import FoundRuns, MeasuredRun
from longplay.lab.probes.numbers import add_memory
from longplay.lab.report.draw.colours import style_agents
from longplay.lab.report.draw.drawings import Drawing, Shown, drawing_to_csv
from longplay.lab.report.draw.figures import make_figure
from longplay.lab.report.site.sections import (
    PageFigure,
    Section,
    draw_all,
    make_section,
    table_differences,
    table_figure,
)
from longplay.lab.report.site.verdicts import read_trust
from longplay.lab.report.tables import comparison_to_csv
from longplay.lab.viewer.index import RunEntry
from longplay.lab.viewer.kept import PageNotFoundError
from longplay.lab.viewer.site import Site
from longplay.scoring.normalisation import make_scale
from longplay.tables import TextTable

# A comparison reads the documents and curves of all its runs.
MOST_COMPARED = 200

Drawer = Callable[[Shown], Iterable[Drawing]]


@dataclass(frozen=True)
class Compared:
    """Runs, and how they compare."""

    found: FoundRuns
    comparison: Comparison

    def show(self, site: Site, suite: SuiteComparison) -> Shown:
        """A table of the comparison, with its runs and its scale."""
        scale = make_scale(site.anchors, suite.suite, suite.games, suite.emulator)
        runs = runs_by_label(self.found, suite)
        agents = (agent for table in self.comparison.suites for agent in table.agents)
        styles = style_agents({agent.label for agent in agents}, site.styles)
        return Shown(suite, runs, scale, site.link_probe, styles)


def compare_entries(site: Site, entries: Sequence[RunEntry]) -> Compared:
    """Compares runs, as `longplay compare` does."""
    found = site.read_runs(list(entries))
    comparison = compare(found, Request(site.anchors))
    return Compared(found, add_memory(comparison, found, site.anchors, site.open_probe))


def make_sections(
    site: Site, compared: Compared, draw: Drawer, address: str, query: str
) -> list[Section]:
    """One section per table of a comparison.

    Args:
        site: The viewer.
        compared: The comparison.
        draw: The figures to show of a table.
        address: Where CSV files of figures are: `<address>/<suite>/<kind>.csv`.
        query: Added to these addresses.
    """
    sections = []
    for number, suite in enumerate(compared.comparison.suites):
        shown = compared.show(site, suite)
        figures = [
            PageFigure(
                f"figure-{number}-{drawing.kind}",
                drawing.title,
                drawing.full_caption,
                make_figure(drawing),
                {"CSV": f"{address}/{number}/{drawing.kind}.csv{query}"},
                table_figure(drawing),
            )
            for drawing in draw(shown)
        ]
        trust = partial(read_trust, reads_rows=False)
        sections.append(make_section(f"suite-{number}", shown, figures, trust))
    return sections


def find_entries(site: Site, run_ids: Sequence[str]) -> list[RunEntry]:
    """The runs of a request, each once.

    Raises:
        PageNotFoundError: An id is unknown, or there are none or too many.
    """
    ids = list(dict.fromkeys(run_ids))
    if not ids:
        raise PageNotFoundError("tick two or more runs in the list to compare them")
    if len(ids) > MOST_COMPARED:
        raise PageNotFoundError(f"expected at most {MOST_COMPARED} runs to compare")
    return [site.find_run(run_id) for run_id in ids]


def render_comparison(site: Site, run_ids: Sequence[str]) -> bytes:
    """The page of a comparison."""
    entries = find_entries(site, run_ids)
    compared = compare_entries(site, entries)
    query = "?" + urlencode([("run", entry.id) for entry in entries])
    return site.render(
        "compare.html",
        comparison=compared.comparison,
        sections=make_sections(site, compared, draw_all, "/compare", query),
        differences=_table_settings(compared.found.runs),
        cards=[site.cards.read(entry) for entry in entries],
        numbers=f"/compare.csv{query}",
    )


def _table_settings(runs: Sequence[MeasuredRun]) -> TextTable | None:
    """Everything in which the configs of the runs differ."""
    configs = {}
    for run in runs:
        config = run.config.model_dump(mode="json")
        ours = ("suite", "seed", "config_effective", "agent", "versions", "git")
        label = f"{run.agent.name}, seed {run.seed}"
        while label in configs:
            label += "′"
        configs[label] = {name: config.get(name) for name in ours}
    return table_differences(configs)


def comparison_csv(site: Site, run_ids: Sequence[str]) -> str:
    """Every number of a comparison."""
    compared = compare_entries(site, find_entries(site, run_ids))
    return comparison_to_csv(compared.comparison)


def figure_csv(
    site: Site, entries: Sequence[RunEntry], draw: Drawer, number: int, kind: str
) -> str:
    """The numbers of one figure.

    Raises:
        PageNotFoundError: There is no such figure.
    """
    compared = compare_entries(site, entries)
    suites = compared.comparison.suites
    if number < len(suites):
        for drawing in draw(compared.show(site, suites[number])):
            if drawing.kind == kind:
                return drawing_to_csv(drawing)
    raise PageNotFoundError("the comparison has no such figure")
