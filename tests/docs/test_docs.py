"""The docs agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import longplay
import suites_page
from api import UnlistedNameError, render_page
from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import ScheduledVisit
from longplay.lab.analysis.results import Results
from longplay.stream import Mechanics, Stream
from longplay.suites import SUITES
from schemas import EVAL_LOG, RUN_DIRECTORY, SchemaSet, render_schema
from site_links import BrokenLinkError, link_to_repository

ROOT = Path(__file__).parents[2]


def read(name: str | Path) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("files", "name"),
    [(files, name) for files in (RUN_DIRECTORY, EVAL_LOG) for name in files.file_names],
)
def test_schema_files_match_the_records(files: SchemaSet, name: str) -> None:
    expected = render_schema(files.make_schemas()[name])
    found = files.schema_path(name).read_text(encoding="utf-8")
    assert found == expected, "run `make schema`"


@pytest.mark.parametrize("files", [RUN_DIRECTORY, EVAL_LOG])
def test_field_tables_match_the_records(files: SchemaSet) -> None:
    page = read(files.page)
    assert page == files.fill_tables(page), "run `make schema`"
    assert page.count("<!-- fields:") == len(files.file_names)


def boundary_table() -> list[str]:
    """Calls of `step` around a game over and a visit's end, as markdown rows."""
    visits = [
        ScheduledVisit(visit_idx=0, cycle_idx=0, game_id="alpha", visit_frames=6),
        ScheduledVisit(visit_idx=1, cycle_idx=0, game_id="beta", visit_frames=3),
    ]
    console = ScriptedConsole(life_frames=2)
    stream = Stream(visits, (28, 9), console, Mechanics(decision_interval=2, delay=1))
    rows, shows = [], "first of the run"
    while not stream.done:
        percept = stream.percept()
        info = percept.info
        previous = info["prev_applied_action_idx"]
        rows.append(
            f"| {info['global_frame_idx']} | {shows} | {percept.reward} "
            f"| {percept.terminated} | {percept.truncated} | {info['lives']} "
            f"| {'yes' if info['is_decision_frame'] else ''} "
            f"| {previous if info['has_prev_applied_action'] else 'none'} |"
        )
        event = stream.advance(2 + info["global_frame_idx"])
        shows = f"after frame {event.global_frame_idx}"
        if event.terminated:
            shows = "first of a new game"
        if event.truncated:
            shows = "first of a new visit"
    return rows


def test_boundary_table_is_what_step_sees() -> None:
    page = read("docs/agents.md").split("<!-- boundary table -->")[1]
    printed = page.split("<!-- end -->")[0].strip().splitlines()[2:]
    assert printed == boundary_table()[2:8]
    assert len(printed) == 6


def test_api_page_matches_the_public_names() -> None:
    assert read("docs/api.md") == render_page(), "run `make facts`"


def test_api_page_lists_every_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    page = read("docs/api.md")
    assert [name for name in longplay.__all__ if f"{name}`" not in page] == []
    monkeypatch.setattr(longplay, "__all__", [*longplay.__all__, "__doc__"])
    with pytest.raises(UnlistedNameError, match="__doc__"):
        render_page()


PAGES = sorted(p.relative_to(ROOT) for p in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_page_has_one_title(page: Path) -> None:
    without_code = re.sub(r"^```.*?^```", "", read(page), flags=re.M | re.S)
    titles = re.findall(r"^# .+", without_code, flags=re.M)
    assert len(titles) == 1
    assert without_code.startswith(titles[0])


LINKS = [
    ("[a](../README.md)", "[a](https://host/r/blob/main/README.md)"),
    ("[a](../LICENSE#grant)", "[a](https://host/r/blob/main/LICENSE#grant)"),
    ("[a](agents.md) ../README.md", "[a](agents.md) ../README.md"),
]


@pytest.mark.parametrize(("markdown", "expected"), LINKS)
def test_links_out_of_the_docs_lead_to_the_repository(
    markdown: str, expected: str
) -> None:
    assert link_to_repository(markdown, "page.md", "https://host/r/") == expected


def test_link_to_a_file_that_is_gone_is_an_error() -> None:
    with pytest.raises(BrokenLinkError, match=r"docs/page.md: .* src/gone.py"):
        link_to_repository("[a](../src/gone.py)", "page.md", "https://host/r")


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_to_source_files_are_not_broken(page: Path) -> None:
    link_to_repository(read(page), page.name, "https://host/r")


def test_suites_page_matches_the_catalogue() -> None:
    assert read("docs/suites.md") == suites_page.render_page(), "run `make facts`"


def test_suite_without_results_is_experimental(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not suites_page.is_experimental("control-v1")
    assert not suites_page.is_experimental("control-smoke-v1")
    monkeypatch.setattr(suites_page, "shipped_results", Results)
    assert suites_page.is_experimental("control-v1")
    assert "**Experimental.** Shows how fast" in suites_page.render_page()


def test_noise_of_a_suite_is_that_of_its_seeds() -> None:
    (noise, *_) = suites_page.measure_noise(SUITES["control-smoke-v1"])
    assert noise.values == (2.0, 10.0, 1.0)
    assert str(noise) == (
        "random, cumulative reward: 4.33, standard deviation 4.93, standard error 2.85 "
        "(3 seeds)"
    )


def test_bibtex_agrees_with_the_citation_file() -> None:
    citation = dict(re.findall(r'^([\w-]+): "?(.+?)"?$', read("CITATION.cff"), re.M))
    (author,) = re.findall(r'- name: "(.+)"', read("CITATION.cff"))
    (entry,) = re.findall(r"```bibtex\n(.*?)```", read("docs/citing.md"), re.S)
    fields = dict(re.findall(r"^  (\w+) = \{+(.+?)\}+,?$", entry, re.M))
    assert fields == {
        "author": author,
        "title": citation["title"],
        "version": citation["version"],
        "url": citation["repository-code"],
    }
    assert citation["version"] == longplay.__version__
