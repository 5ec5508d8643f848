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

from longplay.agents.isolation import channel
from longplay.agents.isolation.child import BOOT, SOURCE_FIELDS, Setup
from longplay.agents.isolation.folders import AgentFolder, remove_tree
from longplay.agents.isolation.landlock import Rule, set_dumpable
from longplay.agents.isolation.levels import Isolation
from longplay.agents.isolation.sandbox import list_rules
from longplay.agents.output import AgentOutput
from longplay.agents.source.closure import AgentFiles
from longplay.agents.source.loading import AgentSource
from longplay.errors import (
    AgentError,
    AgentLoadError,
    LongplayError,
    RemoteError,
)

_SETUP_FILE = "setup.json"
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
        self.folder = AgentFolder(is_on_disk=isolation.memory_bytes is not None)
        # What compiled code and subprocesses print; it has no name to replace.
        with tempfile.TemporaryFile(dir=self.folder.path) as file:
            self._native = os.dup(file.fileno())
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
        pipes = (self._requests, self._replies, self._status)
        self._fds = [*pipes, self._native, *self.folder.fds]
        # If this object is garbage-collected, the keeper sees the pipes close.
        self._finalizer = weakref.finalize(
            self, _clean_up, [*self._fds, self._lifeline], self.folder.path
        )
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
        os.set_blocking(self._requests, False)
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
        self._numba_cache = self._prepare_numba_cache(files)
        requests, replies, frames, lifeline, status = given
        sys_path = list_sys_path()
        rules: list[tuple[str, str]] | None = None
        if self._isolation.level == "sandbox":
            folder = self.folder
            writable = (folder.home, folder.saved, folder.loaded, self._numba_cache)
            own = [Rule(str(path), "rw") for path in writable]
            own.append(Rule(str(folder.files), "r"))
            rules = [*list_rules(sys_path, own, self._isolation.allowed)]
        return Setup(
            sys_path=sys_path,
            requests=requests,
            replies=replies,
            frames=frames,
            lifeline=lifeline,
            status=status,
            folder=str(self.folder.path),
            rules=rules,
            source={name: getattr(source, name) for name in SOURCE_FIELDS},
            files=[file.path for file in files.files] if files else None,
            modules=dict(files.modules) if files else {},
            namespaces=dict(files.namespaces) if files else {},
            unlisted=files.list_unlisted() if files else [],
            agent_args=dict(agent_args),
            memory_bytes=self._isolation.memory_bytes,
        )

    def _prepare_numba_cache(self, files: AgentFiles | None) -> Path:
        """The kept cache for a built-in agent; a copy of it for any other.

        What another agent writes there would be its memory between runs.
        """
        kept, private = _find_numba_cache(), self.folder.cache
        if self._isolation.has_new_cache:
            return private
        if files is None:
            kept.mkdir(parents=True, exist_ok=True)
            return kept
        if kept.is_dir():
            # A file that another process is writing may be gone by now.
            with contextlib.suppress(shutil.Error):
                shutil.copytree(kept, private, dirs_exist_ok=True)
        return private

    def _fill_folder(self, files: AgentFiles | None) -> None:
        for file in files.files if files else ():
            target = self.folder.files / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            assert files is not None
            if file.source is not None:
                target.write_bytes(file.source)
            else:
                _copy_checked(files.root / file.path, target, file.sha256)

    def _spawn(self, setup: Setup, fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
        setup_file = self.folder.path / _SETUP_FILE
        content = json.dumps(dataclasses.asdict(setup))
        setup_file.write_text(content, encoding="utf-8")
        home = self.folder.home
        own = {
            "HOME": str(home),
            "TMPDIR": str(home),
            "NUMBA_CACHE_DIR": str(self._numba_cache),
        }
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", BOOT, str(setup_file)],
            stdin=subprocess.DEVNULL,
            stdout=self._native,
            stderr=self._native,
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
        deadline_s = None if timeout_s is None else monotonic() + timeout_s
        try:
            self._send(request, deadline_s)
            if meanwhile is not None:
                meanwhile()
            reply = self._receive(deadline_s)
        except TimeoutError:
            self.close()
            raise AgentError(
                f"the agent took more than {timeout_s:g} s to answer (--step-timeout)"
            ) from None
        except BaseException:
            # The reply would be taken for that of the next request; also after Ctrl-C.
            self.close()
            raise
        if isinstance(reply, channel.Failure):
            self.failed_percept_idx = reply.percept
            raise_failure(reply)
        return reply

    def _send(self, request: channel.Request, deadline_s: float | None) -> None:
        """Sends a request, before which the agent may have printed only."""
        while early := self._reader.take():
            self._keep_output(early, deadline_s)
        with contextlib.suppress(BrokenPipeError):  # reading finds out why
            channel.send_message(self._requests, request, deadline_s, self._status)

    def _receive(self, deadline_s: float | None) -> channel.Reply:
        while reply := self._reader.read(self.spin_s, deadline_s):
            if isinstance(reply, channel.Output):
                self._keep_output(reply, deadline_s)
            elif self._reader.has_waited or channel.is_empty(self._requests):
                return reply
            else:  # it was there before the agent had read the request
                raise _answered_early(reply)
        raise AgentError(self._describe_end())

    def _keep_output(self, reply: channel.Reply, deadline_s: float | None) -> None:
        """Keeps what the agent printed; without end, that counts as its time."""
        if not isinstance(reply, channel.Output):
            raise _answered_early(reply)
        self._output.write(reply.text)
        if deadline_s is not None and monotonic() > deadline_s:
            raise TimeoutError

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
        # The agent's process uses the same position in the file.
        content = os.pread(self._native, _LONGEST_NATIVE_OUTPUT_BYTES, 0)
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
        _clean_up(self._fds, self.folder.path)
        self.frames.close()


def _find_numba_cache() -> Path:
    """The cache of compiled code that built-in agents keep between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "longplay" / "numba" / "longplay"


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


def _answered_early(reply: channel.Reply) -> AgentError:
    name = type(reply).__name__
    return AgentError(f"the agent's process sent {name} before it was asked")


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
        return f"the agent's process was killed by {_name_signal(os.WTERMSIG(status))}"
    return f"the agent's process ended with exit status {os.WEXITSTATUS(status)}"


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have numbers only
        return f"signal {number}"


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
    remove_tree(folder)
