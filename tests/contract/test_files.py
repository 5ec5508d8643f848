"""Reading files of others safely, and writing without following their links."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from longplay.contract.columns import RowReader
from longplay.contract.digests import read_last_chain
from longplay.contract.documents import RunSummary, Utc
from longplay.contract.files import (
    LARGEST_DOCUMENT_BYTES,
    LARGEST_ROW_BYTES,
    RowFile,
    hash_file,
    move_directory,
    parse_json,
    read_bounded,
    read_document,
    read_json,
    write_file,
)
from longplay.contract.rows import DigestRow
from longplay.errors import DocumentError, RecordingError, escape_controls

ROWS = RowReader(DigestRow, {}, canonical=True)


def make_odd_file(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        bound = socket.socket(socket.AF_UNIX)
        os.chdir(path.parent)  # the path of a socket is short
        bound.bind(path.name)
        bound.close()


ODD_FILES = [
    ("pipe", "expected a regular file, found a pipe"),
    ("device", "expected a regular file, found a device"),
    ("folder", "expected a regular file, found a folder"),
    ("socket", "cannot be read: No such device or address"),
]


@pytest.mark.parametrize(("kind", "message"), ODD_FILES)
def test_document_that_is_not_a_regular_file(
    kind: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # back again afterwards
    make_odd_file(tmp_path / "config.json", kind)
    with pytest.raises(DocumentError, match=f"config.json: {message}"):
        read_json(tmp_path / "config.json")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_row_file_that_is_not_a_regular_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "digests.jsonl"
    make_odd_file(path, kind)
    for read in (
        hash_file,
        read_last_chain,
        lambda path: list(ROWS.read_chunks(path)),
    ):
        with pytest.raises(DocumentError, match="expected a regular file, found a "):
            read(path)


def test_sparse_files_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    with path.open("wb") as file:
        file.truncate(2**43)
    started_s = time.monotonic()
    with pytest.raises(DocumentError, match=r"at most 268,435,456 bytes, found 8,796,"):
        read_json(path)
    with pytest.raises(DocumentError, match=r"rows of at most 65,536 bytes, found a l"):
        list(ROWS.read_chunks(path))
    assert read_last_chain(path) is None
    assert time.monotonic() - started_s < 5


def test_caps_are_those_of_the_docs() -> None:
    assert (LARGEST_DOCUMENT_BYTES, LARGEST_ROW_BYTES) == (2**28, 2**16)


def test_bounded_reading(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    with pytest.raises(DocumentError, match="file: expected at most 4 bytes, found 5"):
        read_bounded(path, 4)
    # Its size says nothing: what /proc holds is made when it is read.
    with pytest.raises(DocumentError, match="cmdline: expected at most 1 bytes"):
        read_bounded(Path("/proc/self/cmdline"), 1)


BAD_JSON = [
    ("[" * 10**6, "not readable as JSON"),
    ('{"a":' * 10**5, "not readable as JSON"),
    ("1" * 10**6, "not readable as JSON"),
    ("1e999", "too large"),
    ("NaN", "NaN is not JSON"),
    ("\ud800".encode("utf-8", "surrogatepass"), "not readable as JSON"),
    (b"\xff\xfe{\0}\0", "not readable as JSON"),
    ("\0" * 100, "not readable as JSON"),
    ("", "not readable as JSON"),
    ('{"\\u001b[2J": 1, "\\u001b[2J": 2}', r"key '\\x1b\[2J' appears twice"),
    ("{" + f'"{"k" * 10**6}": 1, "{"k" * 10**6}": 2' + "}", "k… appears twice"),
]


@pytest.mark.parametrize(("text", "message"), BAD_JSON)
def test_bad_json_is_an_error_with_a_short_message(
    text: str | bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "score.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DocumentError, match=message) as caught:
        read_json(path)
    assert len(str(caught.value)) < 500


def test_doubled_key_among_many_is_found_in_time() -> None:
    names = [f'"key-{n}": {n}' for n in range(300_000)]
    text = "{" + ", ".join([*names, '"key-299999": 1']) + "}"
    started_s = time.monotonic()
    with pytest.raises(ValueError, match="key 'key-299999' appears twice"):
        parse_json(text)
    assert time.monotonic() - started_s < 5


def test_control_characters_of_keys_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "run_summary.json"
    path.write_text(json.dumps({"\x1b[31m" * 100: 1, "frames": "\x1b[2J" * 10**6}))
    with pytest.raises(DocumentError) as caught:
        read_document(path, RunSummary)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1000


TEXTS = [
    ("plain … ünï", "plain … ünï"),
    ("\x1b[31mred", r"\x1b[31mred"),
    ("a\nb\tc", r"a\nb\tc"),
    ("\u202egnp.exe", r"\u202egnp.exe"),
    ("\ud800", r"\ud800"),
    ("\U000e0001", r"\U000e0001"),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_escaped_controls(text: str, expected: str) -> None:
    assert escape_controls(text) == expected


MOMENTS = [
    ("2026-02-28T23:59:59.999Z", True),
    ("2026-99-01T00:00:00.000Z", False),
    ("2026-02-30T00:00:00.000Z", False),
    ("2026-01-01T24:00:01.000Z", False),
    ("0000-01-01T00:00:00.000Z", False),
]


@pytest.mark.parametrize(("moment", "is_date"), MOMENTS)
def test_dates_must_exist(moment: str, is_date: bool) -> None:
    utc: TypeAdapter[str] = TypeAdapter(Utc)
    if is_date:
        assert utc.validate_python(moment) == moment
        return
    with pytest.raises(ValidationError, match="expected a valid date and time, found"):
        utc.validate_python(moment)


# --- writing ------------------------------------------------------------------------


def test_link_in_place_of_a_temporary_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".status.json.tmp").symlink_to(victim)
    write_file(tmp_path / "status.json", b"{}")
    assert victim.read_text() == "precious"
    assert (tmp_path / "status.json").read_bytes() == b"{}"
    assert not (tmp_path / ".status.json.tmp").exists()


def test_link_in_place_of_a_document_is_replaced(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "score.json").symlink_to(victim)
    write_file(tmp_path / "score.json", b"{}")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "score.json").is_symlink()


@pytest.mark.parametrize("exists", [True, False])
def test_link_in_place_of_a_row_file_is_refused(exists: bool, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    if exists:
        victim.write_text("precious")
    path = tmp_path / "events.jsonl"
    path.symlink_to(victim)
    for open_rows in (
        RowFile.create,
        RowFile.extend,
        lambda path: RowFile.reopen(path, 0),
    ):
        with pytest.raises(RecordingError, match=r"cannot (create|reopen)"):
            open_rows(path)
    assert victim.exists() == exists
    assert not exists or victim.read_text() == "precious"


def test_row_file_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "events.jsonl")
    with pytest.raises(RecordingError, match="not a regular file"):
        RowFile.extend(tmp_path / "events.jsonl")


@pytest.mark.parametrize("place", ["archive", "archive/run"])
def test_nothing_is_moved_through_a_link(place: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "experiment" / "episodes" / "run").mkdir(parents=True)
    link = tmp_path / "experiment" / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "elsewhere")
    source = tmp_path / "experiment" / "episodes" / "run"
    with pytest.raises(RecordingError, match=f"{place} is a symbolic link"):
        move_directory(source, tmp_path / "experiment" / "archive" / "run" / "0")
    assert source.exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_experiment_behind_a_link_can_be_moved_in(tmp_path: Path) -> None:
    (tmp_path / "real" / "episodes" / "run").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    source = tmp_path / "link" / "episodes" / "run"
    move_directory(source, tmp_path / "link" / "archive" / "run" / "0")
    assert (tmp_path / "real" / "archive" / "run" / "0").is_dir()


def test_name_that_is_too_long_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="File name too long"):
        write_file(tmp_path / ("n" * 300), b"")
