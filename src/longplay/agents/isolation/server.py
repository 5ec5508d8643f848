"""The agent's process: reads requests, calls the agent and sends its answers.

It runs in the same process as the agent, so nothing here is trusted: even if the agent
changes this module, the referee only reads messages of the channel.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from longplay.agents.global_random import (
    IMPORT_SEED,
    GlobalRandom,
    GlobalRandomState,
)
from longplay.agents.isolation import channel
from longplay.agents.isolation.child import Setup
from longplay.agents.isolation.folders import FILES
from longplay.agents.metrics import check_metrics, check_numbers
from longplay.agents.output import OutputBytes
from longplay.agents.source.closure import AgentFile, AgentFiles
from longplay.agents.source.imports import AgentModules
from longplay.agents.source.loading import (
    AgentSource,
    LoadedAgent,
    assemble_agent,
    import_agent,
    name_of,
    read_revision,
)
from longplay.driver import ActionDriver
from longplay.errors import (
    AgentError,
    AgentLoadError,
    LongplayError,
    describe_exception,
    describe_text,
    show_value,
)

# The content of a folder in which an agent was saved.
SAVED_AGENT, SAVED_RANDOM_STATE = "agent", "global_random.json"
_OPTIONAL = ("metrics", "window_metrics", "usage", "close", "save", "load")
# longplay's own exceptions keep their class on the way to the referee.
_OWN_ERRORS = (AgentError, AgentLoadError, LongplayError)
_STDOUT = 1


class _Output(io.TextIOBase):
    """`sys.stdout` and `sys.stderr`: sends what Python code prints to the referee."""

    def __init__(self, send: Callable[[channel.Reply], None]) -> None:
        self._send = send
        self._pid = os.getpid()
        self._pending: list[str] = []
        self._pending_chars = 0
        self.buffer = OutputBytes(self)

    def writable(self) -> bool:
        """Text can be written."""
        return True

    def fileno(self) -> int:
        """A file, for a subprocess to write to."""
        return _STDOUT

    def write(self, text: str) -> int:
        """Buffers text."""
        if os.getpid() != self._pid:  # a fork of the agent must not use the pipe
            os.write(_STDOUT, describe_text(text).encode())
            return len(text)
        self._pending.append(text)
        self._pending_chars += len(text)
        if self._pending_chars >= channel.OUTPUT_CHARS:
            self.deliver()
        return len(text)

    def deliver(self) -> None:
        """Sends the buffered text."""
        if not self._pending:
            return
        text = "".join(self._pending)
        self._pending, self._pending_chars = [], 0
        for start in range(0, len(text), channel.OUTPUT_CHARS):
            piece = text[start : start + channel.OUTPUT_CHARS]
            self._send(channel.Output(describe_text(piece)))


class AgentServer:
    """Imports, builds and calls one agent."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._lock = threading.Lock()
        self._output = _Output(self._send)
        sys.stdout = sys.stderr = self._output
        self._requests = channel.MessageReader[channel.Request](
            setup.requests, channel.Request, channel.LARGEST_REQUEST_BYTES
        )
        self._frames = channel.FrameReader(setup.frames)
        self._spin_s = 0.0
        self._loaded: LoadedAgent
        self._agent: Any = None
        self._num_actions: int | None = None
        self._percept_idx = 0
        self._lifetime = contextlib.ExitStack()

    def _send(self, reply: channel.Reply) -> None:
        with self._lock:
            channel.send_message(self._setup.replies, reply)

    def serve(self) -> None:
        """Answers requests until the referee closes the pipe."""
        handlers: dict[type, Callable[[Any], channel.Reply]] = {
            channel.Batch: self._step,
            channel.Import: self._import,
            channel.Build: self._build,
            channel.Ask: self._ask,
            channel.Save: self._save,
            channel.Load: self._load,
        }
        while (request := self._requests.read(self._spin_s)) is not None:
            self._percept_idx = 0
            try:
                reply = handlers[type(request)](request)
            except BaseException as error:
                reply = describe_failure(error, self._percept_idx)
            self._output.deliver()
            self._send(reply)

    def _import(self, request: channel.Import) -> channel.Reply:
        setup = self._setup
        files = self._read_files()
        source = AgentSource(**setup.source, files=files)
        is_unlisted = frozenset(setup.unlisted).__contains__
        modules = None if files is None else AgentModules(files, is_unlisted)
        with GlobalRandom(IMPORT_SEED).in_use():
            found = import_agent(source, modules)
        self._loaded = assemble_agent(source, modules, found, setup.agent_args)
        return channel.Described(
            name_of(found),
            self._loaded.module is not None,
            self._loaded.is_predictor,
            read_revision(source, found),
        )

    def _read_files(self) -> AgentFiles | None:
        setup = self._setup
        if setup.files is None:
            return None
        root = Path(setup.folder, FILES)
        files = tuple(AgentFile.read(root, path) for path in setup.files)
        return AgentFiles(root, files, setup.modules, setup.namespaces)

    def _build(self, request: channel.Build) -> channel.Reply:
        self._num_actions = request.num_actions
        # From here on only the agent uses the global generators. It may be built again.
        self._lifetime.close()
        self._lifetime.enter_context(GlobalRandom(request.seed).in_use())
        if request.num_actions is None:
            self._agent = self._loaded.build_predictor(request.seed)
        else:
            self._agent = self._loaded.build(request.seed)
        methods = [n for n in _OPTIONAL if getattr(self._agent, n, None) is not None]
        looks = getattr(self._agent, "looks_between_decisions", True)
        return channel.Built(methods, bool(looks))

    def _step(self, batch: channel.Batch) -> channel.Reply:
        self._spin_s = batch.spin_s
        step, answer = self._agent.step, None
        for index, percept in enumerate(batch.percepts):
            self._percept_idx = index
            slot = percept.slot
            answer = step(
                None if slot is None else self._frames.read(slot),
                percept.reward,
                percept.terminated,
                percept.truncated,
                percept.info,
            )
        if not batch.percepts[-1].info["is_decision_frame"]:
            return channel.Answer(None)
        return pack_answer(answer, self._num_actions)

    def _ask(self, request: channel.Ask) -> channel.Reply:
        returned = getattr(self._agent, request.method)()
        if request.method == "close":
            return channel.Answer(None)
        check = check_numbers if request.method == "usage" else check_metrics
        return channel.Numbers(check(f"{request.method}()", returned))

    def _save(self, request: channel.Save) -> channel.Reply:
        folder = Path(request.directory)
        state = GlobalRandomState.read()
        # The referee has copied what an earlier call left there.
        shutil.rmtree(folder / SAVED_AGENT, ignore_errors=True)
        (folder / SAVED_AGENT).mkdir()
        self._agent.save(folder / SAVED_AGENT)
        state.restore()
        content = msgspec.json.encode(state)
        (folder / SAVED_RANDOM_STATE).write_bytes(content)
        return channel.Answer(None)

    def _load(self, request: channel.Load) -> channel.Reply:
        folder = Path(request.directory)
        self._agent.load(folder / SAVED_AGENT)
        content = (folder / SAVED_RANDOM_STATE).read_bytes()
        msgspec.json.decode(content, type=GlobalRandomState).restore()
        shutil.rmtree(folder, ignore_errors=True)
        return channel.Answer(None)


def pack_answer(answer: object, num_actions: int | None) -> channel.Reply:
    """Packs an answer: the value the stream would read, or its text if invalid.

    Args:
        answer: The answer to a decision frame.
        num_actions: None for a predictor, whose answers are numbers.
    """
    value: int | float | None = None
    if num_actions is None:
        from longplay.reference.driver import read_number

        value = read_number(answer)
    else:
        with contextlib.suppress(AgentError):
            value = ActionDriver().decide(answer, is_first=False)
    if value is not None:
        return channel.Answer(value)
    return channel.OddAnswer(
        describe_text(type(answer).__name__), describe_text(show_value(answer))
    )


def describe_failure(error: BaseException, percept_idx: int) -> channel.Failure:
    """Describes an exception."""
    kinds = [kind.__name__ for kind in _OWN_ERRORS if isinstance(error, kind)]
    shown = error
    if isinstance(error, AgentError) and error.__cause__ is not None:
        shown = error.__cause__
    try:
        message = str(error)
    except Exception:
        message = ""
    return channel.Failure(
        kind=kinds[0] if kinds else "",
        type_name=describe_text(type(error).__name__),
        message=describe_text(message),
        description=describe_text(describe_exception(error)),
        traceback=describe_text("".join(traceback.format_exception(shown))),
        cause=None if shown is error else describe_text(type(shown).__name__),
        percept=percept_idx,
    )
