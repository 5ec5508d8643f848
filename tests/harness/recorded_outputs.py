"""What commands answer about fixed runs, and where it differs from the record.

The answers of a case are what it prints and the files it writes; each lies in
`recorded/`, under the case's name. `play_cases` runs the commands in a new folder:

    golden/       the golden runs, copied, because `score` writes into a run
    results       a link to the shipped packs
    runs/, …      small experiments and a study, which the first cases play

Runs that are played here have clocks, and say which machine and versions played them;
in answers about them (`Case.is_played`) the values of `VARIABLES` are hidden. The path
of the folder is hidden everywhere. Nothing else is: the rest is compared byte for byte.

Commands are called as from a shell, so modules may move without a change here.
"""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any
from unittest.mock import patch

import zstandard
from recorded_cases import CASES, GOLDEN, PACKS, RESULTS, ROOT, Case

from longplay.cli import main

RECORDED = Path(__file__).parent / "recorded"
PACK_SCORES = "packs-score.json"

# Longer answers are compressed.
_PLAIN_BYTES = 10_000
_HIDDEN = "(varies)"
# The last digits of these depend on the machine: LAPACK solves the atlas's equations.
_SOLVED = "atlas/"
_REAL = re.compile(r"-?\d+\.\d{12,}(e-?\d+)?")
# A run that ends before its second heartbeat has none.
_OF_HEARTBEAT = "reward_rate"
# Keys whose values differ between two plays of the same run.
VARIABLES = {
    # clocks
    "fps",
    "wall_time_s",
    "started_utc",
    "ended_utc",
    "heartbeat_utc",
    "verified_utc",
    "timestamp",
    # a number of the last heartbeat; lists are not hidden, so that of a score is not
    _OF_HEARTBEAT,
    # who played, where and with what
    "pid",
    "host",
    "versions",
    "git",
    # hashes of documents that have some of these
    "config_sha256",
    "score_sha256",
    "config.json",
    "run_summary.json",
    "score.json",
    "status.json",
}
# Names of the files of Every Eval Ever.
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
STUDY = """
name = "small"
seeds = [0, 1]

[[agents]]
ref = "repeat"

[[agents]]
ref = "button.py"

[[suites]]
id = "control-smoke-v1"
set = { games = ["breakout"], base_visit_frames = 40 }

[tuning]
fraction = 0.5
seeds = [1000]
metric = "reward_rate"

[tuning.grid.button]
action = [0, 1]
"""
BUTTON = """
class Agent:
    def __init__(self, num_actions, seed, action):
        self.action = action

    def step(self, obs_rgb, reward, terminated, truncated, info):
        return self.action
"""
FINDINGS = {
    "trajectory_id": "control-smoke-v1_seed-1",
    "findings": {"difficulty": "hard", "feasible": True, "failure_root_cause": "slow"},
}


@dataclass
class Answer:
    """What a case answered.

    Attributes:
        problem: What went wrong; empty if the command succeeded.
        texts: Name in `recorded/` -> text.
    """

    problem: str = ""
    texts: dict[str, str] = field(default_factory=dict)


# --- playing ----------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """Lays out what the commands read."""
    (folder / "results").symlink_to(RESULTS)
    shutil.copytree(GOLDEN, folder / "golden")
    # Curves of the packs; a copy, because `compare` adds those of the small runs.
    if (RESULTS / "curves").exists():
        shutil.copytree(RESULTS / "curves", folder / "cache" / "curves")
    shutil.copy(GOLDEN / "predictor.py", folder)
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    (folder / "button.py").write_text(BUTTON, encoding="utf-8")
    text = f"{json.dumps(FINDINGS)}\n"
    (folder / "findings.jsonl").write_text(text, encoding="utf-8")


def play_cases(
    folder: Path, cases: Sequence[Case] = CASES
) -> Iterator[tuple[Case, Answer]]:
    """Runs the commands, in their order."""
    prepare(folder)
    environment = {"LONGPLAY_CACHE": str(folder / "cache"), "COLUMNS": "80"}
    with patch.dict(os.environ, environment), contextlib.chdir(folder):
        for case in cases:
            yield case, answer_case(case, folder)


def answer_case(case: Case, folder: Path) -> Answer:
    """Runs the command of a case, or one for each of its subjects."""
    call = _call_forked if case.is_forked else _call
    answer = Answer()
    printed: dict[str, Any] = {}
    for subject in case.each or ("",):
        words = [word.replace("{}", subject) for word in case.command.split()]
        exit_code, text, errors = call(words)
        if exit_code:
            command = " ".join(["longplay", *words])
            answer.problem = f"`{command}` exited with {exit_code}: {text}{errors}"
            return answer
        printed[subject] = text
    answer.texts = dict(_name_texts(case, printed, folder))
    return answer


def _call(words: list[str]) -> tuple[int, str, str]:
    """Calls a command in this process: (exit code, stdout, stderr)."""
    out, errors = io.StringIO(), io.StringIO()
    exit_code: Any = 0
    with (
        patch.object(sys, "argv", ["longplay", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as ending:
            exit_code = ending.code or 0
    return exit_code, out.getvalue(), errors.getvalue()


def _call_forked(words: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "longplay", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def _name_texts(
    case: Case, printed: dict[str, str], folder: Path
) -> Iterator[tuple[str, str]]:
    """Name in `recorded/` -> text, with what varies hidden."""
    variables = {*case.varies, *(VARIABLES if case.is_played else ())}
    if case.each:
        documents = {name: _parse(text) for name, text in printed.items()}
        printed = {"": _render(documents)}
    ending = "json" if "--json" in case.command.split() else "txt"
    if printed[""]:
        text = _hide_variables(printed[""], ending, variables)
        yield f"{case.name}.{ending}", _hide_names(text, folder)
    for path in sorted(path for one in case.files for path in folder.glob(one)):
        text = path.read_text(encoding="utf-8")
        text = _hide_variables(text, path.suffix[1:], variables)
        name = _UUID.sub("uuid", path.relative_to(folder).as_posix())
        yield f"{case.name}/{name}", _hide_names(text, folder)


def _parse(text: str) -> Any:
    """A document as commands print it; refuses one that `_render` would change."""
    document = json.loads(text)
    if _render(document) != text:
        raise ValueError(f"expected JSON with an indent of 2, found {text[:200]!r}")
    return document


def _parse_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def _render(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _hide_variables(text: str, ending: str, variables: set[str]) -> str:
    if not variables:
        return text
    text = _UUID.sub("uuid", text)
    if ending == "json":
        return _render(_hide(_parse(text), variables))
    if ending == "jsonl":
        lines = _hide(_parse_lines(text), variables)
        return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    return text


def _hide(value: Any, variables: set[str]) -> Any:
    if isinstance(value, str) and value.startswith("{"):  # a document in a document
        return json.dumps(_hide(json.loads(value), variables), ensure_ascii=False)
    if isinstance(value, list):
        return [_hide(item, variables) for item in value]
    if isinstance(value, dict):
        return {
            key: _HIDDEN
            if key in variables and _is_hidden(key, item)
            else _hide(item, variables)
            for key, item in value.items()
        }
    return value


def _is_hidden(key: str, value: Any) -> bool:
    return not isinstance(value, list | None) or (
        value is None and key == _OF_HEARTBEAT
    )


def _hide_names(text: str, folder: Path) -> str:
    """Hides the folder's path, and ids of experiments, which depend on a clock."""
    for path in folder.glob("runs/*/experiment_record.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        text = text.replace(record["experiment_id"], f"id-of-{path.parent.name}")
    return text.replace(f"{folder}/", "")


# --- packs ------------------------------------------------------------------------


def recompute_score(pack: str, run_dir: Path) -> str:
    """Replays a pack and scores the rows: the text of score.json."""
    for words in (
        ["unpack", str(ROOT / pack), "-o", str(run_dir)],
        ["score", str(run_dir)],
    ):
        exit_code, text, errors = _call(words)
        if exit_code:
            raise RuntimeError(f"{pack}: {text}{errors}")
    return (run_dir / "score.json").read_text(encoding="utf-8")


def read_pack_scores() -> str:
    """The text of score.json in every pack, as one document."""
    scores = {}
    for pack in PACKS:
        with tarfile.open(ROOT / pack) as archive:
            member = archive.extractfile("score.json.zst")
            assert member is not None, f"{pack}: expected score.json.zst"
            content = zstandard.ZstdDecompressor().decompressobj()
            scores[pack] = content.decompress(member.read()).decode()
    return _render(scores)


# --- the record -------------------------------------------------------------------


def write_recorded(name: str, text: str) -> Path:
    """Records an answer, compressed if it is long."""
    path, packed = RECORDED / name, RECORDED / f"{name}.xz"
    remove_recorded(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode()
    if len(content) <= _PLAIN_BYTES:
        path.write_bytes(content)
        return path
    packed.write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))
    return packed


def remove_recorded(name: str) -> None:
    """Removes a recorded answer, if there is one."""
    (RECORDED / name).unlink(missing_ok=True)
    (RECORDED / f"{name}.xz").unlink(missing_ok=True)


def read_recorded(name: str) -> str | None:
    """The recorded answer; None if there is none."""
    path, packed = RECORDED / name, RECORDED / f"{name}.xz"
    if path.exists():
        return path.read_bytes().decode()
    return lzma.decompress(packed.read_bytes()).decode() if packed.exists() else None


def list_recorded() -> list[str]:
    """The names of all recorded answers."""
    paths = (path for path in RECORDED.rglob("*") if path.is_file())
    names = (path.relative_to(RECORDED).as_posix() for path in paths)
    return sorted(name.removesuffix(".xz") for name in names)


def check_answers(answer: Answer, name: str) -> None:
    """Fails if a case answers something else than what was recorded of it."""
    assert not answer.problem
    recorded = {one for one in list_recorded() if _name_case(one) == name}
    assert recorded == set(answer.texts), "run `make record`"
    for part, now in answer.texts.items():
        found = find_difference(part, read_recorded(part) or "", now)
        assert found is None, f"recorded/{part}: {found}"


def list_recorded_cases() -> set[str]:
    """The names of the cases that something is recorded of."""
    return {_name_case(name) for name in list_recorded() if name != PACK_SCORES}


def _name_case(recorded: str) -> str:
    return re.split(r"[./]", recorded, maxsplit=1)[0]


def find_difference(name: str, recorded: str, now: str) -> str | None:
    """The first difference of two texts, by its path in a document or its line."""
    if name.startswith(_SOLVED):
        recorded, now = _round_reals(recorded), _round_reals(now)
    if recorded == now:
        return None
    if name.endswith((".json", ".jsonl")):
        parse = json.loads if name.endswith(".json") else _parse_lines
        with contextlib.suppress(json.JSONDecodeError):
            found = _differ(parse(recorded), parse(now), "$")
            if found is not None:
                return found
    pairs = zip_longest(recorded.splitlines(), now.splitlines())
    for number, (old, new) in enumerate(pairs, start=1):
        if old != new:
            return f"line {number}: recorded {old!r}, now {new!r}"
    return "ends of lines"


def _round_reals(text: str) -> str:
    return _REAL.sub(lambda found: f"{float(found[0]):.11g}", text)


def _differ(old: Any, new: Any, where: str) -> str | None:
    if isinstance(old, dict) and isinstance(new, dict):
        if list(old) != list(new):
            gone = [key for key in old if key not in new] or list(old)
            added = [key for key in new if key not in old] or list(new)
            return f"{where}: recorded {', '.join(gone)}, now {', '.join(added)}"
        return _first(_differ(old[key], new[key], f"{where}.{key}") for key in old)
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return f"{where}: recorded {len(old)} items, now {len(new)}"
        pairs = enumerate(zip(old, new, strict=True))
        return _first(_differ(*pair, f"{where}[{index}]") for index, pair in pairs)
    # 1 and 1.0 are equal in Python, and are other bytes.
    if json.dumps(old) != json.dumps(new):
        return f"{where}: recorded {json.dumps(old)}, now {json.dumps(new)}"
    return None


def _first(found: Iterator[str | None]) -> str | None:
    return next((one for one in found if one is not None), None)
