r"""Every console block of README and docs runs as printed.

The blocks of a page run in order, in a scratch folder of that page. It has what a clone
has beside its sources: `.venv`, `examples` and `results`. A code block of the page that
begins with a file's name in a comment (`# my_agent.py`) is written to that file.

    <!-- not run: takes hours -->

above a console block: it is not run. Its `longplay run` is planned with `--dry-run`,
its other longplay commands are parsed, and the examples and results it names exist.

    $ a command, which is run
    > its next line, as after \ at the end of a line
    everything else is output: each line must be printed, whatever clocks say
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from longplay.cli.app import app
from longplay.suites import FIRST_TUNING_SEED

ROOT = Path(__file__).parents[2]
# What a clone has, and pages may use.
CLONE = {
    ".venv": Path(sys.prefix),
    "examples": ROOT / "examples",
    "results": ROOT / "results",
}
LONGEST_S = 600

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+?) -->\n)?"
    r"```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"# ([\w/]+\.(?:py|toml))\n")
# The name of a new folder has a time and random digits.
_CLOCKS = re.compile(r"\d{8}T\d{6}Z\S*|[\d,]+ fps")


@dataclass(frozen=True)
class Block:
    """A block of code of a page; `reason` says why it is not run."""

    language: str
    text: str
    reason: str | None = None

    @property
    def file_name(self) -> str | None:
        """The file that it is the content of."""
        name = _FILE.match(self.text)
        return name and name[1]

    @property
    def commands(self) -> list[str]:
        """Its commands, each as typed, over one or more lines."""
        return [text for text, is_typed in self._parts() if is_typed]

    @property
    def output(self) -> list[str]:
        """Its lines of output."""
        return [text for text, is_typed in self._parts() if not is_typed]

    def _parts(self) -> Iterator[tuple[str, bool]]:
        typed = ""
        for line in self.text.splitlines():
            if typed and (line.startswith("> ") or typed.endswith("\\")):
                typed += "\n" + line.removeprefix("> ")
                continue
            if typed:
                yield typed, True
            typed = line.removeprefix("$ ") if line.startswith("$ ") else ""
            if not typed:
                yield line, False
        if typed:
            yield typed, True


def read_blocks(markdown: str) -> list[Block]:
    """The blocks of code of a page, in order."""
    return [
        Block(found["language"], found["text"], found["reason"])
        for found in _BLOCK.finditer(markdown)
    ]


PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
WITH_COMMANDS = [name for name, text in PAGES.items() if "```console" in text]
# Pages whose commands take seconds; `make test-all` runs those of all.
SHORT_PAGES = ("docs/index.md",)


@pytest.mark.parametrize("page", PAGES)
def test_every_console_block_and_every_mark_is_found(page: str) -> None:
    blocks = [b for b in read_blocks(PAGES[page]) if b.language == "console"]
    assert PAGES[page].count("```console") == len(blocks)
    assert all(block.commands for block in blocks)
    marked = [block for block in blocks if block.reason]
    assert PAGES[page].count("<!-- not run") == len(marked)


@pytest.mark.skipif(shutil.which("bash") is None, reason="the blocks are for bash")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(p, marks=() if p in SHORT_PAGES else pytest.mark.exhaustive)
        for p in WITH_COMMANDS
    ],
)
def test_console_blocks_run_as_printed(
    page: str, tmp_path: Path, invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, target in CLONE.items():
        (tmp_path / name).symlink_to(target)
    monkeypatch.chdir(tmp_path)
    for block in read_blocks(PAGES[page]):
        if block.file_name:
            Path(block.file_name).parent.mkdir(exist_ok=True)
            Path(block.file_name).write_text(block.text, encoding="utf-8")
        elif block.language == "console" and block.reason:
            check_commands(block, invoke)
        elif block.language == "console":
            run_block(block)
    assert list(find_official_runs(tmp_path)) == []


def run_block(block: Block) -> None:
    """Runs the commands in one shell, which ends at the first that fails."""
    script = "\n".join(block.commands)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env={**os.environ, "PATH": path, "LONGPLAY_CACHE": str(Path.cwd() / "cache")},
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    told = f"{script}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, told
    printed = [hide_clocks(line) for line in done.stdout.splitlines()]
    missing = [line for line in block.output if hide_clocks(line) not in printed]
    assert missing == [], told


def hide_clocks(line: str) -> str:
    return _CLOCKS.sub("…", line).rstrip()


def check_commands(block: Block, invoke: Callable) -> None:
    """What can be known of commands without running them."""
    for command in block.commands:
        words = shlex.split(command.replace("\\\n", " "), comments=True)
        named = [word for word in words if word.startswith(("results/", "examples/"))]
        assert [word for word in named if not Path(word).exists()] == []
        if words[:2] == ["longplay", "run"]:
            answer = invoke(*words[1:], "--dry-run")
            assert answer.exit_code == 0, f"{command}\n{answer.stdout}{answer.stderr}"
        elif words[0] == "longplay":
            parse_command(words[1:])


def parse_command(words: list[str]) -> None:
    """Raises if there is no such command, option or argument; runs nothing."""
    command, name, context = get_command(app), "longplay", None
    while isinstance(command, TyperGroup):
        context = command.make_context(name, words, parent=context)
        name, command, words = command.resolve_command(context, words)
    command.make_context(name, words, parent=context)


def find_official_runs(folder: Path) -> Iterator[Path]:
    """Runs that are not played on tuning seeds."""
    for config in folder.glob("runs/**/config.json"):
        if json.loads(config.read_bytes())["seed"] < FIRST_TUNING_SEED:
            yield config


def test_commands_and_output_are_told_apart() -> None:
    text = "$ first \\\n    --option\nprinted\n$ for x in 1; do\n>   $x\n> done\n"
    block = Block("console", text)
    assert block.commands == ["first \\\n    --option", "for x in 1; do\n  $x\ndone"]
    assert block.output == ["printed"]


def test_marked_block_with_an_unknown_option_fails(invoke: Callable) -> None:
    block = Block("console", "$ longplay verify runs --fast\n", "takes long")
    with pytest.raises(Exception, match="--fast"):
        check_commands(block, invoke)


def test_block_that_prints_something_else_fails() -> None:
    run_block(Block("console", "$ echo 12,345 fps\n1 fps\n"))
    with pytest.raises(AssertionError, match="exit code 0"):
        run_block(Block("console", "$ echo one\ntwo\n"))
    with pytest.raises(AssertionError, match="exit code 1"):
        run_block(Block("console", "$ false\n$ echo\n"))
