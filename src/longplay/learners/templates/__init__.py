"""Templates for new agents: `longplay new-agent FILE --template NAME`.

The simple templates are here, and one in plain PyTorch, which imports nothing of
longplay. The others are the learners themselves: their files import only shared parts
of `longplay.learners`, so a copy runs unchanged and can be edited freely.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from longplay.errors import ConfigError, OutputError, UnknownNameError

_HERE = Path(__file__).parent

# One for each track, by its name, one in PyTorch, and the learners.
TEMPLATES: Mapping[str, Path] = {
    **{path.stem: path for path in sorted(_HERE.glob("[a-z]*.py"))},
    "stream-q": _HERE.parent / "stream_q.py",
    "dqn": _HERE.parent / "dqn.py",
}

# In place of a learner's own command, which plays an official seed.
_FIRST_COMMANDS = """\
    longplay check-agent my_agent.py
    longplay run control-smoke-v1 --agent my_agent.py --seed 1000
    longplay run control-v1 --agent my_agent.py --seed 1000

Seeds from 1000 on are for development, a suite's official seeds for results.
"""


def write_template(name: str, target: Path) -> None:
    """Writes a new agent file.

    Raises:
        UnknownNameError: There is no such template.
        ConfigError: The target is not called `*.py`.
        OutputError: The target exists, or cannot be written.
    """
    if name not in TEMPLATES:
        raise UnknownNameError("template", name, TEMPLATES)
    if target.suffix != ".py":
        raise ConfigError(f"FILE: expected a name that ends with .py, found {target}")
    text = make_own(TEMPLATES[name].read_text(encoding="utf-8"), target.name)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise OutputError(f"{target}: exists; it is not overwritten") from error
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror}") from error


def make_own(text: str, file_name: str) -> str:
    """A learner's file -> a user's file: its own commands, no revision."""
    command = r"^    longplay run \S+ --agent [\w-]+ --seed \d+\n"
    text = re.sub(command, _FIRST_COMMANDS, text, flags=re.M)
    text = re.sub(r"(--agent|check-agent) [\w.-]+", rf"\1 {file_name}", text)
    return re.sub(r"^REVISION = \d+\n\n", "", text, flags=re.M)
