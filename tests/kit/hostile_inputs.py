"""Damaged and malicious files, settings and places, with the answer each must get.

`CASES` is the table: a command, what is wrong with its input, and the exit code and
words of the answer. Damage is done to a copy of a small experiment with one run, one
stopped run and one pack.
"""

# The table has one case per line, even if the line is long.
# ruff: noqa: E501
from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import longplay
from longplay.errors import RunFailed
from longplay.verify.pack import pack_run
from longplay.verify.verification import verify_run, write_verification
from playing import play_run

GIB = 2**30
# Far beyond any recursion limit, and small.
DEPTH = 100_000

# Texts that must not become the name of a folder as they are.
HOSTILE_NAMES = [
    "../../outside",
    "..",
    ".",
    "",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "C:\\windows",
    "a:b",
    ".hidden",
    "trailing.",
    "trailing ",
    "NUL",
    "nul.txt",
    "com1",
    "a\0b",
    "a\nb",
    "~",
    "~root",
    "-rf",
    "x" * 300,
    "ünï",
    "quiz:1/try",
]


@dataclass(frozen=True)
class Place:
    """Where a case happens; everything in it may be damaged.

    Attributes:
        folder: The working directory.
        experiment: An experiment with one complete run.
        run: That run.
        stopped: An experiment with one run that stopped after a checkpoint.
        pack: A packed run.
    """

    folder: Path
    experiment: Path
    run: Path
    stopped: Path
    pack: Path

    @property
    def stopped_run(self) -> Path:
        (run,) = self.stopped.glob("episodes/*")
        return run

    def copy(self, folder: Path) -> Place:
        """A copy that may be damaged."""
        shutil.copytree(self.folder, folder)
        moved = (
            folder / path.relative_to(self.folder)
            for path in (self.experiment, self.run, self.stopped, self.pack)
        )
        return Place(folder, *moved)


TINY = {"games": ["pong"], "num_cycles": 1, "base_visit_frames": 300, "jitter_pct": 0.0}
# Fails after a checkpoint, which it can be loaded from.
STOPPING_AGENT = """\
class Agent:
    def __init__(self, num_actions, seed):
        pass
    def step(self, obs_rgb, reward, terminated, truncated, info):
        if info["global_frame_idx"] >= 350:
            raise ValueError("stops here")
        return 0
    def save(self, directory):
        (directory / "state.txt").write_text("nothing")
    def load(self, directory):
        pass
"""


def make_place(folder: Path) -> Place:
    """A complete run, a stopped one and a pack; to be copied."""
    experiment, stopped = folder / "experiment", folder / "stopped"
    run = play_run("stream-smoke-v1", "random", out=experiment, overrides=TINY).run_dir
    write_verification(verify_run(run))
    (run / "agent_output.txt").touch()
    agent = folder / "stopping_agent.py"
    agent.write_text(STOPPING_AGENT)
    with pytest.raises(RunFailed, match="stops here"):
        longplay.run(
            "stream-smoke-v1",
            str(agent),
            out=stopped,
            overrides={**TINY, "num_cycles": 2},
        )
    pack = folder / "packed.longplay"
    pack_run(run, pack)
    (folder / "settings.json").write_text("{}")
    return Place(folder, experiment, run, stopped, pack)


Damage = Callable[[Path], object]


# --- Ways to damage a file ----------------------------------------------------------


def put_fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def put_socket(path: Path) -> None:
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # the address may have 108 bytes
        server.bind(path.name)
        os.chdir(here)


def put_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def link_to(target: str) -> Damage:
    def damage(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return damage


def put_sparse(gib: int) -> Damage:
    def damage(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(gib * GIB)

    return damage


def put_bytes(content: bytes) -> Damage:
    return lambda path: path.write_bytes(content)


def put_doubled_key(path: Path) -> None:
    keys = ",".join(f'"{number}":0' for number in range(150_000))
    path.write_text(f'{{{keys},"7":1}}')


def edit(keys: str, value: Any) -> Damage:
    """Sets a value in a document, at keys like `visits/0/frames`."""

    def damage(path: Path) -> None:
        document = json.loads(path.read_text())
        *parents, last = keys.split("/")
        place: Any = document
        for key in parents:
            place = place[int(key) if isinstance(place, list) else key]
        place[int(last) if isinstance(place, list) else last] = value
        path.write_text(json.dumps(document, indent=2) + "\n")

    return damage


def edit_rows(old: bytes, new: bytes) -> Damage:
    """Changes the first row that has the text."""

    def damage(path: Path) -> None:
        content = path.read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new, 1))

    return damage


fifo, zero, sparse, folder = put_fifo, link_to("/dev/zero"), put_sparse(6), put_folder
deep = put_bytes(b"[" * DEPTH)
deep_object = put_bytes(b'{"a":' * DEPTH)
not_utf8 = put_bytes(b'{"seed": "\xff\xfe"}')
empty = put_bytes(b"")
huge_number = put_bytes(b'{"seed": ' + b"9" * 10_000 + b"}")


# fmt: off
# --- The table ----------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One input and its answer.

    Attributes:
        name: What is wrong.
        prepare: Does it, and returns the command.
        exit_code: The command's exit code.
        words: Part of its answer.
        is_slow: Whether it takes seconds: for `make test-all`.
    """

    name: str
    prepare: Callable[[Place], list[str]]
    exit_code: int
    words: str
    is_slow: bool = False

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def on(where: str, damage: Damage, command: str) -> Callable[[Place], list[str]]:
    """Damages a file, and gives a command; `{run}` and the like are replaced."""

    def prepare(place: Place) -> list[str]:
        damage(Path(fill(where, place)))
        return [fill(word, place) for word in command.split()]

    return prepare


def fill(text: str, place: Place) -> str:
    """Replaces `{run}`, `{experiment}`, … by paths."""
    names = ("run", "experiment", "stopped", "stopped_run", "pack", "folder")
    for name in names:
        text = text.replace(f"{{{name}}}", str(getattr(place, name)))
    return text


def do(command: str, *more: str) -> Callable[[Place], list[str]]:
    """Only a command; words with spaces come after it."""
    return lambda place: [fill(w, place) for w in (*command.split(), *more)]


# File -> a command that reads it, and the exit code for one that cannot be read.
READERS: dict[str, tuple[str, int]] = {
    "{run}/config.json": ("show {run}", 1),
    "{run}/run_summary.json": ("show {run}", 1),
    "{run}/score.json": ("show {run}", 1),
    "{run}/status.json": ("status {run}", 1),
    "{run}/verification.json": ("show {run}", 1),
    "{run}/episode_config.json": ("export {run} --jsonl {folder}/out.jsonl", 1),
    "{run}/episode_record.json": ("export {run} --jsonl {folder}/out.jsonl", 1),
    "{experiment}/experiment_config.json": ("status {experiment}", 1),
    "{experiment}/experiment_record.json": (
        "export {experiment} --jsonl {folder}/out.jsonl",
        1,
    ),
    "{stopped_run}/status.json": (
        "resume {stopped} --agent {folder}/stopping_agent.py",
        1,
    ),
    "{folder}/settings.json": (
        "run stream-smoke-v1 --agent random --config {folder}/settings.json",
        2,
    ),
}
UNREADABLE: dict[str, tuple[Damage, str]] = {
    "a pipe": (fifo, "expected a regular file, found a pipe"),
    "endless zeros": (zero, "expected a regular file, found a device"),
    "6 GiB of nothing": (sparse, "expected at most 268,435,456 bytes, found 6,442,450,944"),
    "a folder": (folder, "folder"),
    "deep lists": (deep, "not readable as JSON"),
    "deep objects": (deep_object, "not readable as JSON"),
    "150,000 keys, one doubled": (put_doubled_key, "key '7' appears twice"),
    "bytes that are not UTF-8": (not_utf8, "not readable as JSON"),
    "nothing in it": (empty, "not readable as JSON"),
    "a number of 10,000 digits": (huge_number, ""),
}  # fmt: skip
DOCUMENTS = [
    Case(f"{where} is {what}", on(where, damage, command), exit_code, words)
    for where, (command, exit_code) in READERS.items()
    for what, (damage, words) in UNREADABLE.items()
    # Unknown numbers are found where the settings are checked, one by one.
    if not (what == "a number of 10,000 digits" and "settings" in where)
    # Without a regular file of this name, a folder is not an experiment.
    if not ("experiment_config" in where and damage in (fifo, zero, folder))
]
DOCUMENTS += [
    Case(f"{where} is no file ({number})", on(where, damage, "status {experiment}"), 2, "expected an experiment directory, with experiment_config.json")
    for where in ["{experiment}/experiment_config.json"]
    for number, damage in enumerate((fifo, zero, folder, put_socket))
]

EVENTS = "{run}/events.jsonl"
ROWS = [
    Case("validate: events are a pipe", on(EVENTS, fifo, "validate {run}"), 1, "missing file"),
    Case("validate: events without end", on(EVENTS, zero, "validate {run}"), 1, "missing file"),
    Case("validate: 12 GiB of events", on(EVENTS, put_sparse(12), "validate {run}"), 1, "expected rows of at most 65,536 bytes"),
    Case("validate: a line of 1 MiB", on(EVENTS, put_bytes(b" " * 2**20 + b"\n"), "validate {run}"), 1, "unreadable line"),
    Case("validate: a deep row", on(EVENTS, put_bytes(b"[" * 60_000 + b"\n"), "validate {run}"), 1, "unreadable line"),
    Case("validate: digests are a pipe", on("{run}/digests.jsonl", fifo, "validate {run}"), 1, "missing file"),
    Case("score: events are a pipe", on(EVENTS, fifo, "score {run}"), 1, "events.jsonl" ),
    Case("score: events without end", on(EVENTS, zero, "score {run}"), 1, "events.jsonl" ),
    Case("score: 12 GiB of events", on(EVENTS, put_sparse(12), "score {run}"), 1, "events.jsonl"),
    Case("score: a deep row", on(EVENTS, put_bytes(b"[" * 60_000 + b"\n"), "score {run}"), 1, "events.jsonl"),
    Case("verify: events are a pipe", on(EVENTS, fifo, "verify {run}"), 1, "events.jsonl" ),
    Case("verify: events without end", on(EVENTS, zero, "verify {run}"), 1, "events.jsonl"),
    Case("verify: 12 GiB of events", on(EVENTS, put_sparse(12), "verify {run}"), 1, "events.jsonl"),
    Case("verify: a deep row", on(EVENTS, edit_rows(b'{"global_frame_idx":7,', b"[" * 60_000), "verify {run}"), 1, "does not reproduce"),
    Case("verify: digests are a pipe", on("{run}/digests.jsonl", fifo, "verify {run}"), 1, "digests.jsonl"),
    Case("pack: events are a pipe", on(EVENTS, fifo, "pack {run} -o {folder}/new.longplay"), 1, "events.jsonl"),
    Case("pack: output without end", on("{run}/agent_output.txt", zero, "pack {run} -o {folder}/new.longplay"), 1, "agent_output.txt"),
    Case("pack: output is a pipe", on("{run}/agent_output.txt", fifo, "pack {run} -o {folder}/new.longplay"), 1, "agent_output.txt"),
    Case("pack: 6 GiB of metrics", on("{run}/metrics.jsonl", sparse, "pack {run} -o {folder}/new.longplay"), 1, "metrics.jsonl"),
    Case("resume: events are a pipe", on("{stopped_run}/events.jsonl", fifo, "resume {stopped} --agent {folder}/stopping_agent.py --quiet"), 1, "events.jsonl"),
    Case("resume: events without end", on("{stopped_run}/events.jsonl", zero, "resume {stopped} --agent {folder}/stopping_agent.py --quiet"), 1, "events.jsonl"),
    Case("resume: 12 GiB of events", on("{stopped_run}/events.jsonl", put_sparse(12), "resume {stopped} --agent {folder}/stopping_agent.py --quiet"), 1, "events.jsonl"),
    Case("resume: 12 GiB of episodes", on("{stopped_run}/episodes.jsonl", put_sparse(12), "resume {stopped} --agent {folder}/stopping_agent.py --quiet"), 1, "episodes.jsonl"),
]

CONFIG, SUMMARY, STATUS = (
    "{run}/config.json",
    "{run}/run_summary.json",
    "{run}/status.json",
)
NUMBERS = [
    Case("validate: visit_frames 2^33", on(CONFIG, edit("schedule/0/visit_frames", 2**33), "validate {run}"), 1, "missing frames"),
    Case("validate: visit_frames 2^40", on(CONFIG, edit("schedule/0/visit_frames", 2**40), "validate {run}"), 1, "missing frames"),
    Case("score: visit_frames 2^33", on(CONFIG, edit("schedule/0/visit_frames", 2**33), "score {run}"), 1, "not complete"),
    Case("score --partial: visit_frames 2^33", on(CONFIG, edit("schedule/0/visit_frames", 2**33), "score --partial {run}"), 0, ""),
    Case("verify: visit_frames 2^33", on(CONFIG, edit("schedule/0/visit_frames", 2**33), "verify {run}"), 1, "frames"),
    Case("show: visit_frames 2^33", on(CONFIG, edit("schedule/0/visit_frames", 2**33), "show {run}"), 0, ""),
    Case("export: visit_frames 2^33", on(CONFIG, edit("schedule/0/visit_frames", 2**33), "export {run} --jsonl {folder}/o"), 1, "config.json schedule"),
    Case("validate: visit_frames 2^70", on(CONFIG, edit("schedule/0/visit_frames", 2**70), "validate {run}"), 1, "schedule.0.visit_frames: "),
    Case("validate: frame_skip 2^40", on(CONFIG, edit("frame_skip", 2**40), "validate {run}"), 1, "frame_skip"),
    Case("verify: frame_skip 2^40", on(CONFIG, edit("frame_skip", 2**40), "verify {run}"), 1, ""),
    Case("validate: delay 2^40", on(CONFIG, edit("delay", 2**40), "validate {run}"), 1, "delay"),
    Case("verify: delay 2^40", on(CONFIG, edit("delay", 2**40), "verify {run}"), 1, ""),
    Case("verify: decision_interval 2^40", on(CONFIG, edit("decision_interval", 2**40), "verify {run}"), 1, ""),
    Case("validate: window_frames 2^40", on(CONFIG, edit("scoring_defaults/window_frames", 2**40), "validate {run}"), 1, "window_frames"),
    Case("score: revisit_frames 2^40", on(CONFIG, edit("scoring_defaults/revisit_frames", 2**40), "score {run}"), 0, ""),
    Case("verify: an emulator seed of 2^70", on(CONFIG, edit("emulator_seeds/0", 2**70), "verify {run}"), 1, "emulator_seeds"),
    Case("verify: an emulator seed of -1", on(CONFIG, edit("emulator_seeds/0", -1), "verify {run}"), 1, "emulator_seeds"),
    Case("verify: default action 17,000", on(CONFIG, edit("default_action_idx", 17_000), "verify {run}"), 1, "default_action_idx"),
    Case("validate: seed 2^70", on(CONFIG, edit("seed", 2**70), "validate {run}"), 1, "seed"),
    Case("status: pid 2^70", on("{stopped_run}/status.json", edit("pid", 2**70), "status {stopped}"), 1, "status.json pid: "),
    Case("status: pid -1", on("{stopped_run}/status.json", edit("pid", -1), "status {stopped}"), 1, "status.json pid: "),
    Case("status: frame 2^70", on(STATUS, edit("frame", 2**70), "status {run}"), 1, "status.json frame: "),
    Case("status: retries 2^70", on(STATUS, edit("retries", 2**70), "status {run}"), 1, "status.json retries: "),
    Case("status: month 99", on(STATUS, edit("heartbeat_utc", "2026-99-01T00:00:00.000Z"), "status {run}"), 1, "expected a valid date and time"),
    Case("validate: month 99", on(SUMMARY, edit("ended_utc", "2026-99-01T00:00:00.000Z"), "validate {run}"), 1, "expected a valid date and time"),
    Case("show: a visit of -1", on(SUMMARY, edit("visits/0/visit_idx", -1), "show {run}"), 1, "visits.0.visit_idx: expected at least 0"),
    Case("validate: a visit of 2^70", on(SUMMARY, edit("visits/0/visit_idx", 2**70), "validate {run}"), 1, "visit_idx"),
    Case("export: a reward of 1e308", on(SUMMARY, edit("visits/0/reward_sum", 1e308), "export {run} --jsonl {folder}/o --level visit"), 1, "from curves.jsonl, found 1e+308"),
    Case("validate: a reward of 1e999", on(EVENTS, edit_rows(b'"reward":0.0', b'"reward":1e999'), "validate {run}"), 1, "unreadable line"),
    Case("validate: an action of 2^70", on(EVENTS, edit_rows(b'"applied_action_idx":', b'"applied_action_idx":1180591620717411303424' ), "validate {run}"), 1, "unreadable line"),
]

SMOKE = "run stream-smoke-v1 --agent random"


def rename_folder(place: Place) -> list[str]:
    """Gives the experiment a name that is not UTF-8."""
    place.experiment.rename(place.folder / "\udcff")
    return ["score", str(place.folder / "\udcff")]


SETTINGS = [
    Case("--set: deep lists", do(f"{SMOKE} --set", "games=" + "[" * 50_000), 2, "--set games: expected a JSON value"),
    Case("--set: NaN", do(f"{SMOKE} --set sticky=NaN"), 2, "sticky"),
    Case("--set: 10,000 digits", do(f"{SMOKE} --set", "delay=" + "9" * 10_000), 2, "delay"),
    Case("--set: a key twice", do(f"{SMOKE} --set", 'games={"a":1,"a":2}'), 2, "games"),
    Case("--set: visits of 2^40 frames", do(f"{SMOKE} --set base_visit_frames=1099511627776"), 2, "base_visit_frames: expected at most"),
    Case("--set: 2^40 cycles", do(f"{SMOKE} --set num_cycles=1099511627776"), 2, "num_cycles"),
    Case("--set: a delay of 2^40", do(f"{SMOKE} --set delay=1099511627776 --dry-run"), 2, "delay"),
    Case("--agent-arg: deep lists", do(f"{SMOKE} --agent-arg", "a=" + "[" * 50_000), 2, ""),
    Case("--agent-arg: a name of 300 letters", do(f"{SMOKE} --out x --agent-arg", "a" * 300 + "=1"), 2, "random"),
    Case("--agent: a name of 300 letters", do("run stream-smoke-v1 --agent", "a" * 300 + ".py"), 2, "File name too long"),
    Case("--agent: a path of 5,000 letters", do("run stream-smoke-v1 --agent", "a" * 5_000 + ".py"), 2, "File name too long"),
    Case("--agent: a pipe", on("{folder}/agent.py", fifo, "run stream-smoke-v1 --agent {folder}/agent.py"), 2, "agent.py"),
    Case("--agent: endless zeros", on("{folder}/agent.py", zero, "run stream-smoke-v1 --agent {folder}/agent.py"), 2, "agent.py"),
    Case("--agent: 6 GiB", on("{folder}/agent.py", sparse, "run stream-smoke-v1 --agent {folder}/agent.py" ), 2, "agent.py"),
    Case("--agent: deep source", on("{folder}/agent.py", put_bytes(b"(" * 50_000), "run stream-smoke-v1 --agent {folder}/agent.py"), 2, "agent.py"),
    Case("--config: deep TOML", on("{folder}/a.toml", put_bytes(b"a = " + b"[" * 50_000), f"{SMOKE} --config {{folder}}/a.toml"), 2, "--config"),
    Case("--config: TOML from a pipe", on("{folder}/a.toml", fifo, f"{SMOKE} --config {{folder}}/a.toml"), 2, "expected a regular file, found a pipe"),
    Case("--config: endless TOML", on("{folder}/a.toml", zero, f"{SMOKE} --config {{folder}}/a.toml"), 2, "expected a regular file, found a device"),
    Case("--config: 6 GiB of TOML", on("{folder}/a.toml", sparse, f"{SMOKE} --config {{folder}}/a.toml"), 2, "expected at most"),
    Case("--config: TOML that is not UTF-8", on("{folder}/a.toml", not_utf8, f"{SMOKE} --config {{folder}}/a.toml"), 2, "--config"),
    Case("--config: a folder", do(f"{SMOKE} --config {{folder}}"), 2, "expected a file ending in .toml or .json"),
    Case("--seeds: 10,000 digits", do(f"{SMOKE} --seeds", "9" * 10_000), 2, "--seeds"),
    Case("--seeds: too many", do(f"{SMOKE} --seeds 0-2147483647"), 2, "--seeds"),
    Case("--seeds: too many in parts", do(f"{SMOKE} --seeds", ",".join(f"{n}00000-{n}99999" for n in range(1, 40))), 2, "--seeds"),
    Case("--out: a name of 300 letters", do(f"{SMOKE} --out", "a" * 300), 2, "File name too long"),
    Case("--out: a path of 5,000 letters", do(f"{SMOKE} --out", "a/" * 2_500), 2, "too long"),
    Case("--out: a file in between", on("{folder}/file", empty, f"{SMOKE} --out {{folder}}/file/out"), 2, "not a writable folder"),
    Case("--out: a link to nowhere", on("{folder}/out", link_to("nowhere"), f"{SMOKE} --out {{folder}}/out"), 2, "symbolic link"),
    Case("--out: a read-only place", do(f"{SMOKE} --out /proc/longplay"), 2, "/proc"),
    Case("--jsonl: a read-only place", do("export {run} --jsonl /proc/longplay.jsonl"), 1, "cannot write /proc/longplay.jsonl"),
    Case("score --output: a read-only place", do("score {run} --output /proc/longplay.json"), 1, "cannot write /proc/longplay.json"),
    Case("pack -o: a read-only place", do("pack {run} -o /proc/x.longplay"), 1, "cannot write /proc/x.longplay"),
    Case("unpack -o: a read-only place", do("unpack {pack} -o /proc/x"), 2, "/proc: the run takes"),
    Case("a path that is not UTF-8", do("validate", "{folder}/\udcff\udcfe"), 2, "no such folder"),
    Case("--out: a path that is not UTF-8", do(f"{SMOKE} --out", "{folder}/\udcff"), 2, "expected a path in UTF-8"),
    Case("score: a path that is not UTF-8", rename_folder, 0, "seed 0"),
    Case("a path that is not UTF-8, as JSON", do("validate --json", "{folder}/\udcff\udcfe"), 2, "no such folder"),
    Case("a path with control characters", do("validate", "{folder}/\x1b[31mred\x9b"), 2, "\\x1b[31mred\\x9b"),
    Case("a path of 300 letters", do("validate", "{folder}/" + "a" * 300), 2, "File name too long"),
    Case("a path of 5,000 letters", do("show", "{folder}/" + "a/" * 2_500), 2, "File name too long"),
]


RESUME = "resume {stopped} --agent {folder}/stopping_agent.py --quiet"


def link_archive(place: Place) -> list[str]:
    """Links the archive, where `retry` puts a run that it starts again."""
    shutil.rmtree(place.stopped_run / "checkpoint")
    (place.folder / "elsewhere").mkdir()
    (place.stopped / "archive").symlink_to("../elsewhere")
    agent = str(place.folder / "stopping_agent.py")
    return ["retry", str(place.stopped), "--agent", agent, "--quiet"]


def link_run(place: Place) -> list[str]:
    """Moves a run out of its experiment, and links it."""
    run = place.stopped_run
    run.rename(place.folder / "elsewhere")
    run.symlink_to(place.folder / "elsewhere")
    return [fill(word, place) for word in RESUME.split()]


OUTPUTS = [
    Case("score over the experiment's plan", do("score {run} --output {experiment}/experiment_config.json"), 2, "is part of the experiment"),
    Case("score over the run's config", do("score {run} --output {run}/config.json"), 2, "is part of the experiment"),
    Case("export over a record", do("export {run} --jsonl {experiment}/experiment_record.json"), 2, "is part of the experiment"),
    Case("export into a run", do("export {experiment} --jsonl {run}/events.jsonl"), 2, "is part of the experiment"),
    Case("export over the lock", do("export {experiment} --jsonl {experiment}/.lock"), 2, "is part of the experiment"),
    Case("export into the archive", do("export {experiment} --jsonl {experiment}/archive/x.jsonl"), 2, "is part of the experiment"),
    Case("compare over a score", do("compare {experiment} -o {run}/score.json"), 2, "is part of the experiment"),
    Case("compare CSV over a score", do("compare {experiment} --csv {run}/score.json"), 2, "is part of the experiment"),
    Case("compare LaTeX over the plan", do("compare {experiment} --latex {experiment}/experiment_config.json"), 2, "is part of the experiment"),
    Case("pack over the events", do("pack {run} -o {run}/events.jsonl"), 2, "events.jsonl"),
    Case("pack into the run", do("pack {run} -o {run}/new.longplay"), 2, "is part of the experiment"),
    Case("pack over a link to nowhere", on("{folder}/p.longplay", link_to("nowhere"), "pack {run} -o {folder}/p.longplay"), 2, "exists"),
    Case("unpack into the run", do("unpack {pack} -o {run}/new"), 2, "is part of the experiment"),
    Case("unpack over a link to nowhere", on("{folder}/out", link_to("nowhere"), "unpack {pack} -o {folder}/out"), 2, "exists"),
    Case("run into a run", do(f"{SMOKE} --out {{run}}/new"), 2, "is part of the experiment"),
    Case("report into the run", do("report {experiment} -o {run}/report"), 2, "is part of the experiment"),
    Case("leaderboard into the run", do("leaderboard {experiment} -o {run}/board"), 2, "is part of the experiment"),
    Case("an archive that is a link", link_archive, 1, "is a symbolic link; longplay does not follow links"),
    Case("a run that is a link", link_run, 1, "is a symbolic link; longplay does not follow links"),
    Case("a template into a run", do("new-agent {run}/agent.py"), 2, "is part of the experiment"),
    Case("a lock that is a link", on("{stopped}/.lock", link_to("../victim"), "resume {stopped} --agent {folder}/stopping_agent.py --quiet"), 2, "symbolic link"),
    Case("a lock that is a pipe", on("{stopped}/.lock", fifo, "resume {stopped} --agent {folder}/stopping_agent.py --quiet"), 2, ".lock"),
    Case("a lock that is a folder", on("{stopped}/.lock", folder, "resume {stopped} --agent {folder}/stopping_agent.py --quiet"), 2, ".lock"),
]

CHECKPOINT = "{stopped_run}/checkpoint"


def on_checkpoint(keys: str, value: Any) -> Callable[[Place], list[str]]:
    """Edits the current checkpoint, and its hash in the pointer."""

    def prepare(place: Place) -> list[str]:
        folder = place.stopped_run / "checkpoint"
        pointer = json.loads((folder / "current.json").read_text())
        path = folder / str(pointer["number"]) / "checkpoint.json"
        edit(keys, value)(path)
        pointer["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        (folder / "current.json").write_text(json.dumps(pointer))
        return [fill(word, place) for word in RESUME.split()]

    return prepare


CHECKPOINTS = [
    Case(f"a checkpoint with {keys} {str(value)[:20]}", on_checkpoint(keys, value), 1, words)
    for keys, value, words in [
        ("stream/visit_idx", -1, "checkpoint.json stream.visit_idx: "),
        ("stream/visit_idx", 7, "checkpoint.json stream.visit_idx: "),
        ("stream/visit_frame_idx", -5, "checkpoint.json stream.visit_frame_idx: "),
        ("stream/visit_frame_idx", 10**9, "checkpoint.json stream.visit_frame_idx: "),
        ("stream/global_frame_idx", 3, "checkpoint.json stream.global_frame_idx: "),
        ("stream/episode_id", -1, "checkpoint.json stream.episode_id: "),
        ("stream/phase", 99, "checkpoint.json stream.phase: "),
        ("stream/decided", 18, "checkpoint.json stream.decided: "),
        ("stream/queue", [1] * 1000, "checkpoint.json stream.queue: "),
        ("recorder/sizes_bytes", {}, "checkpoint.json recorder.sizes_bytes: "),
        ("recorder/sizes_bytes/events.jsonl", -1, "checkpoint.json recorder.sizes_bytes: "),
        ("recorder/chained_bytes", -1, "checkpoint.json recorder.chained_bytes: "),
        ("recorder/chained_bytes", 2**40, "checkpoint.json recorder.chained_bytes: "),
        ("recorder/visit_bytes", -1, "checkpoint.json recorder.visit_bytes: "),
        ("recorder/chain", "zz", "checkpoint.json recorder.chain: "),
        ("recorder/segments", -1, "checkpoint.json recorder.segments: "),
        ("sha256", {}, "checkpoint.json sha256: "),
        ("global_random/python/words", "zz", "checkpoint.json global_random: "),
        ("global_random/numpy/position", 10**6, "checkpoint.json global_random: "),
    ]
]  # fmt: skip

PACKS = [
    Case("show: a pack that is a pipe", on("{pack}", fifo, "show {pack}"), 2, "pack"),
    Case("unpack: a pack that is a pipe", on("{pack}", fifo, "unpack {pack} -o {folder}/x"), 1, "expected a regular file, found a pipe"),
    Case("unpack: a pack without end", on("{pack}", zero, "unpack {pack} -o {folder}/x"), 1, "expected a regular file, found a device"),
    Case("unpack: a pack of 12 GiB", on("{pack}", put_sparse(12), "unpack {pack} -o {folder}/x"), 1, "not a valid pack"),
    Case("unpack: an empty pack", on("{pack}", empty, "unpack {pack} -o {folder}/x"), 1, "not a valid pack"),
    Case("unpack: a folder", do("unpack {run} -o {folder}/x"), 1, "expected a regular file, found a folder"),
    Case("show: an empty pack", on("{pack}", empty, "show {pack}"), 1, "not a valid pack" ),
    Case("compare: a pack that is a pipe", on("{pack}", fifo, "compare {pack}"), 2, "expected a run"),
    Case("compare: a pack of 12 GiB", on("{pack}", put_sparse(12), "compare {pack}"), 2, "not a valid pack"),
    Case("compare: an empty pack", on("{pack}", empty, "compare {pack}"), 2, "not a valid pack"),
]

STUDY = "{folder}/study.toml"
STUDIES = [
    Case(f"study {command}: {what}", on(STUDY, damage, f"study {command} {STUDY}"), 2, words)
    for command in ("run", "status")
    for what, damage, words in [
        ("a pipe", fifo, "expected a regular file, found a pipe"),
        ("endless zeros", zero, "expected a regular file, found a device"),
        ("6 GiB of nothing", sparse, "expected at most"),
        ("deep TOML", put_bytes(b"a = " + b"[" * 50_000), "study.toml: "),
        ("bytes that are not UTF-8", not_utf8, "study.toml: "),
        ("nothing in it", empty, "study.toml: "),
    ]
]

ESC = "\x1b[31m"
MARKUP = [
    Case("a metric named x[/]", on(SUMMARY, edit("visits/0/metrics", {"x[/]": 1.0}), "show {run}"), 0, "x[/]"),
    Case("a metric with an escape", on(SUMMARY, edit("visits/0/metrics", {ESC: 1.0}), "show {run}"), 0, "\\x1b[31m"),
    Case("an error with an escape", on(STATUS, edit("error", {"type": "X", "message": ESC, "frame": 1, "game": None}), "status {run}"), 0, ""),
    Case("an error named [/bold]", on("{stopped_run}/status.json", edit("error/message", "[/bold]"), "status {stopped}"), 0, "[/bold]"),
    Case("a game with an escape", on(CONFIG, edit("games", [f"pong{ESC}"]), "validate {run}"), 1, "\\x1b[31m"),
    Case("a suite with an escape", on(CONFIG, edit("suite", f"s{ESC}[/]"), "show {run}"), 0, "\\x1b[31m[/]"),
    Case("a row with an escape", on(EVENTS, edit_rows(b'"game_id":"pong"', b'"game_id":"\xc2\x9b31m"'), "validate {run}"), 1, ""),
    Case("a lone surrogate in a document", on(STATUS, put_bytes(b'{"state": "\\ud800"}'), "status {run}"), 1, "status.json"),
    Case("a lone surrogate in JSON", on(CONFIG, edit("suite", "\ud800"), "show {run} --json"), 1, "config.json document: Invalid JSON"),
]

FUTURE = "2999-01-01T00:00:00.000Z"


def from_the_future(place: Place) -> list[str]:
    """A run in progress on another host whose clock is wrong."""
    path = place.stopped_run / "status.json"
    status = json.loads(path.read_text())
    changes = {"state": "RUNNING", "host": "elsewhere", "heartbeat_utc": FUTURE}
    path.write_text(json.dumps({**status, **changes, "error": None}))
    return ["status", str(place.stopped)]


def plan_many(command: str) -> Callable[[Place], list[str]]:
    """An experiment that plans 100,000 runs."""

    def prepare(place: Place) -> list[str]:
        path = place.experiment / "experiment_config.json"
        plan = json.loads(path.read_text())
        plan |= {"seeds": list(range(100_000)), "n_tasks": 100_000}
        plan |= {"suite": "stream-smoke-v1"}
        plan["config_given"] |= {"overrides": {}}
        path.write_text(json.dumps(plan))
        return [fill(word, place) for word in command.split()]

    return prepare


MANY = [
    Case("status of 100,000 planned runs", plan_many("status {experiment} --json"), 0, "seed-99999", is_slow=True),
    Case("show 100,000 planned runs", plan_many("show {experiment} --json"), 0, "seed-99999", is_slow=True),
    Case("export 100,000 planned runs", plan_many("export {experiment} --jsonl {folder}/o --partial"), 1, "config.json suite: expected 'stream-smoke-v1'"),
    Case("a heartbeat from the future", from_the_future, 0, "STALE"),
]

CASES = [*DOCUMENTS, *ROWS, *NUMBERS, *SETTINGS, *OUTPUTS, *CHECKPOINTS, *PACKS, *MARKUP, *STUDIES, *MANY]  # fmt: skip
