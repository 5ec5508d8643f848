"""One table as a terminal, CSV, LaTeX and Markdown show it."""

from __future__ import annotations

import csv
import io

from rich.console import Console

from longplay.tables import (
    Cell,
    TextTable,
    count,
    escape_latex,
    make_cell,
    render_csv,
    render_latex,
    render_markdown,
)


def show(table: TextTable, width: int = 60) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_title_may_be_wider_than_its_table() -> None:
    title = "a suite, a seed, and an agent with a long name"
    table = TextTable.of(title, ("game", "score"), [("pong", 21)])
    assert show(table) == [title, " game  score", " pong     21"]


def test_numbers_are_right_aligned_and_nothing_is_a_dash() -> None:
    rows = [("pong", 1234, 0.123456789), ("qbert", None)]
    table = TextTable.of("", ("game", "frames", "rate"), rows)
    assert show(table) == [
        " game   frames     rate",
        " pong    1,234  0.12346",
        " qbert       –",
    ]


def test_a_wide_table_of_numbers_is_split() -> None:
    heads = ("agent", *(f"column {n}" for n in range(4)))
    table = TextTable.of("wide", heads, [("random", 1, 2, 3, 4)])
    assert show(table, width=32) == [
        "wide",
        " agent   column 0  column 1",
        " random         1         2",
        " agent   column 2  column 3",
        " random         3         4",
    ]


def test_text_is_wrapped_and_notes_follow() -> None:
    rows = [("pong", "a sentence of several words")]
    table = TextTable.of("", ("game", "why"), rows, texts=(1,))
    noted = TextTable(
        table.title, table.columns, table.rows, 1, (1,), notes=("a note",)
    )
    assert show(noted, width=24) == [
        " game  why",
        " pong  a sentence of",
        "       several words",
        " a note",
    ]


def test_a_long_table_looks_the_same() -> None:
    rows = [(f"seed {n}", n) for n in range(100, 400)]
    long = show(TextTable.of("t", ("run", "x"), rows))
    short = show(TextTable.of("t", ("run", "x"), rows[:100]))
    assert len(long) == 302
    assert long[:102] == short


def test_names_are_no_markup_and_run_no_escapes() -> None:
    table = TextTable.of("", ("agent",), [("[red]x[/red]\x1b[2J",)])
    assert show(table) == [" agent", " [red]x[/red]\\x1b[2J"]


def test_markdown() -> None:
    row = (Cell("alpha | beta", "a"), Cell("–"))
    table = TextTable("games", ("agent", "Δ average"), (row,))
    assert render_markdown(table) == (
        "| agent | Δ average |\n|---|--:|\n| alpha \\| beta | – |\n"
    )


def test_csv_has_whole_values() -> None:
    row = (Cell("a long na…", "a long name"), make_cell(1 / 3), Cell("–"))
    table = TextTable("", ("agent", "rate", "other"), (row,))
    assert list(csv.reader(io.StringIO(render_csv(table)))) == [
        ["agent", "rate", "other"],
        ["a long name", "0.3333333333333333", "–"],
    ]


def test_latex() -> None:
    table = TextTable.of("t", ("agent", "P(better)"), [("a_b", 0.5)])
    assert r"agent & $P$(better) \\" in render_latex(table)
    assert r"a\_b & 0.5 \\" in render_latex(table)


def test_latex_names_what_tex_lacks() -> None:
    assert escape_latex(r"a_b \ {x} ~^$#%&") == (
        r"a\_b \textbackslash{} \{x\} \textasciitilde{}\textasciicircum{}\$\#\%\&"
    )
    assert escape_latex("TD(λ) Δ é") == r"TD($\lambda$) $\Delta$ é"
    assert escape_latex("学\ue000\udc80") == "[U+5B66][U+E000][U+DC80]"


def test_one_is_singular() -> None:
    assert (count(1, "run"), count(2_000, "run")) == ("1 run", "2,000 runs")
