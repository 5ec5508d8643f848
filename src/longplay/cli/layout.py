"""Layout of tables: no lines, text left-aligned, numbers right-aligned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from longplay.errors import escape_lines


class _HeadedTable(Table):
    """A table under a heading line: Rich would wrap a title at the table's width."""

    def __init__(self, heading: str) -> None:
        super().__init__(box=None)
        self._heading = heading

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        if self._heading:
            yield Text(self._heading, "bold")
        yield from super().__rich_console__(console, options)


def make_table(title: str, *columns: str, left: Iterable[int] = (0,)) -> Table:
    """An empty table without lines; `left` lists the columns of text."""
    table = _HeadedTable(title)
    for position, column in enumerate(columns):
        justify = "left" if position in left else "right"
        table.add_column(_plain(column), justify=justify, header_style="dim")  # type: ignore[arg-type]
    return table


def add_row(table: Table, *cells: RenderableType, style: str = "") -> None:
    """Adds a row of plain text: Rich must not read names as markup."""
    plain = (_plain(cell) if isinstance(cell, str) else cell for cell in cells)
    table.add_row(*plain, style=style)


def _plain(text: str) -> Text:
    """Text with control characters shown as escapes, before its width is measured."""
    return Text(escape_lines(text))


def make_plain_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], left: Iterable[int] = (0,)
) -> Text:
    """The same without colours, for thousands of rows: Rich needs 0.5 ms for each."""
    padded = [(*row, *[""] * (len(columns) - len(row))) for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*padded, strict=True)]
    sides = [str.ljust if n in left else str.rjust for n in range(len(columns))]
    lines = (
        "".join(
            f" {side(cell, width)} "
            for side, cell, width in zip(sides, row, widths, strict=True)
        )
        for row in padded
    )
    return Text("\n".join(lines), no_wrap=True, overflow="ignore")


def format_number(value: float | None, digits: int = 5) -> str:
    """A number with a few digits; a dash for None."""
    return "–" if value is None else f"{value:.{digits}g}"


def make_facts(*rows: tuple[str, str]) -> Padding:
    """Names and values side by side; long values wrap."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, value in rows:
        add_row(grid, name, value)
    return Padding(grid, (1, 0, 1, 1))
