"""Every error longplay raises on purpose.

Each message says what was expected, what was found, where, and what to do.
`exit_code` is what the command line answers with: 2 for a request that cannot be
meant, 1 for a run that failed or a directory with findings, 75 for a run that waits to
be resumed, 130 for Ctrl-C.

    LongplayError
    ├── ConfigError                a setting of the wrong type or out of range
    │   └── UnknownNameError       a suite, game or agent nobody knows
    ├── AgentLoadError             an agent that cannot be imported or built
    ├── OutputError                an output folder that exists, a disk too small
    ├── NotARunError               a folder that is no experiment and no run
    ├── DocumentError              a file of a run directory that cannot be read
    ├── IncompleteRunError         a score asked of a run that has not ended
    ├── DifferenceError            a log that comes out otherwise when played again
    ├── CannotVerifyError          a run that cannot be played here
    ├── PackError                  a pack that is damaged, or more than a pack
    ├── MissingExtraError          an optional package that is not installed
    ├── ReferenceFailed            the making of a reference, given up
    ├── ResumeError                a run that cannot go on; nothing was changed
    ├── RunCancelled               Ctrl-C
    ├── RunPreempted               SIGTERM or SIGUSR1: to be queued again
    └── RunFailed                  a run that had begun and could not go on
        ├── AgentError             the agent raised, or its answer is no action
        ├── ConsoleError           the emulator was asked for what it cannot do
        └── RecordingError         the disk refused a write
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class LongplayError(Exception):
    """The root: catching it catches everything longplay raises on purpose."""

    exit_code = 2
    # Where something was recorded before it happened.
    run_dir: Path | None = None


class ConfigError(LongplayError):
    """A setting of the wrong type or out of range."""


class UnknownNameError(ConfigError):
    """A name that is not in a catalogue."""

    def __init__(
        self, kind: str, name: str, known: Iterable[str], hint: str = ""
    ) -> None:
        known = sorted(known)
        self.matches = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
        message = f"unknown {kind} {name!r}"
        if self.matches:
            message += f"; did you mean {' or '.join(map(repr, self.matches))}?"
        elif len(known) <= 20:
            message += f"; there are {', '.join(known)}"
        super().__init__(f"{message} {hint}".rstrip())


class AgentLoadError(LongplayError):
    """An agent that cannot be imported or built."""


class OutputError(LongplayError):
    """An output folder that cannot be used."""


class NotARunError(LongplayError):
    """A folder that is neither an experiment nor a run."""


class DocumentError(LongplayError):
    """A file of a run directory that is missing or cannot be read."""

    exit_code = 1


class IncompleteRunError(LongplayError):
    """A run that has not played all its frames."""

    exit_code = 1


class RowDifference(NamedTuple):
    """The first row that came out otherwise.

    Attributes:
        file: Name of the row file.
        line: Line in it, from 1.
        frame: The frame it belongs to, by the row that was expected there.
        field: The first field that differs; `row` if the line is none, or says the
            same in another spelling.
        logged: What stands in the file, as JSON; None if nothing does.
        found: What came out, as JSON.
    """

    file: str
    line: int
    frame: int
    field: str
    logged: str | None
    found: str

    def __str__(self) -> str:
        """`events.jsonl:17 reward: logged 1.0, found 0.0 at frame 16`."""
        logged = "nothing" if self.logged is None else self.logged
        return (
            f"{self.file}:{self.line} {self.field}: logged {logged}, "
            f"found {self.found} at frame {self.frame}"
        )


class DifferenceError(LongplayError):
    """A log that comes out otherwise when it is played again."""

    exit_code = 1

    def __init__(self, difference: RowDifference) -> None:
        super().__init__(str(difference))
        self.difference = difference


class CannotVerifyError(LongplayError):
    """A run that cannot be played here: another emulator, references not here."""


class PackError(LongplayError):
    """A pack that cannot be made, or a file that is not a sound one."""

    exit_code = 1


class MissingExtraError(LongplayError):
    """An optional package that is not installed."""


class ReferenceFailed(LongplayError):  # noqa: N818 - as `RunFailed`
    """The making of a reference that was given up."""

    exit_code = 1


class ResumeError(LongplayError):
    """A run that cannot go on from what is on disk; nothing was changed."""

    exit_code = 1


class RunPreempted(LongplayError):  # noqa: N818 - a request, not an error
    """A run that was asked to make room; it waits to be resumed."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h: what cluster schedulers requeue


class RunCancelled(LongplayError):  # noqa: N818 - a request, not an error
    """Somebody asked the run to stop."""

    exit_code = 130


class RunFailed(LongplayError):  # noqa: N818 - reads as the state it leaves behind
    """A run that had begun and could not go on; what it recorded is readable."""

    exit_code = 1


class AgentError(RunFailed):
    """The agent raised, or answered a decision frame with what is no action."""


class ConsoleError(RunFailed):
    """The console was asked for something it cannot do."""


class RecordingError(RunFailed):
    """A write, sync or rename failed."""


class RemoteError(Exception):
    """What an agent raised in a process of its own.

    Its class is made with the name of the one that was raised.
    """

    def __init__(self, message: str, description: str, traceback_text: str) -> None:
        super().__init__(message)
        self.description = description
        self.traceback_text = traceback_text

    @classmethod
    def make(
        cls, type_name: str, message: str, description: str, traceback_text: str
    ) -> RemoteError:
        """An error that is called as the one in the other process was."""
        made: type[RemoteError] = type(type_name, (cls,), {})
        return made(message, description, traceback_text)


_LONGEST_SHOWN = 200


def show_value(value: object) -> str:
    """The `repr` of an object, cut short, even where its `repr` fails."""
    try:
        text = repr(value)
    except Exception:
        text = "an object that cannot be shown"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def escape_controls(text: str) -> str:
    """Text without control characters: a terminal would obey them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def describe_text(text: str) -> str:
    """Text that can be written as UTF-8: lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def describe_value(value: object) -> str:
    """`'text' (str)`, even of an object whose `repr` fails."""
    return f"{show_value(value)} ({type(value).__name__})"


def name_error(error: BaseException) -> str:
    """The class of an error; of one that an agent raised, the agent's own."""
    if isinstance(error, AgentError) and error.__cause__ is not None:
        error = error.__cause__
    return type(error).__name__


def format_traceback(error: BaseException) -> str:
    """The traceback of what an agent raised, here or in a process of its own."""
    if isinstance(error, RemoteError):
        return error.traceback_text
    return "".join(traceback.format_exception(error))


def describe_exception(error: BaseException) -> str:
    """`TypeError: … (my_agent.py:12)`: what somebody else's code raised, and where."""
    if isinstance(error, RemoteError):
        return error.description
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
