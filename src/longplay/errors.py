"""Every error longplay raises on purpose.

Each message says what was expected, what was found, where, and what to do.
`exit_code` is the exit code of the command line: 2 for invalid usage, 1 for a run that
failed or a directory with findings, 75 for a run that can be resumed, 130 for Ctrl-C.

    LongplayError
    ├── ConfigError                a setting of the wrong type or out of range
    │   └── UnknownNameError       an unknown suite, game or agent
    ├── AgentLoadError             an agent that cannot be imported or built
    ├── OutputError                an output folder that exists, a disk too small
    ├── NotARunError               a folder that is neither an experiment nor a run
    ├── DocumentError              a file of a run directory that cannot be read
    │   └── ContractVersionError   a run of a contract version that is not known here
    ├── IncompleteRunError         a score requested for an unfinished run
    ├── DifferenceError            a log that does not reproduce
    ├── CannotVerifyError          a run that cannot be replayed here
    ├── PackError                  a pack that is damaged or has extra content
    ├── MissingExtraError          an optional package that is not installed
    ├── ReferenceFailed            a reference that could not be made
    ├── ResumeError                a run that cannot be resumed; nothing was changed
    ├── RunCancelled               Ctrl-C
    ├── RunPreempted               SIGTERM or SIGUSR1: the run should be requeued
    └── RunFailed                  a run that started and could not continue
        ├── AgentError             the agent raised, or returned an invalid action
        ├── ConsoleError           the emulator cannot do what was requested
        └── RecordingError         the disk refused a write
"""

from __future__ import annotations

import difflib
import re
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self


class LongplayError(Exception):
    """The root: catching it catches everything longplay raises on purpose."""

    exit_code = 2
    # The run directory, if the run had recorded anything before the error.
    run_dir: Path | None = None
    # The command that continues what was stopped, if there is one.
    continue_with: str | None = None


class ConfigError(LongplayError):
    """A setting of the wrong type or out of range.

    Attributes:
        option: The option it is about, if callers in Python have it, too. The message
            begins with its name; the command line writes it as `--option`.
    """

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message if option is None else f"{option}: {message}")
        self.option = option


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
            message += f"; expected one of {', '.join(known)}"
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


class ContractVersionError(DocumentError):
    """A run of a contract version that this longplay does not know."""


class IncompleteRunError(LongplayError):
    """A run that has not played all its frames."""

    exit_code = 1


class RowDifference(NamedTuple):
    """The first row that did not reproduce.

    Attributes:
        file: Name of the row file.
        line: Line in it, from 1.
        frame: The frame it belongs to, by the row that was expected there.
        field: The first field that differs; `row` if the line is not a row, or has
            the same values in another spelling.
        logged: The value in the file, as JSON; None if the line is missing.
        found: The reproduced value, as JSON.
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
    """A log that does not reproduce when it is played again."""

    exit_code = 1

    def __init__(self, difference: RowDifference, prefix: str = "") -> None:
        super().__init__(f"{prefix}{difference}")
        self.difference = difference


class CannotVerifyError(LongplayError):
    """A run that cannot be replayed here: other emulator, missing references."""


class PackError(LongplayError):
    """A pack that cannot be made, or a file that is not a valid pack."""

    exit_code = 1


class MissingExtraError(LongplayError):
    """An optional package that is not installed."""

    @classmethod
    def of(cls, need: str, extra: str) -> Self:
        """The error of something that needs an extra of longplay."""
        return cls(
            f"{need}: pip install 'longplay[{extra}]', in a clone "
            f"pip install -e '.[{extra}]'"
        )


class ReferenceFailed(LongplayError):  # noqa: N818 - as `RunFailed`
    """A reference that could not be made."""

    exit_code = 1


class ResumeError(LongplayError):
    """A run that cannot be resumed from disk; nothing was changed."""

    exit_code = 1


class RunPreempted(LongplayError):  # noqa: N818 - a request, not an error
    """A run that was preempted; it can be resumed."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h: what cluster schedulers requeue


class RunCancelled(LongplayError):  # noqa: N818 - a request, not an error
    """A run that the user stopped."""

    exit_code = 130


class RunFailed(LongplayError):  # noqa: N818 - reads as the state it leaves behind
    """A run that started and could not continue; its records are readable."""

    exit_code = 1


class AgentError(RunFailed):
    """The agent raised, or returned an invalid action."""


class ConsoleError(RunFailed):
    """The console cannot do what was requested."""


class RecordingError(RunFailed):
    """A write, sync or rename failed."""


class RemoteError(Exception):
    """An exception that an agent raised in its own process.

    It is raised as a subclass with the name of the original class.
    """

    def __init__(self, message: str, description: str, traceback_text: str) -> None:
        super().__init__(message)
        self.description = description
        self.traceback_text = traceback_text

    @classmethod
    def make(
        cls, type_name: str, message: str, description: str, traceback_text: str
    ) -> RemoteError:
        """An error whose class has the name of the one in the other process."""
        # A class cannot have every name that a process can send.
        name = escape_controls(type_name[:_LONGEST_SHOWN])
        made: type[RemoteError] = type(name, (cls,), {})
        return made(message, description, traceback_text)


_LONGEST_SHOWN = 200


def show_value(value: object) -> str:
    """The `repr` of an object, cut short, even where its `repr` fails."""
    try:
        text = repr(value)
    except Exception:
        text = "an object that cannot be shown"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


# Characters without a shape that `str.isprintable` passes: fillers, joiners and
# variation selectors. With them, two names can look alike.
_SHAPELESS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)


def escape_controls(text: str) -> str:
    """Text whose control, bidi and invisible characters are shown as escapes.

    A terminal would execute them, and a page would show another name.
    """
    if text.isprintable() and not _SHAPELESS.search(text):
        return text
    return "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    is_visible = character.isprintable() and not _SHAPELESS.match(character)
    return character if is_visible else ascii(character)[1:-1]


def escape_lines(text: str) -> str:
    """As `escape_controls`, for text of several lines."""
    return "\n".join(map(escape_controls, text.split("\n")))


def show_name(text: str) -> str:
    """A name as tables and pages show it: escaped, at most 200 characters."""
    shown = escape_controls(text[: _LONGEST_SHOWN + 1])
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[: _LONGEST_SHOWN - 1]}…"


def describe_text(text: str) -> str:
    """Text that can be written as UTF-8: lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def describe_value(value: object) -> str:
    """`'text' (str)`, even for an object whose `repr` fails."""
    return f"{show_value(value)} ({type(value).__name__})"


def name_error(error: BaseException) -> str:
    """The class name of an error; for an AgentError, of what the agent raised."""
    if isinstance(error, AgentError) and error.__cause__ is not None:
        error = error.__cause__
    return type(error).__name__


def format_traceback(error: BaseException) -> str:
    """The traceback of an agent's exception, raised here or in its own process."""
    if isinstance(error, RemoteError):
        return error.traceback_text
    return "".join(traceback.format_exception(error))


def describe_exception(error: BaseException) -> str:
    """`TypeError: … (my_agent.py:12)`: an exception of user code, and its place."""
    if isinstance(error, RemoteError):
        return error.description
    words = f"{type(error).__name__}: {_show_message(error)}"
    return describe_text(words + _describe_place(error))


def _describe_place(error: BaseException) -> str:
    """The innermost line outside of libraries, which is where to look first."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    libraries = tuple(map(sysconfig.get_path, kinds))
    own = [
        frame
        for frame in frames
        # Relative: compiled code, and `<frozen importlib._bootstrap>`.
        if Path(frame.filename).is_absolute()
        and not frame.filename.startswith(libraries)
    ]
    place = (own or frames)[-1]
    return f" ({Path(place.filename).name}:{place.lineno})"


def _show_message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # its __str__ is the agent's code
        return "a message that cannot be shown"
