"""What each command catches, by families of forgeries: the table in docs/trust.md."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
from forgery_families import COMMANDS, LIES, TRACKS, Lie, find_catchers, play_sources

from forgeries import PAGE, count_all, read_table, render_table
from longplay.reference.library import REFERENCE_GAMES
from made_up_references import write_references


def read_rows_of_table() -> dict[tuple[str, str], list[int]]:
    lines = read_table(PAGE.read_text("utf-8")).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {(row[0], row[1]): [int(number) for number in row[2:]] for row in cells}


def test_table_lists_every_forgery() -> None:
    counts = Counter((lie.family, TRACKS[lie.source]) for lie in LIES)
    rows = read_rows_of_table()
    total = rows.pop(("all", ""))
    assert {key: row[0] for key, row in rows.items()} == counts
    assert total == [sum(column) for column in zip(*rows.values(), strict=True)]


def test_forgeries_have_names_of_their_own() -> None:
    assert len({str(lie) for lie in LIES}) == len(LIES) >= 300


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("genuine")
    references = folder / "references"
    references.mkdir()
    write_references(references, REFERENCE_GAMES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGPLAY_REFERENCES", str(references))
        return play_sources(folder)


# One forgery of each family and track, and what catches it.
SAMPLE = [
    next(group)
    for _, group in itertools.groupby(
        sorted(LIES, key=lambda lie: (lie.family, TRACKS[lie.source])),
        key=lambda lie: (lie.family, TRACKS[lie.source]),
    )
]


@pytest.mark.few(5)
@pytest.mark.parametrize("lie", SAMPLE, ids=str)
def test_sample_is_caught_as_the_table_says(
    lie: Lie, genuine: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = genuine[lie.source].parents[2]
    monkeypatch.setenv("LONGPLAY_REFERENCES", str(folder / "references"))
    caught = find_catchers(lie, genuine[lie.source], tmp_path)
    forged, *numbers = read_rows_of_table()[lie.family, TRACKS[lie.source]]
    for command, number in zip(COMMANDS, numbers, strict=True):
        if number in (0, forged):
            assert (command in caught) == (number == forged)
    assert caught


@pytest.mark.exhaustive
def test_table_is_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGPLAY_REFERENCES", "")  # restored afterwards
    assert read_table(PAGE.read_text("utf-8")) == render_table(count_all(tmp_path))
