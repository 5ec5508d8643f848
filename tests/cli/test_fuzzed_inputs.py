"""Mutated documents, rows, packs, studies and records: an answer, never a wrong yes.

Every number is one mutation of one file and one command that reads it. A fixed few run
with every test; `make test-all` runs all.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from command_server import Answer, CommandServer
from fuzzing import mutate
from hostile_inputs import Place, fill, make_place
from longplay.contract.documents import RunSummary
from longplay.contract.rundir import ROW_FILES, has_evidence
from small_study import AGENT, STUDY

LONGEST_S = 20.0
LARGEST_BYTES = 10**9

RUN, EXPERIMENT = "{run}/", "{experiment}/"
OUT = "{folder}/out"
EXPORT = f"export {{experiment}} --jsonl {OUT}.jsonl"
READS_RUN = (
    "show {run}",
    "status {experiment}",
    "validate {run}",
    "score {run}",
    "compare {experiment}",
    EXPORT,
)
# File -> commands that read it. `verify` takes longest.
TARGETS: dict[str, tuple[str, ...]] = {
    f"{RUN}config.json": (*READS_RUN, "verify {run}"),
    f"{RUN}run_summary.json": (*READS_RUN, "verify {run}"),
    f"{RUN}score.json": READS_RUN,
    f"{RUN}status.json": READS_RUN,
    f"{RUN}verification.json": ("show {run}", EXPORT),
    f"{RUN}episode_config.json": ("status {experiment}", EXPORT),
    f"{RUN}episode_record.json": ("compare {experiment}", EXPORT),
    f"{EXPERIMENT}experiment_config.json": (
        *("status {experiment}", "compare {experiment}", "show {experiment}"),
        EXPORT,
    ),
    f"{EXPERIMENT}experiment_record.json": ("show {experiment}", EXPORT),
    **{
        f"{RUN}{name}": ("validate {run}", "score {run}", "compare {run}", EXPORT)
        for name in ROW_FILES
    },
    f"{RUN}events.jsonl": ("validate {run}", "score {run}", "verify {run}"),
    "{pack}": (
        *("show {pack}", "compare {pack}", "verify {pack}"),
        f"unpack {{pack}} -o {OUT}",
        f"leaderboard {{pack}} -o {OUT}",
    ),
    "{folder}/study.toml": ("study run {folder}/study.toml --dry-run",),
    "{folder}/small/study.json": (
        "study status {folder}/small",
        "study show {folder}/small",
    ),
    "{folder}/records.jsonl": (f"atlas {{folder}}/records.jsonl -o {OUT}",),
    "{stopped_run}/checkpoint/current.json": ("status {stopped}",),
}
CASES = [
    (where, command) for where, commands in TARGETS.items() for command in commands
]
MUTATIONS = 5_200
# Every so many mutations one is in the fixed part.
STRIDE = 53


@dataclass
class Fuzzed:
    """Files to be mutated and restored, and a process that reads them."""

    place: Place
    server: CommandServer
    exported: Any
    files: dict[Path, bytes]

    def run(self, command: str) -> Answer:
        words = [fill(word, self.place) for word in command.split()]
        return self.server.run(words, self.place.folder)

    def restore(self) -> None:
        """Undoes the mutation, and what a command wrote."""
        for path in self.place.folder.glob("out*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path, content in self.files.items():
            if path.read_bytes() != content:
                path.write_bytes(content)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    place = make_place(tmp_path_factory.mktemp("fuzzed"))
    (place.folder / "study.toml").write_text(STUDY)
    (place.folder / "button.py").write_text(AGENT)
    server = CommandServer(LONGEST_S)
    fuzzed = Fuzzed(place, server, None, {})
    for command in (
        "export {experiment} --jsonl {folder}/records.jsonl",
        "study run {folder}/study.toml --out {folder}/small --quiet",
        EXPORT,
    ):
        answer = fuzzed.run(command)
        assert answer.exit_code == 0, answer
    fuzzed.exported = read_lines(place.folder / "out.jsonl")
    fuzzed.files = {
        path: path.read_bytes()
        for path in {Path(fill(where, place)) for where in TARGETS}
    }
    yield fuzzed
    server.close()


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def check_number(number: int, fuzzed: Fuzzed) -> None:
    """Mutates a file, runs a command, checks its answer, and restores the file."""
    where, command = CASES[number % len(CASES)]
    path = Path(fill(where, fuzzed.place))
    content = path.read_bytes()
    changed = mutate(content, number, is_json=path.suffix.startswith(".json"))
    try:
        path.write_bytes(changed)
        answer = fuzzed.run(command)
        check_answer(answer, f"{number}: {where}: {command}")
        if answer.exit_code == 0:
            check_acceptance(where, command, content, changed, fuzzed)
    finally:
        fuzzed.restore()


def check_answer(answer: Answer, case: str) -> None:
    assert answer.traceback == "", case
    assert answer.exit_code in (0, 1, 2), (case, answer)
    assert answer.output.strip() or "--dry-run" not in case, case
    assert answer.seconds < LONGEST_S, case
    assert answer.peak_bytes < LARGEST_BYTES, case
    assert not {"\x1b", "\u202e", "\0"} & set(answer.output), case


# What the documents say and no command can check: docs/trust.md lists it.
UNCHECKED = {
    "config.json": {"git", "versions", "rom_md5", "agent_isolation", "agent_files"},
    "run_summary.json": {
        *("wall_time_s", "fps", "started_utc", "ended_utc", "tries", "usage"),
        "agent_states",
    },
    "score.json": set(),
    "status.json": None,
}
UNCHECKED_OF_A_VISIT = {"wall_time_s", "started_utc", "action_names", "metrics"}


def check_acceptance(
    where: str, command: str, content: bytes, changed: bytes, fuzzed: Fuzzed
) -> None:
    """A change that a proof accepts is one that it does not speak about."""
    verb, name = command.split(maxsplit=1)[0], where.rpartition("/")[2]
    if verb in ("unpack", "verify", "validate"):
        allowed = UNCHECKED.get(name, set())
        if allowed is not None:
            keys = find_changed_keys(content, changed)
            if verb == "validate" and name == "run_summary.json":
                keys -= find_removed_evidence(changed)
            assert keys <= allowed
    elif verb == "export":
        found = read_lines(fuzzed.place.folder / "out.jsonl")
        assert list(map(settle, found)) == list(map(settle, fuzzed.exported))


def find_changed_keys(content: bytes, changed: bytes) -> set[str]:
    """The top-level keys whose values differ; `bytes` of other files."""
    try:
        before, after = json.loads(content), json.loads(changed)
    except ValueError:
        return {"bytes"}
    missing = object()
    for document in (before, after):
        drop_unchecked_visits(document)
    return {
        key
        for key in {**before, **after}
        if before.get(key, missing) != after.get(key, missing)
    }


def find_removed_evidence(changed: bytes) -> set[str]:
    """The hashes of a summary that may go, all or some: the run is then claimed."""
    has_all = has_evidence(RunSummary.model_validate_json(changed))
    return set() if has_all else {"rows", "chain_head", "score_sha256"}


def drop_unchecked_visits(document: Any) -> None:
    """Removes what only the agent or the clock says of a visit."""
    visits = document.get("visits") if isinstance(document, dict) else None
    for visit in visits if isinstance(visits, list) else ():
        for name in UNCHECKED_OF_A_VISIT:
            visit.pop(name, None)


def settle(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what changes with any byte of a document, or is only said."""
    evidence = dict(record["evidence"])
    del evidence["config_sha256"]
    assert evidence.pop("trust")["level"] in ("claimed", "replayed")
    # A game has its actions from the emulator, which an export does not need; the
    # others are what someone said of the run later.
    said = dict.fromkeys(("tool_names", "verifier", "findings"))
    return {**record, **said, "evidence": evidence}


@pytest.mark.few(20)
@pytest.mark.parametrize("number", range(0, MUTATIONS, STRIDE))
def test_fuzzed_input(number: int, fuzzed: Fuzzed) -> None:
    check_number(number, fuzzed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("start", range(0, MUTATIONS, 100))
def test_hundred_fuzzed_inputs(start: int, fuzzed: Fuzzed) -> None:
    for number in range(start, start + 100):
        check_number(number, fuzzed)
