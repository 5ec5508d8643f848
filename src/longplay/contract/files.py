"""All writing to disk, and the strict, bounded reading of JSON documents.

Only regular files are read, up to the sizes in the table below: a directory from
someone else may contain a pipe, a device or a file of terabytes. Writing never follows
a symbolic link.

    document                          256 MiB
    row of a JSONL file                64 KiB
    manifest of a pack                  1 MiB

Whole files are written atomically: temporary file, fsync, rename. Row files only grow;
after a failed write they are truncated to the last whole row. The three calls that can
fail have names here (`os_write`, `os_fsync`, `os_replace`), so that tests can make the
n-th call fail.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedReader
from math import isfinite
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from longplay.contract.documents import SCHEMA_VERSION, Document
from longplay.errors import (
    ContractVersionError,
    DocumentError,
    RecordingError,
    escape_controls,
)

os_write = os.write
os_fsync = os.fsync
os_replace = os.replace

LARGEST_DOCUMENT_BYTES = 256 * 2**20
LARGEST_ROW_BYTES = 64 * 2**10
LARGEST_MANIFEST_BYTES = 2**20

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}

_Document = TypeVar("_Document", bound=Document)


def open_regular(path: Path) -> BufferedReader:
    """Opens a regular file for reading; never blocks on anything else.

    Raises:
        OSError: It cannot be opened.
        DocumentError: It is not a regular file.
    """
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        found = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise DocumentError(f"{path.name}: expected a regular file, found {found}")
    return os.fdopen(fd, "rb")


def read_bounded(path: Path, largest_bytes: int = LARGEST_DOCUMENT_BYTES) -> bytes:
    """Reads a whole regular file, up to a size.

    Raises:
        OSError: It cannot be read.
        DocumentError: It is not a regular file, or it is too large.
    """
    with open_regular(path) as file:
        _check_size(path, os.fstat(file.fileno()).st_size, largest_bytes)
        content = file.read(largest_bytes + 1)  # it may grow while it is read
    _check_size(path, len(content), largest_bytes)
    return content


def _check_size(path: Path, size_bytes: int, largest_bytes: int) -> None:
    if size_bytes > largest_bytes:
        raise DocumentError(
            f"{path.name}: expected at most {largest_bytes:,} bytes, found "
            f"{size_bytes:,}"
        )


def iter_rows(file: BufferedReader, name: str) -> Iterator[bytes]:
    """The lines of an open row file from here on, each with its newline.

    Args:
        file: From `open_regular`.
        name: Its name, for errors.

    Raises:
        DocumentError: A line is too long to be a row.
    """
    while line := file.readline(LARGEST_ROW_BYTES):
        if len(line) == LARGEST_ROW_BYTES and not line.endswith(b"\n"):
            raise DocumentError(
                f"{name}: expected rows of at most {LARGEST_ROW_BYTES:,} bytes, found "
                f"a longer one that ends after byte {file.tell():,}"
            )
        yield line


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os_write(fd, view) :]


def write_file(path: Path, data: bytes) -> None:
    """Writes a whole file atomically.

    Raises:
        RecordingError: The write failed; the file is unchanged.
    """
    write_chunks(path, (data,))


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """Writes a whole file atomically, keeping one chunk in memory at a time.

    Raises:
        RecordingError: The write failed; the file is unchanged.
    """
    with replacing(path) as file:
        for chunk in chunks:
            _write_all(file.fileno(), chunk)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that replaces `path` if the block succeeds.

    Raises:
        RecordingError: Writing failed; the file is unchanged.
    """
    temporary = _temporary_name(path)
    with _removing_on_error(path, (temporary,)):
        with _writing(temporary) as file:
            yield file
        os_replace(temporary, path)


def write_files(files: Mapping[Path, bytes]) -> None:
    """Writes several files: all are on the disk before the first is renamed.

    Raises:
        RecordingError: A write failed; no file has changed. If a rename failed, the
            files that were renamed before it are restored.
    """
    before = {path: read_bounded(path) for path in files if path.exists()}
    temporary = {path: _temporary_name(path) for path in files}
    done: list[Path] = []
    for path, data in files.items():
        removing = _removing_on_error(path, temporary.values())
        with removing, _writing(temporary[path]) as file:
            _write_all(file.fileno(), data)
    try:
        for path in files:
            with _removing_on_error(path, temporary.values()):
                os_replace(temporary[path], path)
            done.append(path)
    except RecordingError:
        for path in done:
            if path in before:
                write_file(path, before[path])
            else:
                path.unlink()
        raise


def _temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


@contextlib.contextmanager
def _writing(temporary: Path) -> Iterator[BinaryIO]:
    """A new file, on the disk after the block."""
    # Left by a killed process, or a link that someone put there.
    temporary.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o644), "w+b", buffering=0) as file:
        yield file
        os_fsync(file.fileno())


@contextlib.contextmanager
def _removing_on_error(path: Path, temporary: Iterable[Path]) -> Iterator[None]:
    """Removes temporary files after an error, and names the file of an OSError."""
    try:
        yield
    except BaseException as error:
        for leftover in temporary:
            with contextlib.suppress(OSError):
                leftover.unlink()
        if isinstance(error, OSError):
            raise RecordingError(f"cannot write {path}: {error.strerror}") from error
        raise


def render_document(document: BaseModel | dict[str, Any]) -> bytes:
    """Renders a document as readable JSON; rejects NaN and infinity."""
    return _render(document, indent=2)


def render_line(document: BaseModel | dict[str, Any]) -> bytes:
    """Renders a document as one compact line; rejects NaN and infinity."""
    return _render(document, separators=(",", ":"))


def _render(document: BaseModel | dict[str, Any], **layout: Any) -> bytes:
    if isinstance(document, BaseModel):
        document = document.model_dump(mode="json")
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, **layout)
    return f"{text}\n".encode()


def write_document(path: Path, document: BaseModel | dict[str, Any]) -> None:
    """Writes a document atomically."""
    write_file(path, render_document(document))


def hash_file(path: Path) -> str:
    """SHA-256 of a file, read in chunks."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def hash_tree(folder: Path) -> str:
    """SHA-256 over the files of a folder.

    Of the JSON list of [path, sha256], sorted: no spaces, ASCII. Paths are relative to
    the folder, with slashes.
    """
    listed = sorted(
        [path.relative_to(folder).as_posix(), hash_file(path)]
        for path in _list_files(folder)
    )
    text = json.dumps(listed, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def size_of_tree(folder: Path) -> int:
    """Bytes of all files in a folder; 0 if there is none."""
    size_bytes = 0
    for path in _list_files(folder):
        with contextlib.suppress(FileNotFoundError):  # a run in progress removed it
            size_bytes += path.stat().st_size
    return size_bytes


def make_directory(path: Path, *, exist_ok: bool = False) -> None:
    """Makes a directory with its parents; by default it must not exist yet."""
    try:
        path.mkdir(parents=True, exist_ok=exist_ok)
    except OSError as error:
        raise RecordingError(f"cannot make {path}: {error.strerror}") from error


def make_directory_beside(target: Path) -> Path:
    """Makes a directory that is to become the target.

    Its name was never used: the id of this process may be that of one that was killed,
    and in a container it always is.
    """
    folder = target.with_name(f".{target.name[:40]}.{token_hex(8)}.tmp")
    make_directory(folder)
    return folder


def check_no_links(path: Path, below: Path) -> None:
    """Rejects a path that leads through a symbolic link below a folder.

    Raises:
        RecordingError: Names the link.
    """
    for place in (path, *path.parents):
        if place == below:
            return
        if place.is_symlink():
            raise RecordingError(
                f"{place} is a symbolic link; longplay does not follow links"
            )


def move_directory(source: Path, target: Path) -> None:
    """Moves a directory to a path that must not exist yet.

    Raises:
        RecordingError: The move failed, or the target is behind a symbolic link.
    """
    source, target = source.absolute(), target.absolute()
    check_no_links(target, Path(os.path.commonpath((source, target))))
    make_directory(target.parent, exist_ok=True)
    try:
        os_replace(source, target)
    except OSError as error:
        raise RecordingError(
            f"cannot move {source} to {target}: {error.strerror}"
        ) from error


def sync_tree(folder: Path) -> None:
    """Waits until the files in a folder that other code wrote are on the disk."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        try:
            fd = os.open(path, os.O_RDONLY)
            try:
                os_fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise RecordingError(f"cannot sync {path}: {error.strerror}") from error


def remove_directory(path: Path) -> None:
    """Removes a directory, ignoring errors."""
    shutil.rmtree(path, ignore_errors=True)


class RowFile:
    """A file of rows that grows and always ends with a whole row."""

    def __init__(self, path: Path, fd: int, size_bytes: int) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._fd = fd
        self._pid = os.getpid()

    @classmethod
    def create(cls, path: Path) -> RowFile:
        """Makes a file that must not exist yet."""
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            return cls(path, os.open(path, flags, 0o644), 0)
        except OSError as error:
            raise RecordingError(f"cannot create {path}: {error.strerror}") from error

    @classmethod
    def extend(cls, path: Path) -> RowFile:
        """Opens a file to append to it, or makes it."""
        if path.is_symlink() or path.exists():
            return cls.reopen(path, path.lstat().st_size)
        return cls.create(path)

    @classmethod
    def reopen(cls, path: Path, size_bytes: int) -> RowFile:
        """Opens a file to append at `size_bytes`; truncates everything after it."""
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                raise RecordingError(f"cannot reopen {path}: not a regular file")
            if path.lstat().st_size < size_bytes:
                raise RecordingError(
                    f"cannot reopen {path}: expected at least {size_bytes:,} bytes, "
                    f"found {path.lstat().st_size:,}"
                )
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            os.ftruncate(fd, size_bytes)
            return cls(path, fd, size_bytes)
        except OSError as error:
            raise RecordingError(f"cannot reopen {path}: {error.strerror}") from error

    def append(self, rows: bytes) -> None:
        """Appends whole rows, all of them or none.

        Raises:
            RecordingError: The write failed; the file is truncated to its old size.
                Or another process opened it, of which this one is a fork.
        """
        if os.getpid() != self._pid:
            raise RecordingError(f"cannot write {self.path}: this process is a fork")
        try:
            _write_all(self._fd, rows)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self.size_bytes)
            raise RecordingError(
                f"cannot write {self.path} at byte {self.size_bytes}: {error.strerror}"
            ) from error
        self.size_bytes += len(rows)

    def fileno(self) -> int:
        """The file descriptor."""
        return self._fd

    def sync(self) -> None:
        """Waits until all appended rows are on the disk."""
        try:
            os_fsync(self._fd)
        except OSError as error:
            raise RecordingError(
                f"cannot sync {self.path}: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Closes the file; does nothing the second time."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class DiskReserve:
    """Reserved space, so that a run on a full disk can still record its failure."""

    SIZE_BYTES = 64 * 1024

    def __init__(self, directory: Path) -> None:
        self._path = directory / ".reserve"

    def take(self) -> None:
        """Reserves the space."""
        write_file(self._path, b"\0" * self.SIZE_BYTES)

    def release(self) -> None:
        """Frees the space."""
        self._path.unlink(missing_ok=True)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON; numbers must be finite")


def _read_finite(text: str) -> float:
    if isfinite(number := float(text)):
        return number
    raise ValueError(f"{text} is too large; numbers must be finite")


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"key {shorten(twice)} appears twice")
    return mapping


def read_json(path: Path) -> Any:
    """Reads a JSON file strictly: no NaN, no duplicate keys.

    Raises:
        DocumentError: The file is missing or is not strict JSON.
    """
    return _read_strictly(path)[1]


def parse_json(text: str) -> Any:
    """Parses JSON strictly: no NaN, no duplicate keys.

    Raises:
        ValueError: It is not strict JSON.
    """
    return json.loads(
        text,
        parse_constant=_refuse_constant,
        parse_float=_read_finite,
        object_pairs_hook=_refuse_duplicates,
    )


def _read_strictly(path: Path) -> tuple[str, Any]:
    """The text of a JSON file, and its parsed value."""
    try:
        text = read_bounded(path).decode("utf-8")
        return text, parse_json(text)
    except FileNotFoundError as error:
        raise DocumentError(f"{path.name}: missing in {path.parent}") from error
    except OSError as error:
        raise DocumentError(f"{path.name}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{path.name}: not readable as JSON: {error}") from error


def read_document(path: Path, model: type[_Document]) -> _Document:
    """Reads a JSON file as a document of the given type.

    Raises:
        DocumentError: Names the first invalid fields.
    """
    text, raw = _read_strictly(path)
    given = model.normalise(raw)
    if given is not raw:
        text = json.dumps(given)
    is_versioned = "schema_version" in model.model_fields and isinstance(given, dict)
    version = given.get("schema_version") if is_versioned else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise DocumentError(
            f"{path.name} schema_version: expected at most {SCHEMA_VERSION}, "
            f"found {version}; a newer longplay wrote this, upgrade longplay to read it"
        )
    try:
        # As JSON, not as Python objects: strict types, but a list is a valid tuple.
        return model.model_validate_json(text)
    except ContractVersionError as error:
        raise ContractVersionError(
            f"{path.name} benchmark_contract_version: {error}"
        ) from error
    except ValidationError as error:
        raise DocumentError(f"{path.name} {describe_invalid(error)}") from error


def describe_invalid(error: ValidationError) -> str:
    """Describes pydantic's first errors as `field: expected …, found …`."""
    return "; ".join(
        f"{_describe_place(entry['loc'])}: {_describe_entry(entry)}"
        for entry in error.errors(include_url=False)[:3]
    )


def _describe_place(location: tuple[int | str, ...]) -> str:
    place = ".".join(map(str, location)) or "document"
    return escape_controls(place[:_LONGEST_PLACE])


_LONGEST_PLACE = 200
_EXPECTATIONS = {
    "bool_type": "a bool",
    "dict_type": "an object",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_type": "an int",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "model_type": "an object",
    "string_pattern_mismatch": "text like {pattern}",
    "string_too_short": "a string that is not empty",
    "string_type": "a string",
    "too_long": "at most {max_length} items",
    "too_short": "at least {min_length} items",
    "tuple_type": "a list",
}


def _describe_entry(entry: Any) -> str:
    if entry["type"] == "missing":
        return "expected a value, found none"
    if entry["type"] == "extra_forbidden":
        return f"expected no such key, found {shorten(entry['input'])}"
    expected = _EXPECTATIONS.get(entry["type"])
    if expected is None:  # one of our own messages, or a rare one of pydantic's
        return str(entry["msg"])
    words = expected.format(**entry.get("ctx", {}))
    return f"expected {words}, found {shorten(entry['input'])}"


def shorten(value: object, limit: int = 80) -> str:
    """The `repr` of a value, cut to a length that fits in a message."""
    if isinstance(value, (str, bytes)):
        value = value[: limit + 1]  # no need to escape what is cut off
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
