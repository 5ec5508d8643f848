"""Forgeries by families, over all tracks, and how many of them each command catches.

    rows         rewards, lives, ends, actions, visits: consistent lies (`forgery`)
    predictions  those of the agent, and the targets
    documents    settings, totals, scores, states, verifications
    records      what lies beside a run for ATLAS, and lines of an export
    packs        forged runs, packed without the check that `pack` makes

A forger is careful: sums, scores, the chain and all hashes fit the lie. `count_caught`
runs every command on every forgery; docs/generate/forgeries.py writes the table.
"""

# The tables have one lie per line, even if the line is long.
# ruff: noqa: E501
from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from forgery import (
    CONTROL,
    FORGERIES,
    LIVES,
    STREAM,
    TWO_GAMES,
    Forgery,
    read_story,
    rechain,
    tell,
)

from longplay.contract.files import render_document, write_chunks
from longplay.errors import LongplayError
from longplay.eval_log.export import export_jsonl
from longplay.tracks.scores import score_run, write_score
from longplay.validation import validate_run
from longplay.verify import pack
from longplay.verify.archive import render_archive
from longplay.verify.pack_file import MANIFEST, compress, packed_name
from longplay.verify.verification import reexecute, verify_run
from playing import play_run
from rows import Row, read_rows, rehash

PREDICTION = "prediction"
PREDICTOR = str(Path(__file__).parents[2] / "examples" / "prediction_td_lambda.py")
COMMANDS = ("validate", "verify", "reexecute", "export")

_SHORT: dict[str, Any] = {"num_cycles": 1, "jitter_pct": 0.0}
# Source -> suite, agent, settings.
SOURCES: dict[str, tuple[str, str, dict[str, Any]]] = {
    STREAM: ("stream-smoke-v1", "random", {**_SHORT, "games": ["centipede"], "base_visit_frames": 600}),
    LIVES: ("stream-smoke-v1", "random", {**_SHORT, "games": ["asterix"], "base_visit_frames": 900, "delay": 6, "life_loss_termination": True, "full_action_space": False}),
    CONTROL: ("control-smoke-v1", "random", {"games": ["asterix"], "base_visit_frames": 700}),
    TWO_GAMES: ("stream-smoke-v1", "random", {**_SHORT, "games": ["centipede", "qbert"], "base_visit_frames": 300}),
    PREDICTION: ("prediction-smoke-v1", PREDICTOR, {"games": ["breakout"], "base_visit_frames": 300}),
}  # fmt: skip
TRACKS = {
    STREAM: "streaming",
    LIVES: "streaming",
    TWO_GAMES: "streaming",
    CONTROL: "control",
    PREDICTION: "prediction",
}

Forge = Callable[[Path], object]


@dataclass(frozen=True)
class Lie:
    """One forgery.

    Attributes:
        family: Its row in the table.
        name: Describes it.
        source: The genuine run that it changes.
        forge: Does it, to a copy of the run directory in its experiment.
        is_packed: Whether the forged run is passed on as a pack.
    """

    family: str
    name: str
    source: str
    forge: Forge
    is_packed: bool = False

    def __str__(self) -> str:
        return f"{self.family}: {self.source}: {self.name}".replace(" ", "-")


# --- Rows -----------------------------------------------------------------------


def tell_lie(forgery: Forgery) -> Forge:
    """A consistent lie of the table in `forgery`, with a recomputed chain."""

    def forge(run: Path) -> None:
        story = read_story(run)
        forgery.lie(story)
        tell(run, story)
        rechain(run)

    return forge


def edit_rows(edit: Callable[[list[Row]], object]) -> Forge:
    """Changes events, and whatever follows from their rewards."""

    def forge(run: Path) -> None:
        rows = read_rows(run / "events.jsonl")
        edit(rows)
        _write_rows(run / "events.jsonl", rows)
        for name in ("episodes.jsonl", "segments.jsonl"):
            spans = read_rows(run / name)
            for span in spans:
                first, last = (
                    span["start_global_frame_idx"],
                    span["end_global_frame_idx"],
                )
                span["return"] = sum(row["reward"] for row in rows[first : last + 1])
            _write_rows(run / name, spans)
        _sum_up(run, rows)
        write_score(run, score_run(run))
        rechain(run)

    return forge


def _write_rows(path: Path, rows: list[Row]) -> None:
    path.write_bytes(msgspec.json.Encoder().encode_lines(rows))


def _sum_up(run: Path, rows: list[Row]) -> None:
    path = run / "run_summary.json"
    summary = json.loads(path.read_text())
    for visit in summary["visits"]:
        own = [row for row in rows if row["visit_idx"] == visit["visit_idx"]]
        visit["reward_sum"] = sum(row["reward"] for row in own)
        visit["game_reward_sum"] = sum(
            row.get("game_reward", row["reward"]) for row in own
        )
    path.write_text(json.dumps(summary, indent=2) + "\n")


def set_values(at: slice, **values: Any) -> Forge:
    """Sets those values that the track's rows have; a function gets the row."""

    def edit(rows: list[Row]) -> None:
        for row in rows[at]:
            own = {name: value for name, value in values.items() if name in row}
            row.update({k: v(row) if callable(v) else v for k, v in own.items()})

    return edit_rows(edit)


def edit_digests(edit: Callable[[list[Row]], object]) -> Forge:
    def forge(run: Path) -> None:
        digests = read_rows(run / "digests.jsonl")
        edit(digests)
        _write_rows(run / "digests.jsonl", digests)
        rehash(run)

    return forge


ONE = slice(100, 101)
# Changes a reward, delivered and of the game, or what else a row says.
_ROW_LIES: dict[str, Forge] = {
    "a reward added": set_values(ONE, reward=1.0, game_reward=1.0),
    "a reward at the end": set_values(slice(-1, None), reward=1.0, game_reward=1.0),
    "rewards everywhere": set_values(slice(None), reward=1.0, game_reward=1.0),
    "no rewards": set_values(slice(None), reward=0.0, game_reward=0.0),
    "a life more": set_values(ONE, lives=lambda row: row["lives"] + 1),
    "another action": set_values(
        ONE,
        decided_action_idx=lambda row: (row["decided_action_idx"] + 1) % 18,
        applied_action_idx=lambda row: (row["applied_action_idx"] + 1) % 18,
    ),
    "fewer emulator frames": set_values(ONE, emulator_frames=1),
    "another memory": edit_digests(lambda rows: rows[0].update(ram_crc32="00000000")),
    "the last memory": edit_digests(lambda rows: rows[-1].update(ram_crc32="00000000")),
}
_PREDICTION_LIES: dict[str, Forge] = {
    "predictions equal to the targets": set_values(
        slice(None), prediction=lambda row: row["target"]
    ),
    "half of the error": set_values(
        slice(None), prediction=lambda row: (row["prediction"] + row["target"]) / 2
    ),
    "one better prediction": set_values(ONE, prediction=lambda row: row["target"]),
    "predictions from the second half": set_values(
        slice(150, None), prediction=lambda row: row["target"]
    ),
    "targets equal to the predictions": set_values(
        slice(None), target=lambda row: row["prediction"]
    ),
    "one other target": set_values(ONE, target=0.125),
    "all targets doubled": set_values(
        slice(None), target=lambda row: 2 * row["target"]
    ),
    "the last target": set_values(slice(-1, None), target=0.125),
}


# --- Documents ------------------------------------------------------------------


def put(file: str, keys: str, value: Any, *, hashed: bool = True) -> Forge:
    """Sets a value in a document, at keys like `visits/0/frames`."""

    def forge(run: Path) -> None:
        path = run / file
        document = json.loads(path.read_text())
        *parents, last = keys.split("/")
        place: Any = document
        for key in parents:
            place = place[int(key) if isinstance(place, list) else key]
        key = int(last) if isinstance(place, list) else last
        place[key] = value(place[key]) if callable(value) else value
        path.write_text(json.dumps(document, indent=2) + "\n")
        if hashed:
            rehash(run)

    return forge


def in_turn(*forges: Forge) -> Forge:
    def forge(run: Path) -> None:
        for one in forges:
            one(run)

    return forge


def more(value: Any) -> Any:
    return (value or 0) + 1


CONFIG, SUMMARY, SCORE, STATUS = (
    "config.json",
    "run_summary.json",
    "score.json",
    "status.json",
)
HEADLINES = {STREAM: "final_score", CONTROL: "cumulative_reward", PREDICTION: "nmse"}
_DOCUMENT_LIES: dict[str, Forge] = {
    "another emulator seed": put(CONFIG, "emulator_seeds/0", more),
    "a longer visit": put(CONFIG, "schedule/0/visit_frames", more),
    "another seed": put(CONFIG, "seed", more),
    "an official suite": put(CONFIG, "suite", "control-v1"),
    "less sticky": put(CONFIG, "sticky", 0.125),
    "another contract hash": put(CONFIG, "benchmark_contract_hash", "0" * 64),
    "another window": put(CONFIG, "scoring_defaults/window_frames", more),
    "another agent's id": put(CONFIG, "agent/agent_id", "0" * 64),
    "more frames": put(SUMMARY, "frames", more),
    "more decisions": put(SUMMARY, "decision_frames", more),
    "more episodes": put(SUMMARY, "visits/0/episodes", more),
    "more reward in a visit": put(SUMMARY, "visits/0/reward_sum", more),
    "another chain head": put(SUMMARY, "chain_head", "0" * 64),
    "another hash of the score": put(SUMMARY, "score_sha256", "0" * 64, hashed=False),
    "other hashes of the rows": put(SUMMARY, "rows", lambda rows: {n: {**d, "sha256": "0" * 64} for n, d in rows.items()}, hashed=False),
    "a score of another contract": put(SCORE, "benchmark_contract_hash", "0" * 64),
    "more frames scored": put(SCORE, "frames", more),
    "a better game": put(SCORE, "mean_score", more),
    "a run that goes on": put(STATUS, "state", "RUNNING", hashed=False),
    "fewer frames to play": put(STATUS, "frames_total", 1, hashed=False),
}  # fmt: skip


def forge_verification(**changes: Any) -> Forge:
    """Writes a verification that nobody made; the run itself is forged too."""

    def forge(run: Path) -> None:
        from longplay.contract.rundir import RunDirectory

        _ROW_LIES["a reward added"](run)
        record = {
            "level": "re-executed", "method": "re-execution", "passed": True, "first_difference": None,
            "findings": {}, "frames": 1, "sha256": RunDirectory(run).hash_verified_files(), "versions": {},
        }  # fmt: skip
        (run / "verification.json").write_bytes(render_document({**record, **changes}))

    return forge


# --- Records and exports --------------------------------------------------------

RECORD, EXPERIMENT = "episode_record.json", "../../experiment_record.json"
_RECORD_LIES: dict[str, Forge] = {
    "more reward": put(RECORD, "reward", more, hashed=False),
    "success": put(RECORD, "success", lambda found: not found, hashed=False),
    "another task": put(RECORD, "task_id", "control-v1/seed-0", hashed=False),
    "another agent": put(RECORD, "agent_id", "0" * 64, hashed=False),
    "more steps": put(RECORD, "n_steps", more, hashed=False),
    "another split": put(RECORD, "split", "test", hashed=False),
    "trust": put(RECORD, "evidence/trust/level", "re-executed", hashed=False),
    "another chain": put(RECORD, "evidence/chain_head", "0" * 64, hashed=False),
    "another run": put(RECORD, "trajectory_id", "another", hashed=False),
    "another experiment": put(EXPERIMENT, "experiment_id", "0" * 16, hashed=False),
    "another agent's experiment": put("../../experiment_config.json", "agent/agent_id", "0" * 64, hashed=False),
    "fewer planned seeds": put("../../experiment_config.json", "seeds", [12345], hashed=False),
}  # fmt: skip


def _list_lies() -> Iterator[Lie]:
    for forgery in FORGERIES:
        yield Lie(
            "rows: consistent stories", forgery.name, forgery.source, tell_lie(forgery)
        )
    for source in (STREAM, CONTROL, PREDICTION):
        for name, forge in _ROW_LIES.items():
            if source != STREAM or "emulator" not in name:
                yield Lie("rows: single values", name, source, forge)
        for name, forge in _DOCUMENT_LIES.items():
            yield Lie("documents", name, source, forge)
        headline = put(SCORE, HEADLINES[source], more)
        yield Lie("documents", "a better headline", source, headline)
        for level in ("replayed", "re-executed"):
            forged = forge_verification(level=level)
            yield Lie("documents", f"a verification, {level}", source, forged)
        for name, forge in _RECORD_LIES.items():
            yield Lie("records", name, source, forge)
        packed = {**_ROW_LIES, **_DOCUMENT_LIES, "a better headline": headline}
        for name, forge in packed.items():
            if source != STREAM or "emulator" not in name:
                yield Lie("packs", name, source, forge, is_packed=True)
    for name, forge in _PREDICTION_LIES.items():
        yield Lie("predictions and targets", name, PREDICTION, forge)
        yield Lie("packs", name, PREDICTION, forge, is_packed=True)


LIES = list(_list_lies())


# --- Counting -------------------------------------------------------------------


def play_sources(folder: Path, names: Iterable[str] = SOURCES) -> dict[str, Path]:
    """Genuine runs, each in an experiment of its own."""
    return {
        name: play_run(suite, agent, out=folder / name, overrides=settings).run_dir
        for name, (suite, agent, settings) in SOURCES.items()
        if name in names
    }


def find_catchers(lie: Lie, genuine: Path, folder: Path) -> set[str]:
    """The commands that catch a forgery.

    Args:
        lie: The forgery.
        genuine: The run that it changes.
        folder: An empty folder to forge in.
    """
    experiment = folder / "experiment"
    shutil.copytree(genuine.parent.parent, experiment)
    run = experiment / "episodes" / genuine.name
    lie.forge(run)
    if lie.is_packed:
        try:
            _pass_on(run, folder)
        except LongplayError:
            return set(COMMANDS)
    agent = SOURCES[lie.source][1]
    exported = folder / "out.jsonl"
    original = folder / "genuine.jsonl"
    export_jsonl(genuine.parent.parent, original)
    checks: dict[str, Callable[[], bool]] = {
        "validate": lambda: validate_run(run).is_valid,
        "verify": lambda: verify_run(run).passed,
        "export": lambda: (
            export_jsonl(experiment, exported).lines == 1
            and _is_believed(lie, exported, original)
        ),
    }
    caught = {name for name, is_believed in checks.items() if not _try(is_believed)}
    # Re-execution replays first.
    spec = None if agent == "random" else agent
    if "verify" in caught or not _try(lambda: reexecute(run, spec).passed):
        caught.add("reexecute")
    return caught


def _is_believed(lie: Lie, exported: Path, original: Path) -> bool:
    """Whether a lie reached the export: records are made again from the run."""
    return lie.family != "records" or exported.read_bytes() != original.read_bytes()


def _try(is_believed: Callable[[], bool]) -> bool:
    try:
        return is_believed()
    except LongplayError:
        return False


def _pass_on(run: Path, folder: Path) -> None:
    """Packs a forged run without verifying it, and unpacks it in its place."""
    contents = pack._read_contents(run)
    members = {packed_name(n): compress(c) for n, c in contents.items()}
    manifest = pack._describe(run, contents | members)
    parts = {MANIFEST: render_document(manifest), **members}
    write_chunks(folder / "forged.longplay", render_archive(parts.items()))
    shutil.rmtree(run)
    pack.unpack_run(folder / "forged.longplay", run)


def count_caught(
    lies: Iterable[Lie], folder: Path
) -> dict[tuple[str, str], dict[str, int]]:
    """(family, track) -> number of forgeries, and of those each command catches."""
    sources = play_sources(folder / "genuine")
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for number, lie in enumerate(lies):
        place = folder / str(number)
        place.mkdir()
        caught = find_catchers(lie, sources[lie.source], place)
        key = (lie.family, TRACKS[lie.source])
        row = counts.setdefault(key, dict.fromkeys(("forged", *COMMANDS), 0))
        row["forged"] += 1
        for command in caught:
            row[command] += 1
        shutil.rmtree(place)
    return counts
