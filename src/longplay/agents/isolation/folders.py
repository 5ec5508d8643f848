"""The folder of an agent's process: made, copied from and to, and removed.

    files/     the agent's files                  it reads
    home/      its HOME and TMPDIR                it reads and writes
    cache/     its private cache of numba         it reads and writes
    saved/     what `save` wrote                  it reads and writes
    loaded/    what `load` gets                   it reads and writes

In a sandbox the agent cannot rename anything in the folder itself, so these five are
where the referee made them. Below them it can replace any entry by a link at any time:
the referee opens every level relative to the one above and follows no link, and a state
to load is filled outside of `loaded` and moved there last.

Only the standard library is imported here, because the keeper uses it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

from longplay.errors import AgentError, ConfigError

FILES = "files"
# Limits of a saved agent.
DEEPEST_FOLDER = 32
MOST_ENTRIES = 100_000
MOST_BYTES = 64 << 30
_CHUNK_BYTES = 1 << 20

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FIND_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class AgentFolder:
    """A new temporary folder for one agent's process.

    Args:
        is_on_disk: Whether it must not be in memory. There, the agent could use memory
            that no limit counts: that of a file which it has removed, but has mapped.

    Attributes:
        path: The folder.
        fds: Open descriptors; the owner closes them.

    Raises:
        ConfigError: No temporary folder is on a disk.
    """

    def __init__(self, is_on_disk: bool = False) -> None:
        place = _find_disk() if is_on_disk else None
        self.path = Path(tempfile.mkdtemp(prefix="longplay-agent-", dir=place))
        self.files, self.home = self.path / FILES, self.path / "home"
        self.cache, self.saved = self.path / "cache", self.path / "saved"
        self.loaded = self.path / "loaded"
        for folder in (self.files, self.home, self.cache, self.saved, self.loaded):
            folder.mkdir()
        # Opened before there is an agent that could replace them.
        self._saved_fd = os.open(self.saved, _OPEN_FOLDER)
        self._loaded_fd = os.open(self.loaded, _OPEN_FOLDER)
        self.fds = [self._saved_fd, self._loaded_fd]
        self._loaded_count = 0

    def copy_saved(self, target: Path) -> None:
        """Copies what the agent saved to an existing folder.

        Raises:
            AgentError: It contains something other than folders and regular files, or
                exceeds a limit.
        """
        copy_tree(self._saved_fd, target)

    def place_loaded(self, source: Path) -> Path:
        """Copies a saved state to a new folder in `loaded`; returns the folder.

        Raises:
            AgentError: As `copy_saved`; or the agent made the new folder before.
        """
        name = str(self._loaded_count)
        self._loaded_count += 1
        filled = Path(tempfile.mkdtemp(dir=self.path))
        source_fd = os.open(source, _OPEN_FOLDER)
        try:
            copy_tree(source_fd, filled)
        finally:
            os.close(source_fd)
        try:
            os.rename(filled, name, dst_dir_fd=self._loaded_fd)
        except OSError as error:
            raise AgentError(
                f"load(): expected no {name!r} in {self.loaded}, found one that the "
                "agent made"
            ) from error
        return self.loaded / name


def _find_disk() -> str:
    """The temporary folder, or another one if that is in memory."""
    in_memory = list_memory_devices()
    for place in (tempfile.gettempdir(), "/var/tmp"):
        if Path(place).is_dir() and Path(place).stat().st_dev not in in_memory:
            return place
    raise ConfigError(
        f"--agent-memory: expected a temporary folder on a disk, found "
        f"{tempfile.gettempdir()} in memory; set TMPDIR"
    )


def list_memory_devices() -> frozenset[int]:
    """The devices of file systems in memory."""
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    mounts = (line.partition(" - ") for line in text.splitlines())
    names = (
        mount.split()[2]
        for mount, _, kind in mounts
        if kind.startswith(("tmpfs ", "ramfs "))
    )
    return frozenset(os.makedev(*map(int, name.split(":"))) for name in names)


def copy_tree(source_fd: int, target: Path) -> None:
    """Copies a folder that an agent may be changing: only folders and regular files.

    Args:
        source_fd: The folder.
        target: An existing folder.

    Raises:
        AgentError: It contains something else, such as a link, or exceeds a limit.
    """
    target_fd = os.open(target, _OPEN_FOLDER)
    try:
        _TreeCopy().copy(source_fd, target_fd, 1)
    finally:
        os.close(target_fd)


class _TreeCopy:
    def __init__(self) -> None:
        self._entries_left = MOST_ENTRIES
        self._bytes_left = MOST_BYTES

    def copy(self, source_fd: int, target_fd: int, depth: int) -> None:
        if depth > DEEPEST_FOLDER:
            raise AgentError(
                f"save() left folders nested more than {DEEPEST_FOLDER} deep"
            )
        with os.scandir(source_fd) as entries:
            for entry in entries:
                self._entries_left -= 1
                if self._entries_left < 0:
                    raise AgentError(
                        f"save() left more than {MOST_ENTRIES:,} files and folders"
                    )
                try:
                    self._copy_entry(entry, source_fd, target_fd, depth)
                except (FileNotFoundError, FileExistsError) as error:
                    raise AgentError(
                        f"save() left {entry.name!r}, which changed while it was copied"
                    ) from error

    def _copy_entry(
        self, entry: os.DirEntry[str], source_fd: int, target_fd: int, depth: int
    ) -> None:
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            self._copy_folder(source_fd, target_fd, entry.name, depth)
        else:
            self._copy_file(source_fd, target_fd, entry.name, mode)

    def _copy_folder(
        self, source_fd: int, target_fd: int, name: str, depth: int
    ) -> None:
        os.mkdir(name, dir_fd=target_fd)
        with (
            _opened(name, _OPEN_FOLDER, source_fd) as source,
            _opened(name, _OPEN_FOLDER, target_fd) as target,
        ):
            self.copy(source, target, depth + 1)

    def _copy_file(self, source_fd: int, target_fd: int, name: str, mode: int) -> None:
        if not stat.S_ISREG(mode):
            raise _neither(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with _opened(name, _OPEN_FILE, source_fd) as source:
            # The agent may have replaced the file since it was listed.
            if not stat.S_ISREG(os.fstat(source).st_mode):
                raise _neither(name)
            target_file = os.open(name, flags, 0o644, dir_fd=target_fd)
            with os.fdopen(target_file, "wb") as target:
                while chunk := os.read(source, _CHUNK_BYTES):
                    self._bytes_left -= len(chunk)
                    if self._bytes_left < 0:
                        raise AgentError(f"save() left more than {MOST_BYTES:,} bytes")
                    target.write(chunk)


def _neither(name: str) -> AgentError:
    return AgentError(f"save() left {name!r}, which is neither a file nor a folder")


@contextlib.contextmanager
def _opened(name: str, flags: int, folder_fd: int) -> Iterator[int]:
    try:
        fd = os.open(name, flags, dir_fd=folder_fd)
    except OSError as error:
        raise AgentError(
            f"save() left {name!r}, which cannot be read: "
            f"{os.strerror(error.errno or 0)}"
        ) from error
    try:
        yield fd
    finally:
        os.close(fd)


def remove_tree(folder: Path) -> None:
    """Removes the folder of an agent, however deep it is nested.

    `shutil.rmtree` needs a stack frame and a descriptor for each level, and fails at a
    folder without permissions. Here, folders are moved to the top before. No link is
    followed: if the referee ends without `close`, the agent may still be alive.
    """
    with contextlib.suppress(OSError):
        top_fd = _open_for_removal(str(folder), None)
        try:
            while _remove_entries(top_fd):
                continue
        finally:
            os.close(top_fd)
        folder.rmdir()


def _remove_entries(top_fd: int) -> bool:
    """Removes one level; returns whether it has removed any."""
    has_removed = False
    for name in os.listdir(top_fd):
        with contextlib.suppress(OSError):
            _remove_entry(name, top_fd)
            has_removed = True
    return has_removed


def _remove_entry(name: str, top_fd: int) -> None:
    """Removes a file; or a folder, whose folders it moves to the top."""
    if _unlink_file(name, top_fd):
        return
    folder_fd = _open_for_removal(name, top_fd)
    try:
        for inner in os.listdir(folder_fd):  # noqa: PTH208
            if not _unlink_file(inner, folder_fd):
                # Moving a folder writes to it.
                os.close(_open_for_removal(inner, folder_fd))
                os.rename(inner, token_hex(16), src_dir_fd=folder_fd, dst_dir_fd=top_fd)
    finally:
        os.close(folder_fd)
    os.rmdir(name, dir_fd=top_fd)


def _unlink_file(name: str, folder_fd: int) -> bool:
    """Returns False for a folder."""
    try:
        os.unlink(name, dir_fd=folder_fd)
    except IsADirectoryError:
        return False
    return True


def _open_for_removal(name: str, folder_fd: int | None) -> int:
    """Opens a folder after giving its owner all permissions."""
    found = os.open(name, _FIND_FOLDER, dir_fd=folder_fd)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)  # noqa: PTH101 - of the descriptor
        return os.open(".", _OPEN_FOLDER, dir_fd=found)
    finally:
        os.close(found)
