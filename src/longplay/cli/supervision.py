"""Two processes for a command that runs agents: one works, the other waits for it.

An agent in the working process can end it at any moment, with any exit status, also
with 0. Therefore the worker reports the end of its command through a pipe. If it ends
without a report, the waiting process marks its runs as FAILED, writes the summary and
the records of their experiments, and exits with 1.

The waiting process passes signals on. If it dies, so does the worker (on Linux).
`--debug` does everything in one process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from longplay.errors import RunFailed

_COMMANDS = ("run", "resume", "retry", "probe", "verify", "study", "check-agent")
_ENDED, _DIRECTORY = b"ended ", b"directory "
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
# Crashes; any other signal is a request to stop.
_CRASHES = (
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGABRT,
    signal.SIGSYS,
)
# Seconds to wait for another process that writes records of the same experiment.
_LOCK_S = 2.0
# In the worker: its process id, and the pipe to the waiting process.
_worker: tuple[int, int] | None = None


def is_supervised(arguments: Sequence[str]) -> bool:
    """Whether a command line runs agents, and not for debugging."""
    return (
        hasattr(os, "fork")
        and len(arguments) > 0
        and arguments[0] in _COMMANDS
        and not {"--debug", "--help", "-h"} & set(arguments)
    )


def announce_directory(directory: Path) -> None:
    """Tells the waiting process which experiment or study this one works on."""
    _report(_DIRECTORY + os.fsencode(directory.absolute()))


def _report(line: bytes) -> None:
    # A fork of the worker by the agent is not the worker.
    if _worker is not None and _worker[0] == os.getpid():
        os.write(_worker[1], line + b"\n")


def run_supervised(command: Callable[[], None], as_json: bool) -> None:
    """Runs a command in a new process, and ends this one as that one ended.

    Only the new process returns, or raises what the command raises.

    Args:
        command: The command.
        as_json: Whether to print errors as JSON.
    """
    global _worker  # noqa: PLW0603 - there is one command per process
    reports, pipe = os.pipe()
    watched = {*_FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    pid = os.fork()
    if pid:
        os.close(pipe)
        _wait_and_exit(pid, reports, as_json)
    os.close(reports)
    _die_with_parent()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _worker = os.getpid(), pipe
    exit_code: object = 1
    try:
        command()
        exit_code = 0
    except SystemExit as ending:
        exit_code = 0 if ending.code is None else ending.code
        raise
    finally:
        # Runs on every exit but a sudden one. What follows is no longer
        # part of the command, such as an exit handler of the agent.
        _report(_ENDED + (b"%d" % exit_code if isinstance(exit_code, int) else b"1"))


def _die_with_parent() -> None:
    if sys.platform == "linux":
        from longplay.agents.isolation.landlock import die_with_parent

        die_with_parent(signal.SIGKILL)


def _wait_and_exit(pid: int, reports: int, as_json: bool) -> NoReturn:
    """Waits for the worker; does not return, because only the worker cleans up."""
    status = _wait(pid)
    lines = _read_reports(reports)
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    if number is not None and number not in _CRASHES:
        with contextlib.suppress(OSError):  # SIGKILL always has its default action
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    reported = [line for line in lines if line.startswith(_ENDED)]
    if number is None and reported:
        os._exit(int(reported[0].removeprefix(_ENDED)))
    ending = f"ended with exit status {os.WEXITSTATUS(status)}"
    if number is not None:
        ending = f"was killed by {signal.Signals(number).name}"
    directories = [line for line in lines if line.startswith(_DIRECTORY)]
    try:
        _fail(pid, ending, directories[-1:], as_json)
    finally:
        sys.stdout.flush()
        os._exit(1)


def _wait(pid: int) -> int:
    """Waits for a process to end, and passes signals on; returns its status."""
    if not hasattr(signal, "sigwaitinfo"):  # macOS
        signal.pthread_sigmask(signal.SIG_UNBLOCK, set(_FORWARDED))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in _FORWARDED[1:]:
            signal.signal(number, lambda received, frame: os.kill(pid, received))
        return os.waitpid(pid, 0)[1]
    while True:
        received = signal.sigwaitinfo({*_FORWARDED, signal.SIGCHLD})
        if received.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status
        elif received.si_code <= 0:  # a terminal's Ctrl-C reaches both processes
            os.kill(pid, received.si_signo)


def _read_reports(fd: int) -> list[bytes]:
    # A process that the agent started may hold the pipe open.
    os.set_blocking(fd, False)
    content = b""
    try:
        while data := os.read(fd, 65536):
            content += data
    except BlockingIOError:
        pass
    return content.split(b"\n")


def _fail(pid: int, ending: str, announced: list[bytes], as_json: bool) -> None:
    """Marks the worker's runs as FAILED, concludes them, and prints the error."""
    from longplay.cli.toolkit import print_error
    from longplay.errors import RunFailed

    error = RunFailed(
        f"the process of this command {ending} before the command was complete; an "
        "agent in it may have called os._exit, or crashed; with --isolate process the "
        "error names the agent"
    )
    for line in announced:
        directory = Path(os.fsdecode(line.removeprefix(_DIRECTORY)))
        for run_dir in _mark_failed(directory, pid, error):
            error.run_dir = run_dir
            _conclude(run_dir)
    print_error(error, as_json)


def _mark_failed(directory: Path, pid: int, error: RunFailed) -> list[Path]:
    """Marks the runs of a process that has ended; returns them."""
    from longplay.runs.status import mark_run, read_status

    marked = []
    for path in directory.rglob("status.json"):
        status = read_status(path.parent)
        if status and status.pid == pid and status.state in ("QUEUED", "RUNNING"):
            mark_run(path.parent, "FAILED", error)
            marked.append(path.parent)
    return marked


def _conclude(run_dir: Path) -> None:
    """Writes the summary and the records of the experiment of a failed run.

    Not while another process holds its lock: that one writes them at its own end.
    """
    from longplay.contract.layout import find_experiment, is_experiment
    from longplay.errors import LongplayError
    from longplay.experiments.conclusion import lock_experiment, write_summary
    from longplay.experiments.experiment import view_runs

    directory = find_experiment(run_dir)
    if not is_experiment(directory):
        return
    # The end of the worker is the error to report.
    with contextlib.suppress(LongplayError), lock_experiment(directory, _LOCK_S):
        write_summary(directory, view_runs(directory))
