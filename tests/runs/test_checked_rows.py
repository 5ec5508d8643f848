"""Rows are compared with the file, and the file does not change."""

from __future__ import annotations

from pathlib import Path

import pytest

from longplay.errors import DifferenceError, DocumentError, RowDifference
from longplay.runs.checked_rows import CheckedRows, LinePosition

ROWS = [b'{"global_frame_idx":%d,"reward":%d.0}\n' % (i, i) for i in range(6)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(ROWS))
    return path


def _difference(path: Path, *pieces: bytes) -> RowDifference:
    file = CheckedRows.open(path)
    before = path.read_bytes()
    try:
        with pytest.raises(DifferenceError) as caught:
            for piece in pieces:
                file.append(piece)
    finally:
        file.close()
    assert path.read_bytes() == before
    return caught.value.difference


def test_same_rows_pass_in_chunks_of_any_size(path: Path) -> None:
    file = CheckedRows.open(path)
    file.append(ROWS[0])
    file.append(b"")
    file.append(b"".join(ROWS[1:]))
    file.sync()
    assert file.size_bytes == path.stat().st_size
    file.close()


def test_different_row_is_named(path: Path) -> None:
    other = b'{"global_frame_idx":3,"reward":7.0}\n'
    found = _difference(path, ROWS[0], b"".join([ROWS[1], ROWS[2], other, ROWS[4]]))
    assert found == RowDifference("events.jsonl", 4, 3, "reward", "3.0", "7.0")
    assert str(found) == "events.jsonl:4 reward: logged 3.0, found 7.0 at frame 3"


def test_different_row_of_another_length_is_named(path: Path) -> None:
    other = b'{"global_frame_idx":1,"reward":1234.5}\n'
    found = _difference(path, ROWS[0] + other + ROWS[2])
    assert found == RowDifference("events.jsonl", 2, 1, "reward", "1.0", "1234.5")


def test_row_beyond_the_end_is_named(path: Path) -> None:
    more = b'{"global_frame_idx":6,"reward":6.0}\n'
    found = _difference(path, b"".join(ROWS), more)
    assert (found.line, found.frame, found.field) == (7, 6, "row")
    assert found.logged is None


def test_torn_row_is_shown(path: Path) -> None:
    path.write_bytes(b"".join(ROWS)[:-5])
    found = _difference(path, b"".join(ROWS))
    assert (found.line, found.field) == (6, "row")
    assert found.logged == '{"global_frame_idx":5,"reward":'


@pytest.mark.parametrize(
    ("logged", "field", "value"),
    [
        (b'{"global_frame_idx":0}\n', "reward", None),
        (b'{"reward":0.0,"global_frame_idx":0}\n', "row", None),
        (b'{"global_frame_idx":0,"reward":0.0,"x":1}\n', "row", None),
        (b'{"global_frame_idx":0,"reward":0}\n', "reward", "0"),
        (b'{"global_frame_idx":false,"reward":0.0}\n', "global_frame_idx", "false"),
        (b'{"global_frame_idx":0,"reward":-0.0}\n', "reward", "-0.0"),
        (b"[1,2]\n", "row", "[1,2]"),
    ],
)
def test_first_field_that_differs_is_named(
    path: Path, logged: bytes, field: str, value: str | None
) -> None:
    path.write_bytes(logged)
    found = _difference(path, ROWS[0])
    assert found.field == field
    if value is not None:
        assert found.logged == value


def test_comparison_starts_at_any_line(path: Path) -> None:
    start = LinePosition(byte=len(ROWS[0]) + len(ROWS[1]), line=2)
    file = CheckedRows.open(path, start)
    file.append(ROWS[2])
    with pytest.raises(DifferenceError, match=r"events\.jsonl:4 "):
        file.append(ROWS[4])
    file.close()


def test_subclass_can_handle_rows_beyond_the_end(path: Path) -> None:
    """As when a log that was cut short is resumed."""

    class Continued(CheckedRows):
        beyond = b""

        def append_beyond(self, logged: bytes, rows: bytes) -> None:
            self.beyond += rows[len(logged) :]

    path.write_bytes(b"".join(ROWS[:2]) + ROWS[2][:7])
    file = Continued.open(path)
    assert isinstance(file, Continued)
    file.append(b"".join(ROWS[:4]))
    file.append(ROWS[4])
    assert file.beyond == ROWS[2][7:] + ROWS[3] + ROWS[4]
    file.close()


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="No such file"):
        CheckedRows.open(tmp_path / "events.jsonl")
