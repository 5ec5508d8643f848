"""An agent in another process, with the interface of an agent in this process.

Frames between two decisions are collected and sent with the next decision frame. The
agent still sees every frame, in order, before any other request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from longplay.agents.isolation import channel
from longplay.agents.isolation.ahead import AheadConsole
from longplay.agents.isolation.levels import Isolation
from longplay.agents.isolation.parent import AgentProcess
from longplay.agents.metrics import Metrics, check_metrics, check_numbers
from longplay.agents.output import AgentOutput
from longplay.agents.protocol import StreamingAgent
from longplay.agents.source.loading import (
    BUILT_IN_AGENTS,
    AgentSource,
    LoadedAgent,
    find_agent,
    load_agent,
    make_entry,
)
from longplay.agents.surroundings import kept_surroundings
from longplay.console.base import Observation
from longplay.contract.config import GLOBAL_ACTION_SET
from longplay.errors import (
    AgentError,
    AgentLoadError,
    escape_controls,
    show_value,
)
from longplay.stream import Stream

_LONGEST_NAME = 200


class RemoteAgent:
    """An agent that runs in its own process.

    Attributes:
        processed: Number of frames that the agent has processed. The rest of those it
            was given are collected, or it failed at the first of them.
    """

    def __init__(
        self,
        process: AgentProcess,
        step_timeout_s: float | None,
        built: channel.Built,
        num_actions: int | None = None,
    ) -> None:
        self._process = process
        self._step_timeout_s = step_timeout_s
        self._num_actions = num_actions
        self.looks_between_decisions = built.looks_between_decisions
        self._is_first = True
        self._slots = process.frames.slots
        self._slot_ids = {id(array): slot for slot, array in enumerate(self._slots)}
        self._slot = 0
        self._percepts: list[channel.SentPercept] = []
        self._methods = frozenset(built.methods)
        self.processed = 0
        self._meanwhile: Callable[[], None] | None = None
        if {"save", "load"} <= self._methods:
            self.save, self.load = self._save, self._load
        if "usage" in self._methods:
            self.usage = partial(self._ask_numbers, "usage")
        if "window_metrics" in self._methods:
            self.window_metrics = partial(self._ask_numbers, "window_metrics")

    def step(
        self,
        obs_rgb: Observation | None,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> Any:
        """Collects a frame; calls the agent on decision frames."""
        percepts = self._percepts
        slot = None
        if obs_rgb is not None:
            slot = self._slot_ids.get(id(obs_rgb))
            if slot is None:  # it was played ahead, or the console cannot draw there
                self.next_canvas()[...] = obs_rgb
                slot = self._slot
        percepts.append(channel.SentPercept(slot, reward, terminated, truncated, info))
        if info["is_decision_frame"]:
            return self._send(self._meanwhile)
        return self._send() if len(percepts) == channel.LONGEST_BATCH else None

    def play_ahead_of(self, stream: Stream) -> None:
        """Has a stream's console draw for the agent, and play on while it computes."""
        rules = stream.mechanics
        shown_after = 1 if self.looks_between_decisions else rules.decision_interval
        console = AheadConsole(stream.console, self.next_canvas, shown_after)
        stream.use_console(console)
        if rules.delay:
            self._meanwhile = lambda: console.play_ahead(stream.known_actions)

    def next_canvas(self) -> Observation:
        """Shared memory for the observation of the next frame."""
        self._slot = (self._slot + 1) % channel.SLOTS
        return self._slots[self._slot]

    def _send(self, meanwhile: Callable[[], None] | None = None) -> Any:
        percepts, self._percepts = self._percepts, []
        timeout_s = self._step_timeout_s
        if timeout_s is not None:
            timeout_s = None if self._is_first else timeout_s * len(percepts)
        self._is_first = False
        batch = channel.Batch(percepts, self._process.spin_s)
        try:
            reply = self._process.ask(batch, timeout_s, meanwhile)
        except BaseException:
            # The agent's process may say anything.
            failed_idx = max(self._process.failed_percept_idx, 0)
            self.processed += min(failed_idx, len(percepts) - 1)
            raise
        self.processed += len(percepts)
        if isinstance(reply, channel.Answer):
            return reply.value
        if isinstance(reply, channel.OddAnswer):
            return _make_stand_in(reply)
        raise self._process.refuse(reply)

    def settle(self) -> None:
        """Sends the collected frames to the agent."""
        if self._percepts:
            self._send()

    def metrics(self) -> Metrics:
        """The metrics that the agent reports for the visit that just ended."""
        if "metrics" in self._methods:
            return self._ask_numbers("metrics")
        self.settle()
        return {}

    def _ask_numbers(self, method: str) -> dict[str, Any]:
        self.settle()
        reply = self._process.ask(channel.Ask(method))
        if not isinstance(reply, channel.Numbers):
            raise self._process.refuse(reply)
        check = check_numbers if method == "usage" else check_metrics
        return check(f"{method}()", reply.values)

    def _save(self, directory: Path) -> None:
        self.settle()
        folder = self._process.folder
        self._process.ask(channel.Save(str(folder.saved)))
        folder.copy_saved(directory)

    def _load(self, directory: Path) -> None:
        placed = self._process.folder.place_loaded(directory)
        self._process.ask(channel.Load(str(placed)))

    def rebuild(self, seed: int) -> None:
        """Builds the agent anew, in the same process."""
        self.settle()
        self._process.ask(channel.Build(self._num_actions, seed))

    def close(self) -> None:
        """Closes the agent and ends its process."""
        try:
            if "close" in self._methods and self._process.is_open:
                self.settle()
                self._process.ask(channel.Ask("close"))
        finally:
            self._process.close()


def _make_stand_in(odd: channel.OddAnswer) -> object:
    """An object that is shown like an answer that could not be sent."""
    text = odd.text[: _LONGEST_NAME + 1]
    name = escape_controls(odd.type_name[:_LONGEST_NAME])
    return type(name, (), {"__repr__": lambda self: text})()


@dataclass(frozen=True)
class IsolatedAgent(LoadedAgent):
    """An agent that is imported in its own process.

    Attributes:
        source: Where the agent is.
        is_functional: Whether it is a module with `init` and `step`.
        predicts: Whether its `init` takes no number of actions.
    """

    source: AgentSource = field(kw_only=True)
    is_functional: bool = field(kw_only=True)
    predicts: bool = field(kw_only=True)

    @property
    def is_predictor(self) -> bool:
        """Whether its `init` takes no number of actions."""
        return self.predicts

    def build(self, seed: int) -> RemoteAgent:
        """Starts a process and builds a new agent in it."""
        return self._start(len(GLOBAL_ACTION_SET), seed)

    def build_predictor(self, seed: int) -> RemoteAgent:
        """Starts a process and builds a new predictor in it."""
        return self._start(None, seed)

    def _start(self, num_actions: int | None, seed: int) -> RemoteAgent:
        process = AgentProcess(
            self.source, self.agent_args, self.isolation, self.output
        )
        try:
            process.ask(channel.Import())
            reply = process.ask(channel.Build(num_actions, seed))
            if not isinstance(reply, channel.Built):
                raise process.refuse(reply)
        except AgentError as error:
            process.close()
            raise AgentLoadError(f"agent {self.spec}: {error}") from error
        except BaseException:
            process.close()
            raise
        return RemoteAgent(process, self.isolation.step_timeout_s, reply, num_actions)


def load_agent_at(
    isolation: Isolation,
    spec: str | Callable[..., StreamingAgent],
    agent_args: Mapping[str, Any] | None = None,
    agent_files: Sequence[str] = (),
) -> LoadedAgent:
    """Finds and imports an agent at any isolation level.

    Raises:
        AgentLoadError, ConfigError, UnknownNameError: As `load_agent` and
            `load_isolated_agent`.
    """
    if isolation.level == "none":
        with kept_surroundings():
            return load_agent(spec, agent_args, agent_files)
    return load_isolated_agent(spec, isolation, agent_args, agent_files)


def load_isolated_agent(
    spec: object,
    isolation: Isolation,
    agent_args: Mapping[str, Any] | None = None,
    agent_files: Sequence[str] = (),
) -> IsolatedAgent:
    """Finds an agent, and imports it in its own process.

    Raises:
        AgentLoadError: It cannot be imported, or was given as an object.
        ConfigError: This machine does not support the isolation level.
        UnknownNameError: No agent has this name.
    """
    if not isinstance(spec, str):
        raise AgentLoadError(
            f"--isolate {isolation.level}: an object cannot be sent to another "
            "process; give the agent as file.py[:attr] or module:attr"
        )
    isolation.check_available()
    source = find_agent(spec, agent_files)
    if isolation.level == "sandbox" and source.files is not None:
        source.files.check_inside()
    described = _describe_agent(source, isolation, dict(agent_args or {}))
    name, revision = _check_name(described.name), described.revision
    if spec not in BUILT_IN_AGENTS:
        revision = None  # only a built-in agent has one
    config = source.describe(name, agent_args or {}, revision)
    return IsolatedAgent(
        name=source.name,
        spec=source.spec,
        entry=make_entry(config),
        factory=_refuse_to_build,
        built_as="",
        agent_args=dict(agent_args or {}),
        files=source.files,
        patterns=source.patterns,
        source=source,
        isolation=isolation,
        is_functional=described.is_functional,
        predicts=described.is_predictor,
    )


def _describe_agent(
    source: AgentSource, isolation: Isolation, agent_args: dict[str, Any]
) -> channel.Described:
    process = AgentProcess(source, agent_args, isolation, AgentOutput())
    try:
        reply = process.ask(channel.Import())
        if not isinstance(reply, channel.Described):
            raise process.refuse(reply)
    except AgentError as error:
        raise AgentLoadError(f"agent {source.spec}: {error}") from error
    finally:
        process.close()
    return reply


def _check_name(name: str) -> str:
    if name.isprintable() and len(name) <= _LONGEST_NAME:
        return name
    raise AgentLoadError(
        f"agent: expected a printable name of at most {_LONGEST_NAME} characters, "
        f"found {show_value(name)}"
    )


def _refuse_to_build(*args: object, **kwargs: object) -> Any:
    raise AssertionError("an isolated agent is built in its own process")
