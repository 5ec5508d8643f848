"""An agent spec -> an agent that can be built, and its config.

    spec := NAME               a built-in, or a name in the entry-point group
                               `longplay.agents`
          | FILE.py[:ATTR]     a file; without ATTR its `Agent`, else the file itself if
                               it has `init` and `step`
          | MODULE:ATTR        an importable module's attribute
          | PACKAGE.MODULE       an importable module, as for a file without ATTR

Loading a spec imports code, so it happens only for a spec that the user gave. An agent
is recorded by its config, and `agent_id` is the hash of that:

    config := {_type, args}                             a built-in agent
            | {_type, args, file, source_sha256}        a file; with `files_sha256` if
                                                        it has several files
            | {_type, args, files_sha256}               MODULE:ATTR, PACKAGE.MODULE

It contains no path and no seed. `agents.closure` defines which files belong to an
agent.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from longplay import plugins
from longplay.agents.adapters import adapt, call_constructor, has_known_form
from longplay.agents.functional import (
    INIT,
    INIT_PREDICTOR,
    FunctionalAgent,
    is_functional,
    takes_shape_alone,
)
from longplay.agents.global_random import IMPORT_SEED, GlobalRandom
from longplay.agents.isolation.levels import NOT_ISOLATED, Isolation
from longplay.agents.output import AgentOutput
from longplay.agents.protocol import StreamingAgent
from longplay.agents.source.closure import (
    AgentFiles,
    collect_folder_files,
    collect_module_files,
)
from longplay.agents.source.imports import AgentModules
from longplay.contract.config import GLOBAL_ACTION_SET, AgentEntry, AgentFileEntry
from longplay.contract.fingerprint import agent_id
from longplay.errors import (
    AgentLoadError,
    LongplayError,
    MissingExtraError,
    UnknownNameError,
    describe_exception,
)

# The name, in a config, of an agent that is a module of functions.
_MODULE = "module"


def _find_learners() -> Iterator[tuple[str, str]]:
    """Name and place of every learner: each module of `longplay.learners` is one.

    None is imported. `:module` is the module itself, as in the configs of agents that
    are modules of functions.
    """
    for found in pkgutil.iter_modules([str(Path(__file__).parents[2] / "learners")]):
        if not found.ispkg:
            name = found.name.replace("_", "-")
            yield name, f"longplay.learners.{found.name}:{_MODULE}"


BUILT_IN_AGENTS: Mapping[str, str] = {
    "random": "longplay.agents.random:RandomAgent",
    "repeat": "longplay.agents.repeat:RepeatAgent",
    "noop": "longplay.agents.noop:NoopAgent",
    **dict(_find_learners()),
}


@dataclass(frozen=True)
class AgentSource:
    """Where an agent spec points; no code of the agent is imported yet.

    Attributes:
        name: The agent's name.
        spec: The agent spec, as given.
        module: The agent's module, or the stem of its file.
        attribute: Its name in the module; "" for a file without one.
        file: Base name of its file; None for an importable module.
        files: Its files; None for a built-in agent.
        patterns: The patterns of `--agent-files`.
    """

    name: str
    spec: str
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
        # Omitted for a single file, so that its agent_id stays the same.
        if self.file is None or len(self.files.files) > 1:
            config["files_sha256"] = self.files.sha256
        return config


@dataclass(frozen=True)
class LoadedAgent:
    """An agent that is imported, but not built yet."""

    name: str
    spec: str
    entry: AgentEntry
    factory: Callable[..., StreamingAgent]
    built_as: str
    agent_args: Mapping[str, Any] = field(default_factory=dict)
    output: AgentOutput = field(default_factory=AgentOutput)
    # The module with `init` and `step`, if the agent is one.
    module: ModuleType | None = None
    # Of an agent that is not built in; its modules are active while it plays.
    files: AgentFiles | None = None
    patterns: tuple[str, ...] = ()
    modules: AgentModules | None = None
    isolation: Isolation = NOT_ISOLATED
    # Where the state is that it is built with; None for a fresh agent.
    state_dir: Path | None = None

    @property
    def absolute_spec(self) -> str:
        """The agent spec in a form that works from any working directory."""
        file = _match_file(self.spec)
        if file is None:
            return self.spec
        return str(Path(file[1]).resolve()) + (f":{file[2]}" if file[2] else "")

    def with_args(self, agent_args: Mapping[str, Any]) -> LoadedAgent:
        """The same agent, to be built with other arguments.

        Raises:
            AgentLoadError: The arguments are not plain JSON.
        """
        entry = make_entry({**self.entry.config, "args": dict(agent_args)})
        named = entry.model_copy(update={"name": self.entry.name})
        return replace(self, entry=named, agent_args=dict(agent_args))

    def with_name(self, name: str | None) -> LoadedAgent:
        """The same agent under another name in tables; None keeps its own."""
        if name is None:
            return self
        entry = self.entry.model_copy(update={"name": name})
        return replace(self, name=name, entry=entry)

    @property
    def agent_files(self) -> tuple[AgentFileEntry, ...] | None:
        """The `agent_files` of config.json; None for a built-in agent."""
        return None if self.files is None else self.files.entries

    @property
    def is_predictor(self) -> bool:
        """Whether its `init` takes no number of actions."""
        module = self.module
        return module is not None and takes_shape_alone(module.init, self.agent_args)

    def build(self, seed: int) -> StreamingAgent:
        """Builds a new agent.

        Raises:
            AgentLoadError: The factory raised, or the object has no form that is known.
        """
        return self._build(self._make, self.built_as, len(GLOBAL_ACTION_SET), seed)

    def _make(self, num_actions: int, seed: int, **agent_args: Any) -> StreamingAgent:
        agent = call_constructor(self.factory, num_actions, seed, **agent_args)
        if not has_known_form(agent):
            raise AgentLoadError(
                f"expected an object with a method step, frame or get_action, found "
                f"{type(agent).__name__} without one"
            )
        return adapt(agent, num_actions, seed)

    def build_predictor(self, seed: int) -> StreamingAgent:
        """Builds a new agent for the prediction track.

        Raises:
            AgentLoadError: `init` raised, or the agent is not a module with `init` and
                `step`.
        """
        if self.module is None:
            raise AgentLoadError(
                f"agent {self.spec}: the prediction track takes a module or file "
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
            agent = factory(num_actions, seed, **self.agent_args)
        except AgentLoadError as error:
            raise AgentLoadError(f"agent {self.spec}: {error}") from error
        except (LongplayError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise AgentLoadError(
                f"agent {self.spec}: building it as {built_as} raised "
                f"{describe_exception(error)}"
            ) from error
        if self.state_dir is not None:
            self._restore(agent, self.state_dir)
        return agent

    def _restore(self, agent: Any, folder: Path) -> None:
        try:
            agent.load(folder)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise AgentLoadError(
                f"agent {self.spec}: its load of {folder} raised "
                f"{describe_exception(error)}"
            ) from error


def list_agents() -> dict[str, str]:
    """Name -> `module:attr` of every named agent."""
    points = plugins.list_entry_points(plugins.AGENTS)
    installed = {name: point.value for name, point in points.items()}
    # Built-in names take precedence: another package must not pass for longplay's.
    return {**installed, **BUILT_IN_AGENTS}


def load_agent(
    spec: str | Callable[..., StreamingAgent],
    agent_args: Mapping[str, Any] | None = None,
    agent_files: Sequence[str] = (),
) -> LoadedAgent:
    """Finds and imports an agent; a class or factory is used as it is.

    Args:
        spec: An agent spec, a class or a factory.
        agent_args: Arguments it is built with.
        agent_files: Patterns of its files that no import statement names: weights, or
            modules that are imported by a computed name.

    Raises:
        AgentLoadError: The file or module cannot be imported, or contains no agent.
        UnknownNameError: No agent has this name.
    """
    output = AgentOutput()
    with output.capture(), GlobalRandom(IMPORT_SEED).in_use():
        source, modules, found = _find_and_import(spec, agent_files)
    return assemble_agent(source, modules, found, agent_args or {}, output)


def assemble_agent(
    source: AgentSource,
    modules: AgentModules | None,
    found: Any,
    agent_args: Mapping[str, Any],
    output: AgentOutput | None = None,
) -> LoadedAgent:
    """Makes the `LoadedAgent` of an imported agent.

    Args:
        source: Where the agent is.
        modules: Its modules, if it has files.
        found: The return value of `import_agent`.
        agent_args: Arguments it is built with.
        output: The output that captured its import.

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
        spec=source.spec,
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
    spec: str | Callable[..., StreamingAgent], patterns: Sequence[str]
) -> tuple[AgentSource, AgentModules | None, Any]:
    if not isinstance(spec, str):
        name, module = name_of(spec), _module_of(spec)
        if patterns:
            raise AgentLoadError(
                f"--agent-files: agent {name} was given as an object; expected a "
                "file.py or module:attr, whose files are known"
            )
        return AgentSource(name, f"{module}:{name}", module), None, spec
    source = find_agent(spec, patterns)
    modules = None if source.files is None else AgentModules(source.files)
    found = import_agent(source, modules)
    if source.files is not None:
        source.files.check_unchanged()
    return source, modules, found


def find_agent(spec: str, patterns: Sequence[str] = ()) -> AgentSource:
    """Finds an agent's files without importing them.

    Raises:
        AgentLoadError: The file does not exist, or a pattern matches no file.
        UnknownNameError: No agent has this name.
    """
    given = tuple(patterns)
    if file := _match_file(spec):
        path, attribute = Path(file[1]), file[2] or ""
        if not path.is_file():
            raise AgentLoadError(f"agent file {path}: no such file")
        files = collect_folder_files(path, given)
        return AgentSource(
            path.stem, spec, path.stem, attribute, path.name, files, given
        )
    module, _, attribute = spec.partition(":")
    name = attribute
    known = {} if attribute else list_agents()
    if spec in known:
        name = spec
        module, _, attribute = known[spec].partition(":")
    elif not attribute and re.fullmatch(r"\w+(\.\w+)+", spec):
        name = spec.rpartition(".")[2]
    elif not attribute:
        hint = "(or give a file.py[:Agent], module:Agent or package.module)"
        raise UnknownNameError("agent", spec, known, hint)
    _append_path(Path.cwd())
    module_files = collect_module_files(module, given)
    if module_files is None and given:
        raise AgentLoadError(
            f"--agent-files: agent {spec} is built in and has no other files"
        )
    return AgentSource(
        name, spec, module, attribute, files=module_files, patterns=given
    )


def import_agent(source: AgentSource, modules: AgentModules | None) -> Any:
    """Imports the class, factory or functional module that a spec names.

    Args:
        source: Where the agent is.
        modules: The modules of the source's files; None if it has none.

    Raises:
        AgentLoadError: It cannot be imported, or is not an agent.
    """
    try:
        if modules is None:
            module = importlib.import_module(source.module)
        elif source.file is None:
            module = modules.import_module(source.module)
        else:
            module = modules.import_entry(source.file)
    except (AgentLoadError, MissingExtraError, KeyboardInterrupt):
        raise
    except BaseException as error:
        file = _match_file(source.spec)
        place = f"agent file {file[1]}" if file else f"agent module {source.module}"
        raise AgentLoadError(
            f"{place}: importing it raised {describe_exception(error)}"
        ) from error
    return _pick_agent(module, source.attribute, source.spec)


def _append_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _match_file(spec: str) -> re.Match[str] | None:
    return re.fullmatch(r"(.+\.py)(?::(\w+))?", spec)


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
    """The name of a class, factory or module of functions in an agent's config."""
    if isinstance(found, ModuleType):
        return _MODULE
    return str(getattr(found, "__name__", type(found).__name__))


def read_revision(source: AgentSource, found: Any) -> int | None:
    """The revision of a built-in learner; None for other agents."""
    is_learner = source.spec in BUILT_IN_AGENTS and is_functional(found)
    return found.REVISION if is_learner else None


def _module_of(found: object) -> str:
    return str(getattr(found, "__module__", type(found).__module__))


def _pick_agent(module: ModuleType, attribute: str, spec: str) -> Any:
    """The class, factory or functional module that a spec names."""
    if attribute == _MODULE and is_functional(module):
        return module
    if attribute:
        if not hasattr(module, attribute):
            raise AgentLoadError(f"agent {spec}: it has no {attribute!r}")
        found = getattr(module, attribute)
        if not callable(found) and not is_functional(found):
            raise AgentLoadError(
                f"agent {spec}: expected a class or factory, "
                f"found {type(found).__name__}"
            )
    elif hasattr(module, "Agent"):
        found = module.Agent
    elif is_functional(module):
        return module
    else:
        has = [name for name in ("init", "step") if hasattr(module, name)]
        which = f"only `{has[0]}`" if has else "neither"
        raise AgentLoadError(
            f"agent {spec}: expected a class `Agent` with a method `step`, or "
            f"functions `init` and `step`; found {which}"
        )
    if inspect.isclass(found) and not has_known_form(found):
        raise AgentLoadError(
            f"agent {spec}: class {found.__name__} has no method `step`, `frame` or "
            "`get_action`"
        )
    return found
