"""A reference -> an agent that can be built, and what is written down of it.

    reference := NAME               a built-in, or a name in the entry-point group
                                    `longplay.agents`
               | FILE.py[:ATTR]     a file; without ATTR its `Agent`, else the file
                                    itself if it has `init` and `step`
               | MODULE:ATTR        an importable module's attribute

Loading a reference imports code, so it happens only for one that a person gave. What is
written down of an agent is its config, and `agent_id` is the hash of that:

    config := {_type, args}                             an agent of longplay
            | {_type, args, file, source_sha256}        a file; with `files_sha256` if
                                                        it is made of several files
            | {_type, args, files_sha256}               MODULE:ATTR

There is no path and no seed in it. `agents.closure` says which files an agent is made
of.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from longplay.agents.closure import (
    AgentFiles,
    collect_folder_files,
    collect_module_files,
)
from longplay.agents.functional import (
    INIT,
    INIT_PREDICTOR,
    FunctionalAgent,
    is_functional,
    takes_shape_alone,
)
from longplay.agents.global_random import IMPORT_SEED, GlobalRandom
from longplay.agents.imports import AgentModules
from longplay.agents.output import AgentOutput
from longplay.agents.protocol import StreamingAgent
from longplay.contract.fingerprint import agent_id
from longplay.contract.records import GLOBAL_ACTION_SET, AgentEntry, AgentFileEntry
from longplay.errors import (
    AgentLoadError,
    LongplayError,
    MissingExtraError,
    UnknownNameError,
    describe_exception,
)

ENTRY_POINT_GROUP = "longplay.agents"

BUILT_IN_AGENTS: Mapping[str, str] = {
    "random": "longplay.agents.random:RandomAgent",
    "repeat": "longplay.agents.repeat:RepeatAgent",
    "noop": "longplay.agents.noop:NoopAgent",
    # Agents made of functions: `:module` means the module itself, as in their configs.
    "linear-sarsa": "longplay.learners.linear_sarsa:module",
    "stream-q": "longplay.learners.stream_q:module",
    "stream-q-l2init": "longplay.learners.stream_q_l2init:module",
    "dqn": "longplay.learners.dqn:module",
    "linear-td": "longplay.learners.linear_td:module",
    "stream-td": "longplay.learners.stream_td:module",
}
# What a config calls an agent that is a module of functions.
_MODULE = "module"


@dataclass(frozen=True)
class AgentSource:
    """Where a reference leads; nothing of the agent is imported yet.

    Attributes:
        name: What the agent is called.
        reference: As it was given.
        module: The module it is in, or the stem of its file.
        attribute: What it is in there; "" for a file that does not say.
        file: Base name of its file; None for an importable module.
        files: What it is made of; None for an agent of longplay.
        patterns: What `--agent-files` named.
    """

    name: str
    reference: str
    module: str
    attribute: str = ""
    file: str | None = None
    files: AgentFiles | None = None
    patterns: tuple[str, ...] = ()

    def describe(
        self, name: str, agent_args: Mapping[str, Any], revision: int | None
    ) -> dict[str, Any]:
        """The config of the class, factory or module of this name."""
        config: dict[str, Any] = {
            "_type": f"{self.module}.{name}",
            "args": dict(agent_args),
        }
        if revision is not None:
            config["revision"] = revision
        if self.files is None:
            return config
        if self.file is not None:
            entry = self.files.get(self.file)
            config |= {"file": entry.path, "source_sha256": entry.sha256}
        # A file alone keeps the id it always had.
        if self.file is None or len(self.files.files) > 1:
            config["files_sha256"] = self.files.sha256
        return config


@dataclass(frozen=True)
class LoadedAgent:
    """An agent that was found and imported, not built yet."""

    name: str
    reference: str
    entry: AgentEntry
    factory: Callable[..., StreamingAgent]
    built_as: str
    agent_args: Mapping[str, Any] = field(default_factory=dict)
    output: AgentOutput = field(default_factory=AgentOutput)
    # Where `init` and `step` are, of an agent that is made of them.
    module: ModuleType | None = None
    # Of an agent that is not longplay's own; its modules are in use while it plays.
    files: AgentFiles | None = None
    patterns: tuple[str, ...] = ()
    modules: AgentModules | None = None

    @property
    def absolute_reference(self) -> str:
        """The reference as it works from any working directory."""
        file = _match_file(self.reference)
        if file is None:
            return self.reference
        return str(Path(file[1]).resolve()) + (f":{file[2]}" if file[2] else "")

    @property
    def agent_files(self) -> tuple[AgentFileEntry, ...] | None:
        """What `config.json` lists of its files; None for an agent of longplay."""
        return None if self.files is None else self.files.entries

    @property
    def is_predictor(self) -> bool:
        """Whether its `init` needs no number of actions."""
        module = self.module
        return module is not None and takes_shape_alone(module.init, self.agent_args)

    def build(self, seed: int) -> StreamingAgent:
        """Makes a new agent.

        Raises:
            AgentLoadError: It raised, or what it made has no `step`.
        """
        num_actions = len(GLOBAL_ACTION_SET)
        agent = self._build(self.factory, self.built_as, num_actions, seed)
        if not callable(getattr(agent, "step", None)):
            raise AgentLoadError(
                f"agent {self.reference}: expected an object with a method step, "
                f"found {type(agent).__name__} without one"
            )
        return agent

    def build_predictor(self, seed: int) -> StreamingAgent:
        """Makes a new agent for the prediction track.

        Raises:
            AgentLoadError: It raised, or is not made of `init` and `step`.
        """
        if self.module is None:
            raise AgentLoadError(
                f"agent {self.reference}: the prediction track takes a module or file "
                f"with {INIT_PREDICTOR} and step"
            )
        factory = FunctionalAgent.factory(self.module)
        return self._build(factory, INIT_PREDICTOR, None, seed)

    def _build(
        self,
        factory: Callable[..., StreamingAgent],
        built_as: str,
        num_actions: int | None,
        seed: int,
    ) -> StreamingAgent:
        if self.modules is not None:
            self.modules.activate()
        try:
            return factory(num_actions, seed, **self.agent_args)
        except AgentLoadError as error:
            raise AgentLoadError(f"agent {self.reference}: {error}") from error
        except LongplayError:
            raise
        except (Exception, SystemExit) as error:
            raise AgentLoadError(
                f"agent {self.reference}: building it as {built_as} raised "
                f"{describe_exception(error)}"
            ) from error


def list_agents() -> dict[str, str]:
    """Name -> `module:attr` of every agent that has a name."""
    installed = {
        point.name: point.value
        for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    }
    # A package cannot take a built-in's name: its runs would pass for ours.
    return {**installed, **BUILT_IN_AGENTS}


def load_agent(
    reference: str | Callable[..., StreamingAgent],
    agent_args: Mapping[str, Any] | None = None,
    agent_files: Sequence[str] = (),
) -> LoadedAgent:
    """Finds and imports an agent; a class or factory is taken as it is.

    Args:
        reference: As the module's docstring says.
        agent_args: Arguments it is built with.
        agent_files: Patterns of files that belong to it and that no import statement
            names: weights, modules that are imported by a computed name.

    Raises:
        AgentLoadError: The file or module cannot be imported, or holds no agent.
        UnknownNameError: No agent has this name.
    """
    output = AgentOutput()
    with output.capture(), GlobalRandom(IMPORT_SEED).in_use():
        source, modules, found = _find_and_import(reference, agent_files)
    return assemble_agent(source, modules, found, agent_args or {}, output)


def assemble_agent(
    source: AgentSource,
    modules: AgentModules | None,
    found: Any,
    agent_args: Mapping[str, Any],
    output: AgentOutput | None = None,
) -> LoadedAgent:
    """An imported agent, ready to be built.

    Args:
        source: Where it is.
        modules: Its modules, if it has files.
        found: What `import_agent` gave.
        agent_args: Arguments it is built with.
        output: Where its import has printed to.

    Raises:
        AgentLoadError: The arguments are not plain JSON.
    """
    config = source.describe(name_of(found), agent_args, read_revision(source, found))
    factory, built_as = found, "Agent(num_actions, seed, **agent_args)"
    module = found if is_functional(found) else None
    if module is not None:
        factory = FunctionalAgent.factory(found)
        built_as = INIT
    return LoadedAgent(
        name=source.name,
        reference=source.reference,
        entry=make_entry(config),
        factory=factory,
        built_as=built_as,
        agent_args=dict(agent_args),
        output=output or AgentOutput(),
        module=module,
        files=source.files,
        patterns=source.patterns,
        modules=modules,
    )


def _find_and_import(
    reference: str | Callable[..., StreamingAgent], patterns: Sequence[str]
) -> tuple[AgentSource, AgentModules | None, Any]:
    if not isinstance(reference, str):
        name, module = name_of(reference), _module_of(reference)
        if patterns:
            raise AgentLoadError(
                f"--agent-files: agent {name} was given as an object; expected a "
                "file.py or module:attr, whose files are known"
            )
        return AgentSource(name, f"{module}:{name}", module), None, reference
    source = find_agent(reference, patterns)
    modules = None if source.files is None else AgentModules(source.files)
    found = import_agent(source, modules)
    if source.files is not None:
        source.files.check_unchanged()
    return source, modules, found


def find_agent(reference: str, patterns: Sequence[str] = ()) -> AgentSource:
    """Finds an agent's files; imports nothing of it.

    Raises:
        AgentLoadError: There is no such file, or a pattern matches none.
        UnknownNameError: No agent has this name.
    """
    given = tuple(patterns)
    if file := _match_file(reference):
        path, attribute = Path(file[1]), file[2] or ""
        if not path.is_file():
            raise AgentLoadError(f"agent file {path}: there is no such file")
        files = collect_folder_files(path, given)
        return AgentSource(
            path.stem, reference, path.stem, attribute, path.name, files, given
        )
    module, _, attribute = reference.partition(":")
    name = attribute
    if not attribute:
        known = list_agents()
        if reference not in known:
            hint = "(or give a file.py[:Agent] or module:Agent)"
            raise UnknownNameError("agent", reference, known, hint)
        name = reference
        module, _, attribute = known[reference].partition(":")
    _append_path(Path.cwd())
    module_files = collect_module_files(module, given)
    if module_files is None and given:
        raise AgentLoadError(
            f"--agent-files: agent {reference} is one of longplay's own and has no "
            "other files"
        )
    return AgentSource(
        name, reference, module, attribute, files=module_files, patterns=given
    )


def import_agent(source: AgentSource, modules: AgentModules | None) -> Any:
    """Imports the class, factory or functional module that a reference means.

    Args:
        source: Where it is.
        modules: Made of the source's files; None if it has none.

    Raises:
        AgentLoadError: It cannot be imported, or is no agent.
    """
    try:
        if modules is None:
            module = importlib.import_module(source.module)
        elif source.file is None:
            module = modules.import_module(source.module)
        else:
            module = modules.import_entry(source.file)
    except (AgentLoadError, MissingExtraError):
        raise
    except (Exception, SystemExit) as error:
        file = _match_file(source.reference)
        place = f"agent file {file[1]}" if file else f"agent module {source.module}"
        raise AgentLoadError(
            f"{place}: importing it raised {describe_exception(error)}"
        ) from error
    return _pick_agent(module, source.attribute, source.reference)


def _append_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _match_file(reference: str) -> re.Match[str] | None:
    return re.fullmatch(r"(.+\.py)(?::(\w+))?", reference)


def make_entry(config: dict[str, Any]) -> AgentEntry:
    """An agent's config with its id.

    Raises:
        AgentLoadError: The arguments are not plain JSON.
    """
    try:
        return AgentEntry(config=config, agent_id=agent_id(config))
    except (TypeError, ValueError) as error:
        raise AgentLoadError(f"agent args must be plain JSON: {error}") from error


def name_of(found: object) -> str:
    """What an agent's config calls a class, a factory or a module of functions."""
    if isinstance(found, ModuleType):
        return _MODULE
    return str(getattr(found, "__name__", type(found).__name__))


def read_revision(source: AgentSource, found: Any) -> int | None:
    """The revision of a learner of longplay's own; None of other agents."""
    is_learner = source.reference in BUILT_IN_AGENTS and is_functional(found)
    return found.REVISION if is_learner else None


def _module_of(found: object) -> str:
    return str(getattr(found, "__module__", type(found).__module__))


def _pick_agent(module: ModuleType, attribute: str, reference: str) -> Any:
    """The class, factory or functional module that a reference means."""
    if attribute == _MODULE and is_functional(module):
        return module
    if attribute:
        if not hasattr(module, attribute):
            raise AgentLoadError(f"agent {reference}: there is no {attribute!r} in it")
        found = getattr(module, attribute)
        if not callable(found) and not is_functional(found):
            raise AgentLoadError(
                f"agent {reference}: expected a class or factory, "
                f"found {type(found).__name__}"
            )
    elif hasattr(module, "Agent"):
        found = module.Agent
    elif is_functional(module):
        return module
    else:
        has = [name for name in ("init", "step") if hasattr(module, name)]
        which = f"`{has[0]}` alone" if has else "neither"
        raise AgentLoadError(
            f"agent {reference}: expected a class `Agent` with a method `step`, or "
            f"functions `init` and `step`; found {which}"
        )
    if inspect.isclass(found) and not callable(getattr(found, "step", None)):
        raise AgentLoadError(
            f"agent {reference}: class {found.__name__} has no method `step`"
        )
    return found
