"""`longplay.compare`, `plot` and `report`: what the commands of these names answer."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longplay
from compared_runs import Compared
from longplay.errors import ConfigError, NotARunError, OutputError, UnknownNameError
from longplay.lab.report.tables import comparison_to_csv


@pytest.fixture(scope="module")
def comparison(compared: Compared) -> longplay.Comparison:
    return longplay.compare(compared.path)


def test_numbers_are_those_of_the_command(
    compared: Compared, comparison: longplay.Comparison, invoke: Callable[..., Any]
) -> None:
    answer = invoke("compare", compared.path, "--json").json
    assert json.loads(comparison.analysis.model_dump_json()) == answer
    assert [suite.title for suite in comparison.suites] == [
        suite["title"] for suite in answer["suites"]
    ]


def test_options_are_those_of_the_command(
    compared: Compared, invoke: Callable[..., Any]
) -> None:
    versus, suite = "<b>beta</b> & co", compared.comparison.suites[0].suite
    path = str(compared.path)
    made = longplay.compare(path, baselines=True, versus=versus, suite=suite)
    words = ("--baselines", "--versus", versus, "--suite", suite)
    answer = invoke("compare", compared.path, *words, "--json").json
    assert json.loads(made.analysis.model_dump_json()) == answer


def test_every_number_is_a_row(comparison: longplay.Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(comparison_to_csv(comparison.analysis))))
    numbers = comparison.numbers
    assert len(numbers) == len(rows) == 10
    for name in ("agent", "game", "metric", "seeds"):
        assert numbers[name].tolist() == [row[name] for row in rows]
    assert numbers["mean"].tolist() == [float(row["mean"]) for row in rows]
    without = [row["low"] == "" for row in rows]
    assert np.isnan(numbers["low"]).tolist() == without


def test_numbers_as_an_arrow_table(comparison: longplay.Comparison) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = comparison.arrow()
    assert table.num_rows == len(comparison.numbers)
    assert table.column("tuning_frames").null_count == table.num_rows
    # What any other library of Arrow reads.
    assert pyarrow.table(comparison.numbers) == table


def test_a_notebook_shows_tables_with_escaped_names(
    comparison: longplay.Comparison,
) -> None:
    page = comparison._repr_html_()
    assert "&lt;b&gt;beta&lt;/b&gt; &amp; co" in page
    assert "<b>" not in page
    assert page.count("<table>") == page.count("</table>") == 2
    assert "P(better)" in page
    assert "Δ and P(better) are against alpha" in page


def write_styles(folder: Path) -> Path:
    styles = folder / "styles.toml"
    styles.write_text('[alpha]\ncolour = "#123456"')
    return styles


def test_options_that_a_figure_does_not_have(comparison: longplay.Comparison) -> None:
    with pytest.raises(ConfigError, match=r"^bins: expected a divisor of 60"):
        comparison.plot(bins=7)
    with pytest.raises(UnknownNameError, match="unknown agent among the runs 'gamma'"):
        comparison.plot(agents="gamma")
    with pytest.raises(ConfigError, match=r"^columns: expected 1 or 2, found 3"):
        comparison.plot(columns=3)._repr_png_()  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'bin'"):
        longplay.plot(comparison.found.runs[0].path, bin=5)  # type: ignore[call-arg]


def test_a_figure_is_that_of_the_command(
    compared: Compared, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    styles = write_styles(tmp_path)
    figure = longplay.plot(
        compared.path,
        out=tmp_path / "mine.svg",
        columns=2,
        agents=["alpha"],
        games=["qbert", "centipede"],
        bins=5,
        smooth=1,
        styles=styles,
    )
    figure.save(tmp_path / "mine.csv")
    figure.save_numbers(tmp_path / "mine.txt")
    words = ("--columns", "2", "--agents", "alpha", "--games", "qbert,centipede")
    words += ("--bins", "5", "--smooth", "1", "--styles", styles, "--quiet")
    for ending in ("csv", "txt"):
        files = ("-o", tmp_path / "other.svg", "--csv", tmp_path / f"other.{ending}")
        assert invoke("plot", compared.path, *words, *files).exit_code == 0
    assert "#123456" in (tmp_path / "mine.svg").read_text()
    for ending in ("svg", "csv", "txt"):
        mine, other = (tmp_path / f"{name}.{ending}" for name in ("mine", "other"))
        assert mine.read_bytes() == other.read_bytes()
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_report_is_that_of_the_command(
    compared: Compared, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    styles = write_styles(tmp_path)
    page = longplay.report(
        compared.path, out=tmp_path / "mine", versus="alpha", styles=styles
    )
    assert page == tmp_path / "mine" / "index.html"
    words = ("--versus", "alpha", "--styles", styles)
    words += ("-o", tmp_path / "other", "--quiet")
    assert invoke("report", compared.path, *words).exit_code == 0
    for path in (tmp_path / "other").rglob("*.*"):
        name = path.relative_to(tmp_path / "other")
        assert (tmp_path / "mine" / name).read_bytes() == path.read_bytes(), name
    with pytest.raises(OutputError, match="mine"):
        longplay.report(compared.path, out=tmp_path / "mine")


def test_several_suites_need_a_choice(compared: Compared, finished_run: Path) -> None:
    both = longplay.compare(compared.path, finished_run)
    assert len(both.suites) == 2
    with pytest.raises(ConfigError, match=r"suite: expected one of .*, found none"):
        both.plot()
    for suite in both.suites:
        assert both.plot("games", suite=suite.title).drawing.panels
    with pytest.raises(ConfigError, match="found pong"):
        both.plot(suite="pong")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"versus": "gamma"}, UnknownNameError),
        ({"suite": "control-v2"}, UnknownNameError),
    ],
)
def test_unknown_names_are_refused(
    options: dict[str, str], error: type[Exception], compared: Compared
) -> None:
    with pytest.raises(error):
        longplay.compare(compared.path, **options)  # type: ignore[arg-type]


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotARunError):
        longplay.compare(tmp_path)
