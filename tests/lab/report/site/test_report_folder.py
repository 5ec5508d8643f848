"""The folder of a report: complete, reproducible, safe, nothing from elsewhere."""

from __future__ import annotations

import csv
import os
import re
import signal
from html.parser import HTMLParser
from pathlib import Path

import pytest

from compared_runs import Compared
from longplay.contract.files import read_document
from longplay.errors import OutputError
from longplay.lab.analysis.records import Comparison
from longplay.lab.report.site import report
from longplay.lab.report.site.report import ReportInput, write_report


class Page(HTMLParser):
    """Addresses, ids, scripts and handlers of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.text = path.read_text(encoding="utf-8")
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.inline_scripts = 0
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        self.addresses += [values[n] for n in ("href", "src") if values.get(n)]
        self.ids += [values["id"]] if "id" in values else []
        self.handlers += [name for name in values if name.startswith("on")]
        is_data = values.get("type") == "application/json"
        self.inline_scripts += tag == "script" and "src" not in values and not is_data


@pytest.fixture(scope="module")
def folder(compared: Compared, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(compared, tmp_path_factory.mktemp("report") / "site")


def write(compared: Compared, directory: Path) -> Path:
    given = ReportInput(
        compared.found,
        compared.comparison,
        compared.anchors,
        lambda run: "replayed" if run.seed == 0 else "claimed",
        ("--baselines",),
    )
    write_report(directory, given)
    return directory


def read_all(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_every_link_leads_to_a_file_beside_the_page(folder):
    page = Page(folder / "index.html")
    local = [a for a in page.addresses if not a.startswith(("#", "data:"))]
    assert len(local) > 20
    for address in local:
        assert not re.match(r"[a-z]+:|//", address), address
        assert (folder / address).is_file(), address
    anchors = {a.removeprefix("#") for a in page.addresses if a.startswith("#")}
    assert anchors <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_no_file_is_left_without_a_link(folder):
    page = Page(folder / "index.html")
    assert read_all(folder).keys() - {"index.html"} == {
        a for a in page.addresses if not a.startswith(("#", "data:"))
    }


def test_every_table_is_a_csv_and_a_latex_file(folder):
    (section,) = (path for path in folder.iterdir() if path.is_dir())
    for name in ("agents", "by-game", "settings", "provenance"):
        rows = (section / f"{name}.csv").read_text().splitlines()
        latex = (section / f"{name}.tex").read_text()
        assert len(rows) > 1
        assert r"\begin{tabular}" in latex
    agents = csv.DictReader((section / "agents.csv").read_text().splitlines())
    games = csv.DictReader((section / "by-game.csv").read_text().splitlines())
    assert {row["game"] for row in agents} == {""}
    assert "" not in {row["game"] for row in games}


def test_no_inline_script_and_no_handler(folder):
    page = Page(folder / "index.html")
    assert page.inline_scripts == 0
    assert page.handlers == []


def test_names_are_escaped(folder):
    page = Page(folder / "index.html")
    assert "b" not in page.tags
    assert "&lt;b&gt;beta&lt;/b&gt; &amp; co" in page.text


def test_same_runs_give_the_same_bytes(folder, compared, tmp_path):
    assert read_all(write(compared, tmp_path / "again")) == read_all(folder)


def test_nothing_names_this_machine(folder, compared):
    for name, content in read_all(folder).items():
        if name != "plotly.min.js":
            assert str(compared.path).encode() not in content, name


def test_numbers_are_those_of_the_comparison(folder, compared):
    found = read_document(folder / "analysis.json", Comparison)
    assert found.suites == compared.comparison.suites
    assert (folder / "numbers.csv").read_text().count("\n") > 40


def test_page_says_where_runs_come_from_and_how_to_make_them(folder):
    text = Page(folder / "index.html").text
    assert "replayed" in text
    assert (
        "longplay run stream-smoke-v1 --agent alpha --set base_visit_frames=60" in text
    )
    assert "--seeds 0-2" in text
    assert "longplay report PATH… -o DIR --baselines" in text
    assert "settings that differ" in text


def test_twenty_runs_are_small(folder):
    size = sum(len(c) for n, c in read_all(folder).items() if n != "plotly.min.js")
    assert size < 3_000_000


@pytest.mark.exhaustive
def test_report_that_was_killed_does_not_block_the_next(
    compared, tmp_path, monkeypatch, folder
):
    def end(*_: object) -> None:
        signal.raise_signal(signal.SIGKILL)

    # In a container, every process may have the same id.
    monkeypatch.setattr("os.getpid", lambda: 1)
    pid = os.fork()
    if pid == 0:
        try:
            monkeypatch.setattr(report, "write_document", end)
            write(compared, tmp_path / "site")
        finally:  # an error must not make a second test runner of this process
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    assert not (tmp_path / "site").exists()
    assert read_all(write(compared, tmp_path / "site")) == read_all(folder)


def test_folder_that_is_not_empty_is_refused(folder, compared):
    before = read_all(folder)
    with pytest.raises(OutputError, match="exists and is not empty"):
        write(compared, folder)
    assert read_all(folder) == before
