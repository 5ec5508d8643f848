"""Hashed files -> modules: an agent is imported from the bytes that were hashed.

Modules of an agent are loaded only from its `AgentFiles`: neither from a file that has
changed since it was hashed, nor from a file beside them that was not hashed. Importing
such a file raises an error that names `--agent-files`.

Two agents of one process may both have a module `network`. Each gets its own:
`AgentModules.activate` puts the modules of one agent into `sys.modules` and removes
those of the previous agent. A module that the calling program has already imported from
the same file is reused.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from longplay.agents.source.closure import AgentFiles
from longplay.errors import AgentLoadError

# Prefix of the name of an agent's own file in `sys.modules`.
ENTRY_PREFIX = "longplay_agent_"


class _HashedLoader(SourceFileLoader):
    """Executes bytes in memory; the path is for tracebacks and resources."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self._source = source

    def get_data(self, path: str) -> bytes:
        """The bytes of the module, or of a resource beside it."""
        return self._source if path == self.path else super().get_data(path)

    def get_code(self, fullname: str) -> CodeType:
        """Compiles the bytes without using cached bytecode."""
        return self.source_to_code(self._source, self.path)


class _AgentFinder(MetaPathFinder):
    """The first finder: finds an agent's modules, and refuses others in its packages.

    Attributes:
        found: The names of the modules that were loaded for this agent.
    """

    def __init__(self, files: AgentFiles, is_unlisted: Callable[[str], bool]) -> None:
        self._files = files
        self._is_unlisted = is_unlisted
        names = (*files.modules, *files.namespaces)
        self._top_names = {name.partition(".")[0] for name in names}
        self.found: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The spec of one of the agent's modules; None for any other module."""
        if place := self._files.modules.get(fullname):
            return self.make_spec(fullname, place)
        if place := self._files.namespaces.get(fullname):
            self.found.add(fullname)
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(self._files.root / place)]
            return spec
        if fullname.partition(".")[0] in self._top_names:
            raise self.make_error(fullname)
        return None

    def make_spec(self, name: str, path: str) -> ModuleSpec:
        """A spec that loads one hashed file."""
        self.found.add(name)
        location = self._files.root / path
        source = self._files.get(path).source
        loader: Loader = ExtensionFileLoader(name, str(location))
        if source is not None:
            loader = _HashedLoader(name, str(location), source)
        is_package = location.stem == "__init__"
        spec = importlib.util.spec_from_file_location(
            name,
            location,
            loader=loader,
            submodule_search_locations=[str(location.parent)] if is_package else None,
        )
        assert spec is not None  # a loader was given
        return spec

    def make_error(self, fullname: str) -> ModuleNotFoundError:
        """Makes an error that says what to do if the module was not hashed."""
        message = f"No module named {fullname!r}"
        if self._is_unlisted(fullname):
            path = fullname.replace(".", "/")
            message += (
                " among the agent's files: it is beside them, but none of them "
                f"imports it by a statement; add it with --agent-files '{path}*'"
            )
        return ModuleNotFoundError(message, name=fullname)


class _LastFinder(MetaPathFinder):
    """The last finder: explains a missing module that is beside the agent."""

    def __init__(self, first: _AgentFinder, is_unlisted: Callable[[str], bool]) -> None:
        self._first = first
        self._is_unlisted = is_unlisted

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Raises if the module is beside the agent."""
        if path is None and self._is_unlisted(fullname):
            raise self._first.make_error(fullname)
        return None


class AgentModules:
    """The modules of one agent.

    Args:
        files: Their files.
        is_unlisted: Whether a module is beside the agent but not among its files;
            looked up in the folder if not given.
    """

    # The agent whose modules are in `sys.modules`.
    _active: AgentModules | None = None

    def __init__(
        self, files: AgentFiles, is_unlisted: Callable[[str], bool] | None = None
    ) -> None:
        self._files = files
        is_unlisted = is_unlisted or files.has_unlisted
        self._first = _AgentFinder(files, is_unlisted)
        self._last = _LastFinder(self._first, is_unlisted)
        self._modules: dict[str, ModuleType] = {}

    def import_entry(self, path: str) -> ModuleType:
        """Executes the agent's own file."""
        name = f"{ENTRY_PREFIX}{Path(path).stem}"
        self.activate()
        spec = self._first.make_spec(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            assert spec.loader is not None
            spec.loader.exec_module(module)
        except BaseException:
            self.forget()
            raise
        return module

    def import_module(self, name: str) -> ModuleType:
        """Imports the agent's module."""
        self.activate()
        try:
            return importlib.import_module(name)
        except BaseException:
            self.forget()
            raise

    def activate(self) -> None:
        """Puts this agent's modules into `sys.modules`, and removes other agents'.

        Raises:
            AgentLoadError: The calling program has another module of the same name.
        """
        active = AgentModules._active
        if active is self:
            return
        if active is not None:
            active._deactivate()
        self._check_names()
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self._first)
        sys.meta_path.append(self._last)
        AgentModules._active = self

    def forget(self) -> None:
        """Removes the modules permanently, as after a failed import."""
        if AgentModules._active is self:
            self._deactivate()
        self._modules = {}

    def _deactivate(self) -> None:
        self._modules = {
            name: sys.modules.pop(name)
            for name in self._first.found
            if name in sys.modules
        }
        for finder in (self._first, self._last):
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)
        AgentModules._active = None

    def _check_names(self) -> None:
        for name, path in self._files.modules.items():
            origin = getattr(sys.modules.get(name), "__file__", None)
            location = self._files.root / path
            if origin is not None and Path(origin).resolve() != location.resolve():
                raise AgentLoadError(
                    f"agent file {location}: this process has already imported "
                    f"another module {name!r}, from {origin}; rename the file"
                )
