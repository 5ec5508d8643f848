"""Forgeries, by families -> the table in docs/trust.md of what each command catches.

    python docs/generate/forgeries.py        forges every run, and writes the table

It takes some minutes. The forgeries are those of tests/verify/forgery_families.py.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "trust.md"
_HEADS = ("validate", "verify", "verify --reexecute", "export")

Counts = Mapping[tuple[str, str], Mapping[str, int]]


def render_table(counts: Counts) -> str:
    """One row per family and track, and the total."""
    heads = ("family", "track", "forged", *(f"`{head}`" for head in _HEADS))
    lines = [heads, ("---", "---", *("--:" for _ in heads[2:]))]
    lines += [(*key, *map(str, row.values())) for key, row in sorted(counts.items())]
    totals = [
        sum(column) for column in zip(*map(dict.values, counts.values()), strict=True)
    ]  # type: ignore[arg-type]
    lines.append(("all", "", *map(str, totals)))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def read_table(page: str, name: str = "forgeries") -> str:
    """The table of this name on the page."""
    return page.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->\n")[0]


def fill_table(page: str, table: str, name: str = "forgeries") -> str:
    """The page with another table of this name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}{table}{end}{rest.partition(end)[2]}"


def count_all(folder: Path) -> Counts:
    """Forges every run of the families in a folder."""
    sys.path += [str(ROOT / "tests" / "kit"), str(ROOT / "tests" / "verify")]
    from forgery_families import LIES, count_caught

    from longplay.reference.library import REFERENCE_GAMES
    from made_up_references import write_references

    references = folder / "references"
    references.mkdir()
    os.environ["LONGPLAY_REFERENCES"] = str(references)
    write_references(references, REFERENCE_GAMES)
    counts: Counts = count_caught(LIES, folder)
    return counts


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        text = fill_table(PAGE.read_text("utf-8"), render_table(count_all(Path(name))))
        PAGE.write_text(text, "utf-8")
