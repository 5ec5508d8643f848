"""What an agent is, and `load_agent`: a reference -> something that can be built.

    reference := NAME               a built-in, or a name in the entry-point group
                                    `longplay.agents`
               | FILE.py[:ATTR]     a file; without ATTR its `Agent`, else the file
                                    itself if it has `init` and `step`
               | MODULE:ATTR        an importable module's attribute

Loading a reference imports code, so it happens only for one that a person gave. What is
written down of an agent is its config, `{_type, args}` and for a file its base name and
the SHA-256 of its source; `agent_id` is the hash of that. No path, no seed.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple, Protocol

from longplay.agents.functional import (
    INIT,
    INIT_PREDICTOR,
    FunctionalAgent,
    is_functional,
    takes_shape_alone,
)
from longplay.agents.output import AgentOutput
from longplay.console.base import Observation
from longplay.contract.fingerprint import agent_id
from longplay.contract.records import GLOBAL_ACTION_SET, AgentEntry
from longplay.errors import (
    AgentLoadError,
    LongplayError,
    MissingExtraError,
    UnknownNameError,
    describe_exception,
)

ENTRY_POINT_GROUP = "longplay.agents"
# What a config calls an agent that is a module of functions.
_MODULE = "module"

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


class StreamingAgent(Protocol):
    """What the streaming track asks for; `metrics` and `close` are optional."""

    def step(
        self,
        obs_rgb: Observation,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> int:
        """Answers one frame; the answer counts if `info["is_decision_frame"]`."""


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

    @property
    def absolute_reference(self) -> str:
        """The reference as it works from any working directory."""
        file = _match_file(self.reference)
        if file is None:
            return self.reference
        return str(Path(file[1]).resolve()) + (f":{file[2]}" if file[2] else "")

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
) -> LoadedAgent:
    """Finds and imports an agent; a class or factory is taken as it is.

    Raises:
        AgentLoadError: The file or module cannot be imported, or holds no agent.
        UnknownNameError: No agent has this name.
    """
    agent_args = dict(agent_args or {})
    output = AgentOutput()
    with output.capture():
        found = _find(reference)
    config = {
        "_type": f"{found.module}.{_name_of(found.agent)}",
        "args": agent_args,
        **found.source,
        **_read_revision(found),
    }
    factory, built_as = found.agent, "Agent(num_actions, seed, **agent_args)"
    module = found.agent if is_functional(found.agent) else None
    if module is not None:
        factory = FunctionalAgent.factory(found.agent)
        built_as = INIT
    return LoadedAgent(
        name=found.name,
        reference=found.reference,
        entry=AgentEntry(config=config, agent_id=_hash_config(config)),
        factory=factory,
        built_as=built_as,
        agent_args=agent_args,
        output=output,
        module=module,
    )


class _Found(NamedTuple):
    """Where a reference led."""

    name: str
    reference: str
    module: str
    agent: Any
    source: Mapping[str, str] = MappingProxyType({})


def _match_file(reference: str) -> re.Match[str] | None:
    return re.fullmatch(r"(.+\.py)(?::(\w+))?", reference)


def _find(reference: str | Callable[..., StreamingAgent]) -> _Found:
    if not isinstance(reference, str):
        name, module = _name_of(reference), _module_of(reference)
        return _Found(name, f"{module}:{name}", module, reference)
    if file := _match_file(reference):
        path, attribute = Path(file[1]), file[2] or ""
        agent = _pick_agent(_import_file(path), attribute, reference)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        source = {"file": path.name, "source_sha256": digest}
        return _Found(path.stem, reference, path.stem, agent, source)
    location, _, attribute = reference.partition(":")
    name = attribute
    if not attribute:
        known = list_agents()
        if reference not in known:
            hint = "(or give a file.py[:Agent] or module:Agent)"
            raise UnknownNameError("agent", reference, known, hint)
        name = reference
        location, _, attribute = known[reference].partition(":")
    agent = _pick_agent(_import_module(location), attribute, reference)
    return _Found(name, reference, location, agent)


def _read_revision(found: _Found) -> dict[str, int]:
    """`revision` of a learner of longplay's own, raised when its behaviour changes."""
    if found.reference not in BUILT_IN_AGENTS or not is_functional(found.agent):
        return {}
    return {"revision": found.agent.REVISION}


def _hash_config(config: Mapping[str, Any]) -> str:
    try:
        return agent_id(config)
    except (TypeError, ValueError) as error:
        raise AgentLoadError(f"agent args must be plain JSON: {error}") from error


def _name_of(found: object) -> str:
    if isinstance(found, ModuleType):
        return _MODULE
    return str(getattr(found, "__name__", type(found).__name__))


def _module_of(found: object) -> str:
    return str(getattr(found, "__module__", type(found).__module__))


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise AgentLoadError(f"agent file {path}: there is no such file")
    # As `python FILE` does, so that the file can import its neighbours.
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    name = f"longplay_agent_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise AgentLoadError(f"agent file {path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise AgentLoadError(
            f"agent file {path}: importing it raised {describe_exception(error)}"
        ) from error
    return module


def _import_module(name: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        return importlib.import_module(name)
    except MissingExtraError:
        raise
    except (Exception, SystemExit) as error:
        raise AgentLoadError(
            f"agent module {name}: importing it raised {describe_exception(error)}"
        ) from error


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
