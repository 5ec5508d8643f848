"""Row files are read strictly, for any chunk size."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longplay.contract import columns
from longplay.contract.columns import Chunk, RowReader
from longplay.contract.rows import EpisodeRow

ENDED_BY = ("terminated", "truncated")


def make_row(episode_id: int, **values: Any) -> dict[str, Any]:
    return {
        "game_id": ("pong", "qbert")[episode_id % 2],
        "episode_id": episode_id,
        "start_global_frame_idx": episode_id * 10,
        "end_global_frame_idx": episode_id * 10 + 9,
        "length": 10,
        "return": float(episode_id),
        "ended_by": "terminated",
        **values,
    }


def to_line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


LINES = [to_line(make_row(i)) for i in range(20)]


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., list[Chunk]]:
    """Reads bytes as episodes."""

    def read(data: bytes, *, canonical: bool = True) -> list[Chunk]:
        path = tmp_path / "episodes.jsonl"
        path.write_bytes(data)
        vocabularies = {"game_id": ("pong", "qbert"), "ended_by": ENDED_BY}
        return list(RowReader(EpisodeRow, vocabularies, canonical).read_chunks(path))

    return read


def column(chunks: list[Chunk], name: str) -> list[Any]:
    return [value for chunk in chunks for value in chunk.columns[name].tolist()]


def test_columns_have_types_and_vocabularies(
    read: Callable[..., list[Chunk]],
) -> None:
    lines = [*LINES[:2], to_line(make_row(2, game_id="tron", ended_by="truncated"))]
    (chunk,) = read(b"".join(lines))
    assert {name: values.dtype for name, values in chunk.columns.items()} == {
        "game_id": np.int64,
        "episode_id": np.int64,
        "start_global_frame_idx": np.int64,
        "end_global_frame_idx": np.int64,
        "length": np.int64,
        "return_": np.float64,
        "ended_by": np.int64,
    }
    assert chunk.columns["game_id"].tolist() == [0, 1, -1]
    assert chunk.columns["ended_by"].tolist() == [0, 0, 1]
    assert chunk.columns["return_"].tolist() == [0.0, 1.0, 2.0]
    assert chunk.lines.tolist() == [1, 2, 3]


def test_empty_file_is_one_chunk_without_rows(
    read: Callable[..., list[Chunk]],
) -> None:
    (chunk,) = read(b"")
    assert len(chunk) == chunk.line_count == 0
    assert chunk.columns["length"].tolist() == []
    assert chunk.unreadable == chunk.uncanonical == []


@pytest.mark.parametrize("size", [1, 2, 130, 131, 132, 133, 500, 10_000])
@pytest.mark.parametrize("end", [b"\n", b""], ids=["newline", "no-newline"])
def test_every_line_is_read_once_wherever_a_file_is_cut(
    size: int,
    end: bytes,
    read: Callable[..., list[Chunk]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns, "_PART_BYTES", size)
    chunks = read(b"".join(LINES)[:-1] + end, canonical=False)
    assert column(chunks, "episode_id") == list(range(20))
    lines = [line for chunk in chunks for line in chunk.lines.tolist()]
    assert lines == list(range(1, 21))


@pytest.mark.parametrize("size", [1, 131, 10_000])
def test_bad_lines_have_their_number_wherever_a_file_is_cut(
    size: int, read: Callable[..., list[Chunk]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [*LINES]
    lines[4] = b"\n"
    lines[9] = lines[9].replace(b'"length":10', b'"length":"10"')
    lines[14] = lines[14].replace(b":", b": ")
    monkeypatch.setattr(columns, "_PART_BYTES", size)
    chunks = read(b"".join(lines))
    unreadable = [(bad.line, bad.field) for c in chunks for bad in c.unreadable]
    assert unreadable == [(5, None), (10, "length")]
    assert [bad.line for c in chunks for bad in c.uncanonical] == [15]
    assert column(chunks, "episode_id") == [i for i in range(20) if i not in (4, 9)]


def test_message_says_expected_and_found(read: Callable[..., list[Chunk]]) -> None:
    lines = [LINES[0].replace(b'"length":10', b'"length":"10"'), b"garbage\n"]
    (chunk,) = read(b"".join(lines))
    assert [bad.message for bad in chunk.unreadable] == [
        "Expected `int`, got `str`",
        "JSON is malformed: invalid character (byte 0): 'garbage'",
    ]


UNCANONICAL = [
    LINES[0].replace(b":", b": "),
    LINES[0].replace(b"\n", b"\r\n"),
    LINES[0].replace(b",", b",\r", 1),
    LINES[0].replace(b"0.0", b"0"),
    LINES[0].replace(b"0.0", b"0.00"),
    LINES[0].replace(b'"length":10', b'"length":9,"length":10'),
    LINES[0].replace(b"}", b',"note":1}'),
    LINES[0].replace(b"pong", b"\\u0070ong"),
    LINES[0][:-1],
]


@pytest.mark.parametrize("line", UNCANONICAL)
def test_another_spelling_is_not_an_invalid_row(
    line: bytes, read: Callable[..., list[Chunk]]
) -> None:
    (chunk,) = read(LINES[1] + line)
    assert [bad.line for bad in chunk.uncanonical] == [2]
    assert chunk.unreadable == []
    assert len(chunk) == chunk.line_count == 2

    (chunk,) = read(LINES[1] + line, canonical=False)
    assert chunk.uncanonical == chunk.unreadable == []
    assert len(chunk) == 2


NOT_ROWS = [
    b"\n",
    b"null\n",
    b"[]\n",
    b"{}\n",
    b"garbage\n",
    b"\xef\xbb\xbf" + LINES[0],
    b"\xff\n",
    b"\0\n",
    LINES[0][:40],
    LINES[0][:-1] + LINES[1],
    LINES[0].replace(b"pong", b"p\xffng"),
    LINES[0].replace(b"0.0", b"NaN"),
    LINES[0].replace(b"0.0", b"-Infinity"),
    LINES[0].replace(b"0.0", b"1e999"),
    LINES[0].replace(b"0.0", b"null"),
    LINES[0].replace(b"0.0", b"true"),
    LINES[0].replace(b'"length":10', b'"length":10.0'),
    LINES[0].replace(b'"length":10', b'"length":1e1'),
    LINES[0].replace(b'"length":10', b'"length":true'),
    LINES[0].replace(b'"length":10', b'"length":-1'),
    LINES[0].replace(b'"length":10', b'"length":99999999999999999999'),
    LINES[0].replace(b"terminated", b"won"),
    LINES[0].replace(b"}", b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
]


@pytest.mark.parametrize("canonical", [True, False])
@pytest.mark.parametrize("line", NOT_ROWS, ids=range(len(NOT_ROWS)))
def test_invalid_rows_are_reported(
    line: bytes, canonical: bool, read: Callable[..., list[Chunk]]
) -> None:
    (chunk,) = read(LINES[0] + LINES[1] + line, canonical=canonical)
    assert [bad.line for bad in chunk.unreadable] == [3]
    assert column([chunk], "episode_id") == [0, 1]
