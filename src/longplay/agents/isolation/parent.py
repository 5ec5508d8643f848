"""The referee's side of an agent's process: starts it, sends requests, ends it.

The process gets the agent's files in its own folder, two pipes and the shared memory.
However it dies, the keeper reports its exit status to the referee, and when `close`
returns, none of its descendants is alive.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

from longplay.agents.closure import AgentFiles
from longplay.agents.isolation import channel
from longplay.agents.isolation.child import BOOT, Setup
from longplay.agents.isolation.landlock import set_dumpable
from longplay.agents.isolation.levels import Isolation
from longplay.agents.isolation.sandbox import list_rules
from longplay.agents.isolation.server import FILES_FOLDER
from longplay.agents.loading import AgentSource
from longplay.agents.output import AgentOutput
from longplay.errors import (
    AgentError,
    AgentLoadError,
    LongplayError,
    RemoteError,
)

_HOME_FOLDER = "home"
_CACHE_FOLDER = "cache"
_SETUP_FILE = "setup.json"
_NATIVE_OUTPUT = "native_output.txt"
_LONGEST_NATIVE_OUTPUT_BYTES = 1 << 20
# Time limit for a keeper to report, and to clean up.
_KEEPER_S = 30.0
# How often to check whether another core is free.
_LOOK_S = 1.0
_OWN_ERRORS: Mapping[str, type[LongplayError]] = {
    "AgentError": AgentError,
    "AgentLoadError": AgentLoadError,
    "LongplayError": LongplayError,
}


class AgentProcess:
    """A process that runs an agent.

    Args:
        source: Where the agent is.
        agent_args: Arguments it is built with.
        isolation: How it is isolated from the referee.
        output: Receives what the agent prints.
    """

    def __init__(
        self,
        source: AgentSource,
        agent_args: Mapping[str, Any],
        isolation: Isolation,
        output: AgentOutput,
    ) -> None:
        self._isolation = isolation
        self._output = output
        self._spin = _SpinGauge()
        # The percept of the last batch at which the agent failed.
        self.failed_percept_idx = 0
        self.folder = Path(tempfile.mkdtemp(prefix="longplay-agent-"))
        self.frames = channel.FrameWriter()
        # Other processes of this user must not read the referee's memory.
        set_dumpable(False)
        self._start(source, agent_args)

    def _start(self, source: AgentSource, agent_args: Mapping[str, Any]) -> None:
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        lifeline, self._lifeline = os.pipe()
        self._status, status = os.pipe()
        given = (requests, replies, self.frames.fd, lifeline, status)
        fds = [self._requests, self._replies, self._lifeline, self._status]
        # If this object is garbage-collected, the keeper sees the pipes close.
        self._finalizer = weakref.finalize(self, _clean_up, fds, self.folder)
        try:
            setup = self._make_setup(source, agent_args, given)
            self._popen = self._spawn(setup, given)
        except BaseException:
            self._finalizer()
            self.frames.close()
            raise
        finally:
            for fd in (requests, replies, lifeline, status):
                os.close(fd)
        self._reader = channel.MessageReader[channel.Reply](
            self._replies, channel.Reply, channel.LARGEST_REPLY_BYTES, self._status
        )

    def _make_setup(
        self,
        source: AgentSource,
        agent_args: Mapping[str, Any],
        given: tuple[int, int, int, int, int],
    ) -> Setup:
        files = source.files
        self._fill_folder(files)
        self._numba_cache = self.folder / _CACHE_FOLDER
        if not self._isolation.has_new_cache:
            self._numba_cache = _find_numba_cache(files)
        self._numba_cache.mkdir(parents=True, exist_ok=True)
        requests, replies, frames, lifeline, status = given
        sys_path = list_sys_path()
        rules: list[tuple[str, str]] | None = None
        if self._isolation.level == "sandbox":
            self._isolation.check_available()
            writable = (self.folder, self._numba_cache)
            rules = [*list_rules(sys_path, writable, self._isolation.allowed)]
        return Setup(
            sys_path=sys_path,
            requests=requests,
            replies=replies,
            frames=frames,
            lifeline=lifeline,
            status=status,
            folder=str(self.folder),
            rules=rules,
            source={
                "name": source.name,
                "spec": source.spec,
                "module": source.module,
                "attribute": source.attribute,
                "file": source.file,
            },
            files=[file.path for file in files.files] if files else None,
            modules=dict(files.modules) if files else {},
            namespaces=dict(files.namespaces) if files else {},
            unlisted=files.list_unlisted() if files else [],
            agent_args=dict(agent_args),
            memory_bytes=self._isolation.memory_bytes,
        )

    def _fill_folder(self, files: AgentFiles | None) -> None:
        (self.folder / _HOME_FOLDER).mkdir()
        for file in files.files if files else ():
            target = self.folder / FILES_FOLDER / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            assert files is not None
            if file.source is not None:
                target.write_bytes(file.source)
            else:
                _copy_checked(files.root / file.path, target, file.sha256)

    def _spawn(self, setup: Setup, fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
        setup_file = self.folder / _SETUP_FILE
        setup_file.write_text(_to_json(setup), encoding="utf-8")
        home = self.folder / _HOME_FOLDER
        own = {
            "HOME": str(home),
            "TMPDIR": str(home),
            "NUMBA_CACHE_DIR": str(self._numba_cache),
        }
        with (self.folder / _NATIVE_OUTPUT).open("wb") as native:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", BOOT, str(setup_file)],
                stdin=subprocess.DEVNULL,
                stdout=native,
                stderr=native,
                pass_fds=fds,
                cwd=home,
                env=self._isolation.make_environment(own),
                start_new_session=True,
            )

    def ask(
        self,
        request: channel.Request,
        timeout_s: float | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> channel.Reply:
        """Sends a request and waits for the reply.

        Args:
            request: The request.
            timeout_s: How long to wait; None to wait until the process ends.
            meanwhile: Work to do before waiting.

        Raises:
            AgentError: The process died, timed out or sent an invalid message.
            AgentLoadError, RemoteError: The agent raised.
        """
        if not self.is_open:  # its descriptors may belong to other files by now
            raise AgentError("the agent's process has ended")
        with contextlib.suppress(BrokenPipeError):
            channel.send_message(self._requests, request)
        deadline_s = None if timeout_s is None else monotonic() + timeout_s
        if meanwhile is not None:
            meanwhile()
        while True:
            try:
                reply = self._reader.read(self.spin_s, deadline_s)
            except TimeoutError:
                self.close()
                raise AgentError(
                    f"the agent took more than {timeout_s:g} s to answer "
                    "(--step-timeout)"
                ) from None
            except AgentError:
                self.close()
                raise
            if reply is None:
                raise AgentError(self._describe_end())
            if not isinstance(reply, channel.Output):
                break
            self._output.write(reply.text)
        if isinstance(reply, channel.Failure):
            self.failed_percept_idx = reply.percept
            raise_failure(reply)
        return reply

    @property
    def spin_s(self) -> float:
        """How long to poll for the other side before waiting."""
        return self._spin.seconds()

    def refuse(self, reply: channel.Reply) -> AgentError:
        """Ends a process that sent an unexpected reply; returns the error."""
        self.close()
        name = type(reply).__name__
        return AgentError(f"the agent's process sent an unexpected {name}")

    @property
    def is_open(self) -> bool:
        """Whether the process accepts requests."""
        return self._finalizer.alive

    def _describe_end(self) -> str:
        """Describes how the process died."""
        report = self._wait_for_report()
        native = self._read_native_output()
        self.close()
        last = native.strip().rpartition("\n")[2][:200]
        return describe_status(report, self._isolation) + (f": {last}" if last else "")

    def _wait_for_report(self) -> dict[str, Any] | None:
        """The keeper's report of how the agent ended; None if there is none."""
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        if not poll.poll(_KEEPER_S * 1000):
            return None  # the agent closed its pipe but is still alive
        text = os.read(self._status, 4096)
        return json.loads(text) if text else None

    def _read_native_output(self) -> str:
        """The beginning of what compiled code and subprocesses printed."""
        path = self.folder / _NATIVE_OUTPUT
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return ""
        with os.fdopen(fd, "rb") as file:
            content = file.read(_LONGEST_NATIVE_OUTPUT_BYTES)
        return content.decode("utf-8", "backslashreplace")

    def close(self) -> None:
        """Ends the process and all its descendants; does nothing the second time."""
        if not self._finalizer.alive:
            return
        # Tells the keeper that the referee is alive and will clean up. The keeper kills
        # all descendants and ends.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._lifeline, b".")
        os.close(self._lifeline)
        try:
            self._popen.wait(_KEEPER_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._output.write(self._read_native_output())
        self._finalizer.detach()
        _clean_up([self._requests, self._replies, self._status], self.folder)
        self.frames.close()


def _find_numba_cache(files: AgentFiles | None) -> Path:
    """A cache of compiled code that is kept between runs, one for each agent."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = "longplay" if files is None else files.sha256[:16]
    return Path(base) / "longplay" / "numba" / name


def list_sys_path() -> list[str]:
    """The referee's search path without its working directory."""
    entries = dict.fromkeys(str(Path(entry).resolve()) for entry in sys.path if entry)
    here = str(Path.cwd())
    return [
        entry
        for entry in entries
        if entry != here or (Path(entry) / "longplay").is_dir()
    ]


class _SpinGauge:
    """Decides how long to poll: not at all unless a core is free for the other side."""

    def __init__(self) -> None:
        self._cores = len(os.sched_getaffinity(0))
        self._next_look_s = 0.0
        self._spin_s = 0.0

    def seconds(self) -> float:
        now_s = monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + _LOOK_S
            self._spin_s = channel.SPIN_S if self._has_free_core() else 0.0
        return self._spin_s

    def _has_free_core(self) -> bool:
        try:
            text = Path("/proc/loadavg").read_text(encoding="ascii")
            running = int(text.split()[3].partition("/")[0])
        except (OSError, ValueError, IndexError):
            return False
        # `running` includes this process and the agent's.
        return self._cores > 1 and running <= self._cores


def describe_status(report: Mapping[str, Any] | None, isolation: Isolation) -> str:
    """Describes how an agent's process ended."""
    if report is None:
        return "the agent's process closed its pipe"
    if report["memory_bytes"] is not None:
        limit = isolation.memory_bytes or 0
        return (
            f"the agent's process was stopped: it used {report['memory_bytes']:,} "
            f"bytes of memory, more than the {limit:,} of --agent-memory"
        )
    status = report["status"]
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return f"the agent's process was killed by {name}"
    return f"the agent's process ended with exit status {os.WEXITSTATUS(status)}"


def raise_failure(failure: channel.Failure) -> NoReturn:
    """Raises the agent's exception under its own class name."""
    if kind := _OWN_ERRORS.get(failure.kind):
        cause = None
        if failure.cause is not None:
            cause = RemoteError.make(failure.cause, "", "", failure.traceback)
        raise kind(failure.message) from cause
    raise RemoteError.make(
        failure.type_name, failure.message, failure.description, failure.traceback
    )


def _to_json(setup: Setup) -> str:
    return json.dumps(dataclasses.asdict(setup))


def _copy_checked(source: Path, target: Path, sha256: str) -> None:
    """Copies a file of the agent, and checks that it is unchanged."""
    digest = hashlib.sha256()
    with source.open("rb") as read, target.open("wb") as written:
        while chunk := read.read(1 << 20):
            digest.update(chunk)
            written.write(chunk)
    if digest.hexdigest() != sha256:
        raise AgentLoadError(
            f"agent file {source}: it changed after it was hashed: expected sha256 "
            f"{sha256}, found {digest.hexdigest()}"
        )


def _clean_up(fds: list[int], folder: Path) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
    shutil.rmtree(folder, ignore_errors=True)
