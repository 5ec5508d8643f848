"""An agent's entry file -> all files of the agent.

The files are the import closure of the entry file inside its folder (`file.py`) or
inside its package (`module:attr`), and those that `--agent-files` names. Imports are
read from the syntax tree, so no code of the agent runs here. Every file is read once:
the bytes that are hashed are the bytes that `agents.imports` executes.

    agent_files  := [{path, sha256}], sorted by path
    path         := relative to the folder, or to the package's parent folder
    files_sha256 := SHA-256 of the JSON of `agent_files`: sorted keys, no spaces, ASCII

A standard library module is never loaded from the agent's folder. Any other module in
the folder takes precedence over an installed package of the same name.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from longplay.contract.config import AgentFileEntry
from longplay.contract.files import hash_file, read_bounded
from longplay.errors import AgentLoadError, DocumentError

_SOURCE_SUFFIX = ".py"
_LARGEST_SOURCE_BYTES = 16 * 2**20
_EXTENSION_SUFFIXES = tuple(importlib.machinery.EXTENSION_SUFFIXES)
# Never part of an agent, even if its folder contains such a module.
_NOT_THE_AGENTS = sys.stdlib_module_names | {"longplay"}
_INSTALLED_FOLDERS = {"site-packages", "dist-packages"}


@dataclass(frozen=True)
class AgentFile:
    """One file of an agent, at the time it was hashed.

    Attributes:
        path: Relative to the agent's folder, with slashes.
        sha256: Hash of its bytes.
        source: Its bytes; None for a file that is not Python source.
    """

    path: str
    sha256: str
    source: bytes | None = field(default=None, repr=False)

    @classmethod
    def read(cls, root: Path, path: str) -> AgentFile:
        """Reads and hashes a file.

        Raises:
            AgentLoadError: It cannot be read.
        """
        location = root / path
        try:
            if location.suffix != _SOURCE_SUFFIX:
                return cls(path, hash_file(location))
            source = read_bounded(location, _LARGEST_SOURCE_BYTES)
        except OSError as error:
            raise AgentLoadError(
                f"agent file {location}: cannot be read: {error.strerror}"
            ) from error
        except DocumentError as error:
            raise AgentLoadError(f"agent file {location}: {error}") from error
        return cls(path, hashlib.sha256(source).hexdigest(), source)

    @property
    def entry(self) -> AgentFileEntry:
        """The file as `agent_files` lists it."""
        return AgentFileEntry(path=self.path, sha256=self.sha256)


@dataclass(frozen=True)
class AgentFiles:
    """All files of an agent.

    Attributes:
        root: The folder that paths are relative to.
        files: Sorted by path.
        modules: Dotted name -> path of every module that may be imported.
        namespaces: Dotted name -> path of namespace packages (folders without
            `__init__.py`).
    """

    root: Path
    files: tuple[AgentFile, ...]
    modules: Mapping[str, str]
    namespaces: Mapping[str, str]

    @property
    def sha256(self) -> str:
        """The hash of the list: `files_sha256`."""
        listed = [entry.model_dump() for entry in self.entries]
        text = json.dumps(listed, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    @property
    def entries(self) -> tuple[AgentFileEntry, ...]:
        """The `agent_files` of config.json."""
        return tuple(file.entry for file in self.files)

    def get(self, path: str) -> AgentFile:
        """The file at a path."""
        return next(file for file in self.files if file.path == path)

    def has_unlisted(self, module: str) -> bool:
        """Whether a module is in the folder but not among the agent's files."""
        if module in self.modules or module.partition(".")[0] in _NOT_THE_AGENTS:
            return False
        path: Path | None = self.root
        for part in module.split("."):
            folder = path.parent if path and path.stem == "__init__" else path
            path = folder and _find_module(folder, part)
        return path is not None and path.is_file()

    def list_unlisted(self) -> list[str]:
        """The modules for which `has_unlisted` is true, by the names of files."""
        folders = {"": self.root}
        for name, path in (*self.modules.items(), *self.namespaces.items()):
            place = self.root / path
            if place.stem == "__init__" or place.is_dir():
                folders[f"{name}."] = place if place.is_dir() else place.parent
        names = {
            f"{prefix}{entry.stem}"
            for prefix, folder in folders.items()
            for entry in folder.iterdir()
        }
        return sorted(filter(self.has_unlisted, names))

    def check_inside(self) -> None:
        """Checks that no link makes a file of someone else one of the agent's files.

        Raises:
            AgentLoadError: A link leads out of the agent's folder. In an environment,
                installers link to their cache, and its owner has chosen what is there.
        """
        root = self.root.resolve()
        if _INSTALLED_FOLDERS.intersection(root.parts):
            return
        for file in self.files:
            found = (root / file.path).resolve()
            if not found.is_relative_to(root):
                raise AgentLoadError(
                    f"agent file {self.root / file.path}: expected a file in "
                    f"{self.root}, found a link to {found}, which a sandboxed agent "
                    "must not read; replace the link by a copy, or use --isolate "
                    "process or none"
                )

    def check_unchanged(self) -> None:
        """Checks that the files on the disk are still the files that were hashed.

        Raises:
            AgentLoadError: A file has changed.
        """
        for file in self.files:
            found = AgentFile.read(self.root, file.path)
            if found.sha256 != file.sha256:
                raise AgentLoadError(
                    f"agent file {self.root / file.path}: it changed while the agent "
                    f"was being loaded: expected sha256 {file.sha256}, found "
                    f"{found.sha256}"
                )


def collect_folder_files(entry: Path, patterns: Sequence[str] = ()) -> AgentFiles:
    """Collects the files of an agent given as a file.

    Args:
        entry: The agent's file.
        patterns: The patterns of `--agent-files`, relative to its folder.

    Raises:
        AgentLoadError: A file cannot be read, or a pattern matches no file.
    """
    tree = _Tree(entry.resolve().parent)
    # Not under its own name: as with `python FILE`, it is not a module of its folder.
    tree.add_entry(entry.name)
    tree.add_matches(patterns)
    return tree.collect()


def collect_module_files(
    module: str, patterns: Sequence[str] = ()
) -> AgentFiles | None:
    """Collects the files of an agent in an importable module.

    Args:
        module: Its dotted name.
        patterns: The patterns of `--agent-files`, relative to the parent folder of its
            top-level package.

    Returns:
        None for a module of longplay or the standard library, and for a module that
        does not exist.

    Raises:
        AgentLoadError: The module has no file, or a pattern matches no file.
    """
    top = module.partition(".")[0]
    if not top or top in _NOT_THE_AGENTS:
        return None
    # The spec of a top-level name is found without importing anything.
    spec = importlib.util.find_spec(top)
    if spec is None:
        return None
    tree = _tree_of_package(top, spec, module)
    tree.add_module(module)
    tree.add_matches(patterns)
    return tree.collect()


def _tree_of_package(
    top: str, spec: importlib.machinery.ModuleSpec, module: str
) -> _Tree:
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    rest = module.split(".")[1:2]
    # A namespace package may span several folders; one contains the agent.
    holding = [f for f in folders if not rest or _find_module(f, rest[0]) is not None]
    if holding:
        return _Tree(holding[0].parent, package=top, package_dir=holding[0].name)
    if spec.origin is None or not Path(spec.origin).is_file():
        raise AgentLoadError(
            f"agent module {module}: expected a module in a file, found {spec.origin}"
        )
    folder = Path(spec.origin).parent
    is_installed = bool(_INSTALLED_FOLDERS.intersection(folder.parts))
    return _Tree(folder, package=top if is_installed else None)


class _Tree:
    """A folder in which the imports of an agent are followed."""

    def __init__(
        self, root: Path, package: str | None = None, package_dir: str | None = None
    ) -> None:
        self._root = root
        # The only top-level name that is followed; None for all of the folder's.
        self._package = package
        self._package_dir = package_dir or package
        self._files: dict[str, AgentFile] = {}
        self._modules: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}

    def collect(self) -> AgentFiles:
        """Returns the files found so far."""
        files = sorted(self._files.values(), key=lambda file: file.path)
        return AgentFiles(
            self._root, tuple(files), dict(self._modules), dict(self._namespaces)
        )

    def add_entry(self, path: str) -> None:
        """Adds the agent's own file and everything it imports."""
        for name in list_imports(self._read(path).source or b"", package=""):
            self.add_module(name)

    def add_module(self, name: str) -> None:
        """Adds a module, its parent packages, and everything they import."""
        pending = [name]
        while pending:
            for found, path in self._locate(pending.pop()):
                if found in self._modules or found in self._namespaces:
                    continue
                if path.is_dir():
                    self._namespaces[found] = self._relative(path)
                    continue
                self._modules[found] = self._relative(path)
                file = self._read(self._relative(path))
                is_package = path.stem == "__init__"
                package = found if is_package else found.rpartition(".")[0]
                pending += list_imports(file.source or b"", package)

    def add_matches(self, patterns: Iterable[str]) -> None:
        """Adds the files that match a pattern, and all files of folders that do."""
        for pattern in patterns:
            _check_pattern(pattern)
            found = sorted(self._list_matches(pattern))
            if not found:
                raise AgentLoadError(
                    f"--agent-files {pattern}: expected a pattern that matches a "
                    f"file, found none in {self._root}"
                )
            for path in found:
                self._add_match(path)

    def _add_match(self, path: str) -> None:
        name = PurePosixPath(path)
        if name.suffix != _SOURCE_SUFFIX:
            self._read(path)
            return
        parts = name.with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        # A module whose name is computed at run time.
        self.add_module(".".join(self._restore_name(parts)))
        self._read(path)

    def _restore_name(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        if self._package is not None and parts[:1] == (self._package_dir,):
            return (self._package, *parts[1:])
        return parts

    def _list_matches(self, pattern: str) -> Iterator[str]:
        for path in self._root.glob(pattern):
            for file in path.rglob("*") if path.is_dir() else (path,):
                if file.is_file() and "__pycache__" not in file.parts:
                    yield self._relative(file)

    def _locate(self, name: str) -> list[tuple[str, Path]]:
        """The files of a module's parent packages and of the module."""
        parts = name.split(".")
        top = parts[0]
        if top in _NOT_THE_AGENTS or self._package not in (None, top):
            return []
        found: list[tuple[str, Path]] = []
        folder = self._root
        for depth, part in enumerate(parts, start=1):
            is_top = depth == 1 and self._package_dir is not None
            path = _find_module(folder, str(self._package_dir) if is_top else part)
            if path is None:
                break
            found.append((".".join(parts[:depth]), path))
            folder = path.parent if path.stem == "__init__" else path
        # A folder without a module in it (such as `wandb/`) is data, not a package.
        while found and found[-1][1].is_dir():
            found.pop()
        return found

    def _relative(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _read(self, path: str) -> AgentFile:
        if path not in self._files:
            self._files[path] = AgentFile.read(self._root, path)
        return self._files[path]


def _find_module(folder: Path, name: str) -> Path | None:
    """Where Python would find a module in a folder: package, module, bare folder."""
    candidates = [
        folder / name / f"__init__{_SOURCE_SUFFIX}",
        *(folder / f"{name}{suffix}" for suffix in _EXTENSION_SUFFIXES),
        folder / f"{name}{_SOURCE_SUFFIX}",
    ]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    return folder / name if name and (folder / name).is_dir() else None


def _check_pattern(pattern: str) -> None:
    parts = PurePosixPath(pattern).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise AgentLoadError(
            f"--agent-files {pattern}: expected a pattern inside the agent's folder, "
            "such as 'weights/*.npz'"
        )


def list_imports(source: bytes, package: str) -> list[str]:
    """The absolute names that source code imports, at any place in it.

    Args:
        source: Python source; invalid source imports nothing here, and raises when it
            is executed.
        package: The package that relative imports start from; "" for none.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            base = _resolve_base(node, package)
            if base:
                # A name that is imported from a package may be a submodule.
                found = (f"{base}.{alias.name}" for alias in node.names)
                names.update(dict.fromkeys((base, *found)))
    return list(names)


def _resolve_base(node: ast.ImportFrom, package: str) -> str:
    if node.level == 0:
        return node.module or ""
    parts = package.split(".") if package else []
    if node.level > len(parts):
        return ""  # beyond the top-level package: Python refuses it
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)
