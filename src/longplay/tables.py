"""One table -> text for a terminal, CSV, LaTeX, Markdown and notebooks.

A table is a value, a `TextTable` of `Cell`s: commands print it, files are written from
it, notebooks show it, and pages show it with the macro `table` of
`lab/report/site/templates/parts.html`.
On a terminal it has no lines, text on the left and numbers on the right. A table of
numbers that is too wide becomes several, each with the columns of names; text is
wrapped instead.
"""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from longplay.errors import escape_lines

NOTHING = "–"
# Rich needs 0.5 ms for a row: longer tables are printed without it.
_MANY_ROWS = 200
_GAP = 2

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "±": r"$\pm$",
    "−": "$-$",
    "…": r"\ldots{}",
    "–": "--",
    "Δ": r"$\Delta$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "ε": r"$\epsilon$",
    "λ": r"$\lambda$",
}
# What TeX's default encoding of input has, beside ASCII.
_LATIN = range(0xA0, 0x180)


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: The text shown.
        value: The sort key, and what CSV has; None is last.
        style: How a terminal shows it, in the words of rich.
        links: (text, address) of downloads that a page shows instead.
        page: Address of the page it leads to; empty for none.
        live: Name by which a page changes its text; empty if it does not.
    """

    text: str
    value: float | str | None = None
    style: str = ""
    links: tuple[tuple[str, str], ...] = ()
    page: str = ""
    live: str = ""


Value = Cell | str | float | None
_Item = TypeVar("_Item")
# A heading, and what stands below it for an item.
Column = tuple[str, Callable[[_Item], Value]]


def make_cell(value: Value, style: str = "") -> Cell:
    """A cell of text, of a number with five digits, or of nothing: a dash."""
    if isinstance(value, Cell):
        return replace(value, style=style or value.style)
    if value is None or isinstance(value, str):
        return Cell(NOTHING if value is None else value, value or None, style)
    text = f"{value:,}" if isinstance(value, int) else format_number(value)
    return Cell(text, value, style)


def format_number(value: float | None, digits: int = 5) -> str:
    """A number with a few digits; a dash for None."""
    return NOTHING if value is None else f"{value:.{digits}g}"


def count(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class TextTable:
    """A table of text.

    Attributes:
        title: Its heading.
        columns: Headings.
        rows: One cell per column each.
        names: Number of leading columns that contain names.
        texts: Other columns of text.
        unbroken: Columns that a terminal must not wrap.
        notes: Lines below it.
        files: Name -> address of downloads below it on a page.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    names: int = 1
    texts: Collection[int] = ()
    unbroken: Collection[int] = ()
    notes: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        title: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[Value]],
        names: int = 1,
        texts: Collection[int] = (),
    ) -> TextTable:
        """A table of plain values; rows may be shorter than the headings."""
        filled = tuple(
            tuple(map(make_cell, (*row, *[""] * (len(columns) - len(row)))))
            for row in rows
        )
        return cls(title, tuple(columns), filled, names, texts)

    @classmethod
    def of_items(
        cls,
        title: str,
        items: Iterable[_Item],
        *columns: Column[_Item],
        names: int = 1,
        texts: Collection[int] = (),
    ) -> TextTable:
        """A table with a row per item, column by column."""
        rows = [[value_of(item) for _, value_of in columns] for item in items]
        return cls.of(title, [head for head, _ in columns], rows, names, texts)

    def add_rows(self, *rows: Sequence[Value]) -> TextTable:
        """The table with more rows at its end."""
        added = TextTable.of("", self.columns, rows).rows
        return replace(self, rows=self.rows + added)

    def widths(self) -> list[int]:
        """Characters of the widest cell of each column."""
        rows = [self.columns, *([cell.text for cell in row] for row in self.rows)]
        return [
            max(len(line) for text in texts for line in text.split("\n"))
            for texts in zip(*rows, strict=True)
        ]

    def split(self, width: int) -> list[TextTable]:
        """Tables of at most that many characters, each with the name columns."""
        sizes = [size + _GAP for size in self.widths()]
        names = tuple(range(self.names))
        blocks: list[list[int]] = [[]]
        for n in range(self.names, len(self.columns)):
            needed = sum(sizes[: self.names]) + sum(sizes[k] for k in blocks[-1])
            if needed + sizes[n] > width and blocks[-1]:
                blocks.append([])
            blocks[-1].append(n)
        return [self.choose((*names, *block)) for block in blocks]

    def choose(self, positions: Sequence[int]) -> TextTable:
        """Some of the columns."""
        return replace(
            self,
            columns=tuple(self.columns[n] for n in positions),
            rows=tuple(tuple(row[n] for n in positions) for row in self.rows),
            names=sum(n < self.names for n in positions),
            texts=[k for k, n in enumerate(positions) if n in self.texts],
            unbroken=[k for k, n in enumerate(positions) if n in self.unbroken],
        )

    def is_left(self, position: int) -> bool:
        """Whether a column is text, which stands on the left."""
        return position < self.names or position in self.texts

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """The table as a terminal shows it."""
        # A title of rich's own would be wrapped at the width of the table.
        if self.title:
            yield Text(escape_lines(self.title), "bold")
        if len(self.rows) > _MANY_ROWS:
            yield Text(render_plain(self), no_wrap=True, overflow="ignore")
        else:
            blocks = [self] if self.texts else self.split(options.max_width)
            yield from map(_to_rich, blocks)
        yield from (indent(note) for note in self.notes)


# --- terminal -------------------------------------------------------------------


def _to_rich(table: TextTable) -> Table:
    shown = Table(box=None)
    for position, column in enumerate(table.columns):
        shown.add_column(
            Text(escape_lines(column)),
            justify="left" if table.is_left(position) else "right",
            header_style="dim",
            no_wrap=position in table.unbroken,
            overflow="fold",
        )
    for row in table.rows:
        # As `Text`: rich would read names as markup. Escaped, before it is measured.
        shown.add_row(*(Text(escape_lines(cell.text), cell.style) for cell in row))
    return shown


def render_plain(table: TextTable) -> str:
    """The same without colours and wrapping."""
    rows = [table.columns, *([cell.text for cell in row] for row in table.rows)]
    sides = [
        str.ljust if table.is_left(n) else str.rjust for n in range(len(table.columns))
    ]
    widths = table.widths()
    return "\n".join(
        "".join(
            f" {side(text, width)} "
            for side, text, width in zip(sides, row, widths, strict=True)
        )
        for row in rows
    )


def indent(text: str, style: str = "dim") -> Padding:
    """A paragraph below a table, indented with all its lines."""
    return Padding(Text(text, style), (0, 0, 0, 1), expand=False)


def make_facts(*rows: tuple[str, str]) -> Padding:
    """Names and values side by side; long values are wrapped."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*(Text(escape_lines(text)) for text in row))
    return Padding(grid, (1, 0, 1, 1))


# --- files ----------------------------------------------------------------------


def render_csv(table: TextTable) -> str:
    """The values of a table, with all digits and uncut names."""
    rows = (
        [cell.text if cell.value is None else cell.value for cell in row]
        for row in table.rows
    )
    return write_csv(table.columns, rows)


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The csv module writes None as nothing, and a float as `repr` does."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def render_markdown(table: TextTable) -> str:
    """A table for a page of docs."""
    rule = "|---" * table.names + "|--:" * (len(table.columns) - table.names) + "|"
    rows = [[cell.text for cell in row] for row in table.rows]
    lines = [
        " | ".join(text.replace("|", "\\|") for text in cells)
        for cells in (table.columns, *rows)
    ]
    return "\n".join([f"| {lines[0]} |", rule, *(f"| {x} |" for x in lines[1:]), ""])


def render_html(table: TextTable) -> str:
    """A table for a notebook, in its own style; all text is escaped."""
    sides = ["left" if table.is_left(n) else "right" for n in range(len(table.columns))]
    rows = [[cell.text for cell in row] for row in table.rows]
    head, *body = (
        "".join(
            f'<{tag} style="text-align:{side}">{_escape_html(text)}</{tag}>'
            for side, text in zip(sides, cells, strict=True)
        )
        for tag, cells in [("th", table.columns), *(("td", row) for row in rows)]
    )
    lines = [
        "<table>",
        f"<caption>{_escape_html(table.title)}</caption>" if table.title else "",
        f"<thead><tr>{head}</tr></thead>" if any(table.columns) else "",
        "<tbody>",
        *(f"<tr>{row}</tr>" for row in body),
        "</tbody>",
        "</table>",
        *(f"<p>{_escape_html(note)}</p>" for note in table.notes),
    ]
    return "\n".join(filter(None, lines))


def _escape_html(text: str) -> str:
    return html.escape(escape_lines(text))


def render_latex(table: TextTable) -> str:
    """A `tabular` for the package booktabs."""
    heads = " & ".join(map(_latex_head, table.columns))
    rows = [" & ".join(map(_latex_cell, row)) + r" \\" for row in table.rows]
    numbers = len(table.columns) - table.names
    comments = (f"% {line}".replace("\n", " ") for line in (table.title, *table.notes))
    lines = [
        *comments,
        rf"\begin{{tabular}}{{{'l' * table.names}{'r' * numbers}}}",
        r"\toprule",
        rf"{heads} \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _latex_cell(cell: Cell) -> str:
    text = escape_latex(cell.text)
    return rf"\textbf{{{text}}}" if cell.style == "bold" else text


def _latex_head(text: str) -> str:
    return escape_latex(text).replace("P(", "$P$(")


def escape_latex(text: str) -> str:
    """Text, escaped for LaTeX; a character that TeX lacks is named by its number."""
    return "".join(_LATEX.get(c) or _name_character(c) for c in text)


def _name_character(character: str) -> str:
    is_known = character.isascii() or ord(character) in _LATIN
    return character if is_known else f"[U+{ord(character):04X}]"
