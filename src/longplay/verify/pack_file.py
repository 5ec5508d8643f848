"""FILE.longplay -> its documents and answers, read as untrusted input.

    FILE.longplay := tar of
        manifest.json          {format, version, sizes, sha256}
        <document>.zst         config.json, run_summary.json, … verbatim; version 2 may
                               have curves.jsonl too, and a tuning run or a probe its
                               result in place of score.json
        answers.zst            one byte per decision frame: the decided action; for a
                               prediction run its predictions, float64 each

`sizes` and `sha256` list every file of the run directory, `answers`, and every
compressed member, so a flipped bit is detected wherever it is. A member is decompressed
in small pieces and never beyond the size in the manifest. Reading a pack needs no
emulator.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import zstandard
from pydantic import ConfigDict, Field, ValidationError

from longplay.contract.curves import CURVES_FILE
from longplay.contract.documents import Document
from longplay.contract.files import (
    LARGEST_DOCUMENT_BYTES,
    LARGEST_MANIFEST_BYTES,
    describe_invalid,
    open_regular,
    parse_json,
    render_document,
    write_chunks,
)
from longplay.contract.rundir import REPLAYED_FILES, RunDirectory
from longplay.errors import DocumentError, PackError
from longplay.verify.archive import Member, read_members

VERSION = 2
MANIFEST = "manifest.json"
ANSWERS = "answers"
_NEEDED = ("config.json", "run_summary.json")
# The result of a run; a pack has exactly one of them.
RESULTS = ("score.json", "tuning.json", "probe.json")
# Kept verbatim, with any content: replay cannot reproduce them.
ATTACHMENTS = ("agent_output.txt", "metrics.jsonl")
DOCUMENTS = (
    *_NEEDED,
    *RESULTS,
    "status.json",
    "episode_config.json",
    "episode_record.json",
    "verification.json",
    *ATTACHMENTS,
    CURVES_FILE,
)
# What a pack of version 1 cannot have.
_SINCE_2 = {CURVES_FILE, *RESULTS[1:]}

# Fixed, so that packing the same directory gives the same bytes.
_LEVEL = 19
# The window of that level; a frame that needs more was not written by longplay.
_WINDOW_BYTES = 2**23
# A piece this small decompresses to 8 MiB at most: a zstd block takes four bytes or
# more and decompresses to 128 KiB or less.
_PIECE_BYTES = 256
_LARGEST_ANSWERS_BYTES = 2**30


def packed_name(name: str) -> str:
    """The name of the member that contains a file."""
    return f"{name}.zst"


def compress(content: bytes) -> bytes:
    """Compresses one member; the same content gives the same bytes."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(content)


class Manifest(Document):
    """manifest.json: the format of a pack, and the files it unpacks to."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["longplay-pack"] = "longplay-pack"
    version: int = VERSION
    sizes: dict[str, int] = Field(description="File -> its length in bytes.")
    sha256: dict[str, str] = Field(description="File -> its SHA-256.")

    @property
    def run_bytes(self) -> int:
        """Bytes of the run directory."""
        names = (*DOCUMENTS, *REPLAYED_FILES)
        return sum(self.sizes.get(name, 0) for name in names)


class PackFile:
    """A pack that is complete and undamaged; use as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = open_regular(path)
        except OSError as error:
            raise PackError(f"{path}: cannot read it: {error.strerror}") from error
        except DocumentError as error:
            raise PackError(str(error)) from error
        try:
            known = (MANIFEST, *map(packed_name, (*DOCUMENTS, ANSWERS)))
            self._members = read_members(self._file, known)
            self.manifest = self._read_manifest()
            self._check_members()
        except BaseException as error:
            self._file.close()
            if isinstance(error, PackError):
                raise PackError(f"{path} is not a valid pack: {error}") from error
            raise

    def __enter__(self) -> PackFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def size_bytes(self) -> int:
        """Length of the file."""
        return self.path.stat().st_size

    @property
    def documents(self) -> list[str]:
        """The documents of the run that are in it."""
        return [name for name in DOCUMENTS if packed_name(name) in self._members]

    def _read_manifest(self) -> Manifest:
        if not self._members or next(iter(self._members)) != MANIFEST:
            raise PackError(f"expected {MANIFEST} as its first file")
        member = self._members[MANIFEST]
        if member.size_bytes > LARGEST_MANIFEST_BYTES:
            raise PackError(f"{MANIFEST}: {member.size_bytes:,} bytes are too many")
        text = b"".join(self._pieces(member, member.size_bytes))
        manifest = _parse_manifest(text)
        if render_document(manifest) != text:
            raise PackError(f"{MANIFEST} is not formatted as longplay writes it")
        return manifest

    def _pieces(self, member: Member, piece_bytes: int) -> Iterator[bytes]:
        """The raw bytes of a member."""
        for start in range(0, member.size_bytes, max(1, piece_bytes)):
            self._file.seek(member.start_byte + start)
            yield self._file.read(min(piece_bytes, member.size_bytes - start))

    def _check_members(self) -> None:
        """Checks names, sizes and hashes of the members against the manifest."""
        manifest, members = self.manifest, self._members.keys() - {MANIFEST}
        contents = {name.removesuffix(".zst") for name in members}
        missing = {*_NEEDED, ANSWERS} - contents
        if missing:
            raise PackError(f"{min(missing)} is missing in it")
        results = [name for name in RESULTS if name in contents]
        if len(results) != 1:
            found = " and ".join(results) or "none"
            raise PackError(f"expected one of {', '.join(RESULTS)}, found {found}")
        if manifest.version == 1 and (newer := contents & _SINCE_2):
            raise PackError(f"version 1 has no {min(newer)}, found one")
        named = members | contents | set(REPLAYED_FILES)
        if manifest.sizes.keys() != named or manifest.sha256.keys() != named:
            raise PackError(f"{MANIFEST} does not list exactly the files in the pack")
        for name in sorted(members):
            member = self._members[name]
            digest = hashlib.sha256()
            for piece in self._pieces(member, 2**20):
                digest.update(piece)
            self._compare(name, member.size_bytes, digest.hexdigest())

    def _compare(self, name: str, size_bytes: int, sha256: str) -> None:
        announced = self.manifest.sizes[name]
        if size_bytes != announced:
            raise PackError(
                f"{name}: expected {announced:,} bytes, found {size_bytes:,}"
            )
        if sha256 != self.manifest.sha256[name]:
            raise PackError(
                f"{name} is damaged: expected SHA-256 {self.manifest.sha256[name]}, "
                f"found {sha256}"
            )

    def iter_content(self, name: str) -> Iterator[bytes]:
        """The content of a member, in pieces, never beyond the manifest's size."""
        announced = self.manifest.sizes[name]
        decompress = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        stream = decompress.decompressobj()
        digest, size_bytes = hashlib.sha256(), 0
        for piece in self._pieces(self._members[packed_name(name)], _PIECE_BYTES):
            if stream.eof:
                raise PackError(f"{name} has data after its end")
            try:
                content = stream.decompress(piece)
            except (zstandard.ZstdError, MemoryError) as error:
                raise PackError(f"{name} cannot be decompressed: {error}") from error
            size_bytes += len(content)
            if size_bytes > announced:
                raise PackError(f"{name}: expected {announced:,} bytes, found more")
            digest.update(content)
            yield content
        if not stream.eof or stream.unused_data:
            raise PackError(f"{name} does not end where it should")
        self._compare(name, size_bytes, digest.hexdigest())

    def read_documents(self) -> RunDirectory:
        """The run's documents and curves, without its rows; nothing is replayed."""
        with tempfile.TemporaryDirectory(prefix="longplay-") as folder:
            self.extract_documents(Path(folder))
            if CURVES_FILE in self.documents:
                self.extract(CURVES_FILE, Path(folder), LARGEST_DOCUMENT_BYTES)
            run = RunDirectory(Path(folder))
            # Read now: the folder is deleted below. Errors name the pack instead.
            _ = run.config, run.summary, run.score, run.status, run.verification
            _ = run.tuning_frames, run.curves, run.probe
        run.path = self.path
        return run

    def extract_documents(self, folder: Path) -> None:
        """Writes the JSON documents to a folder."""
        for name in self.documents:
            if name.endswith(".json"):
                self.extract(name, folder, LARGEST_DOCUMENT_BYTES)

    def extract(self, name: str, folder: Path, limit_bytes: int | None = None) -> None:
        """Writes one document to a folder."""
        announced = self.manifest.sizes[name]
        if limit_bytes is not None and announced > limit_bytes:
            raise PackError(f"{name}: {announced:,} bytes are too many")
        write_chunks(folder / name, self.iter_content(name))

    def read_answers(self) -> bytes:
        """The decisions of the run, one byte each, or its predictions."""
        announced = self.manifest.sizes[ANSWERS]
        if announced > _LARGEST_ANSWERS_BYTES:
            raise PackError(f"{ANSWERS}: {announced:,} bytes are too many")
        return b"".join(self.iter_content(ANSWERS))


def _parse_manifest(text: bytes) -> Manifest:
    try:
        given = parse_json(text.decode())
    except (ValueError, RecursionError) as error:
        raise PackError(f"{MANIFEST} is not readable as JSON: {error}") from error
    if not isinstance(given, dict) or given.get("format") != "longplay-pack":
        raise PackError(f'{MANIFEST} format: expected "longplay-pack"')
    version = given.get("version")
    if isinstance(version, int) and version > VERSION:
        raise PackError(
            f"{MANIFEST} version: expected at most {VERSION}, found {version}; the "
            "pack was made by a newer longplay, install that version to unpack it"
        )
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        raise PackError(f"{MANIFEST} {describe_invalid(error)}") from error
