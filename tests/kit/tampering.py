"""Ways to tamper with a valid run directory, and the expected findings.

`TAMPERINGS` is the table: one row per trick, with a small function that plays it on a
copied run directory and the kinds of findings it must lead to. Tricks are as good as
they can be: where a forger would repair the files around an edit, the trick does.
"""

# A table reads best with one trick per line, however long.
# ruff: noqa: E501
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from longplay.contract.config import RunConfig
from longplay.contract.files import read_document
from longplay.contract.findings import Kind
from longplay.contract.fingerprint import contract_hash
from longplay.plan import plan_run
from longplay.tracks.scores import score_run, write_score
from rows import Row, read_rows

Trick = Callable[[Path], None]

EVENTS, EPISODES, SEGMENTS = "events.jsonl", "episodes.jsonl", "segments.jsonl"
CONFIG, SUMMARY, SCORE = "config.json", "run_summary.json", "score.json"
DIGESTS = "digests.jsonl"
FILES = (CONFIG, EVENTS, EPISODES, SEGMENTS, DIGESTS, SUMMARY, SCORE)

FINISHED, LIFE_LOSS = "finished_run", "life_loss_run"
GAME_OVER, GAME_OVER_LIFE_LOSS = "game_over_run", "game_over_life_loss_run"


@dataclass(frozen=True)
class Tampering:
    """One trick.

    Attributes:
        name: Says what was done.
        trick: Does it to a run directory.
        kinds: What must be found, perhaps beside other things. None are named where
            any finding will do.
        source: Fixture of the run that is copied.
    """

    name: str
    trick: Trick
    kinds: tuple[Kind, ...]
    source: str = FINISHED

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


# --- Editing files --------------------------------------------------------------


def write_rows(path: Path, rows: list[Row]) -> None:
    path.write_bytes(msgspec.json.Encoder().encode_lines(rows))


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def write_json(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n")


def on_rows(file: str, edit: Callable[[list[Row]], Any]) -> Trick:
    """Changes the list of rows of a file."""

    def trick(run: Path) -> None:
        rows = read_rows(run / file)
        edit(rows)
        write_rows(run / file, rows)

    return trick


def on_row(file: str, index: int, **values: Any) -> Trick:
    """Sets values in one row; `return_` is the key `return`."""
    named = {key.rstrip("_"): value for key, value in values.items()}
    return on_rows(file, lambda rows: rows[index].update(named))


def on_line(file: str, index: int, edit: Callable[[bytes], bytes]) -> Trick:
    """Changes the bytes of one line, its newline included."""

    def trick(run: Path) -> None:
        lines = (run / file).read_bytes().splitlines(keepends=True)
        changed = edit(lines[index])
        assert changed != lines[index]
        lines[index] = changed
        (run / file).write_bytes(b"".join(lines))

    return trick


def respell(file: str, index: int, old: bytes, new: bytes) -> Trick:
    """Replaces bytes within one line, once."""
    return on_line(file, index, lambda line: line.replace(old, new, 1))


def on_bytes(file: str, edit: Callable[[bytes], bytes]) -> Trick:
    """Changes the bytes of a whole file."""

    def trick(run: Path) -> None:
        data = (run / file).read_bytes()
        changed = edit(data)
        assert changed != data
        (run / file).write_bytes(changed)

    return trick


def on_json(file: str, edit: Callable[[Any], Any]) -> Trick:
    """Changes a document in place."""

    def trick(run: Path) -> None:
        document = read_json(run / file)
        edit(document)
        write_json(run / file, document)

    return trick


def _step(target: Any, key: str) -> Any:
    return target[int(key) if isinstance(target, list) else key]


def put(file: str, path: str, value: Any) -> Trick:
    """Sets the value at a dotted path of a document."""

    def edit(document: Any) -> None:
        *parents, leaf = path.split(".")
        for parent in parents:
            document = _step(document, parent)
        document[int(leaf) if isinstance(document, list) else leaf] = value

    return on_json(file, edit)


def add_to(file: str, path: str, amount: float) -> Trick:
    """Adds to the number at a dotted path of a document."""

    def trick(run: Path) -> None:
        value = read_json(run / file)
        for key in path.split("."):
            value = _step(value, key)
        put(file, path, value + amount)(run)

    return trick


def drop_key(file: str, key: str) -> Trick:
    return on_json(file, lambda document: document.pop(key))


def remove(file: str) -> Trick:
    return lambda run: (run / file).unlink()


def both(*tricks: Trick) -> Trick:
    """One trick after the other."""

    def trick(run: Path) -> None:
        for one in tricks:
            one(run)

    return trick


def repair_hash(run: Path) -> None:
    """Puts the hash that belongs to the settings, and the name that goes with it."""
    digest = contract_hash(read_document(run / CONFIG, RunConfig))
    suite_id = read_json(run / CONFIG)["config_given"]["suite"]
    put(CONFIG, "benchmark_contract_hash", digest)(run)
    put(SCORE, "benchmark_contract_hash", digest)(run)
    put(CONFIG, "suite", f"{suite_id}+{digest[:8]}")(run)


def repair_score(run: Path) -> None:
    """Scores the run again from its changed files."""
    write_score(run, score_run(run))


# --- Places in a run ------------------------------------------------------------


def _is_inside(rows: list[Row], i: int) -> bool:
    """Whether a row has ten rows of its own segment on both sides."""
    return rows[i - 10]["segment_id"] == rows[i + 10]["segment_id"]


def find(rows: list[Row], wanted: Callable[[int], bool]) -> int:
    """The first row well inside a segment, from the middle on, that is wanted."""
    middle = range(len(rows) // 2, len(rows) - 10)
    return next(i for i in middle if _is_inside(rows, i) and wanted(i))


def any_row(rows: list[Row]) -> int:
    return find(rows, lambda i: True)


def held_row(rows: list[Row]) -> int:
    return find(rows, lambda i: not rows[i]["is_decision_frame"])


def changed_decision(rows: list[Row]) -> int:
    """A decision frame that decides something new."""

    def wanted(i: int) -> bool:
        decided = rows[i]["decided_action_idx"]
        return (
            rows[i]["is_decision_frame"]
            and decided != rows[i - 1]["decided_action_idx"]
        )

    return find(rows, wanted)


def changed_application(rows: list[Row]) -> int:
    """A frame on which another action starts to be applied."""
    key = "applied_action_idx"
    return find(rows, lambda i: rows[i][key] != rows[i - 1][key])


def rewarded_row(rows: list[Row]) -> int:
    return next(i for i, row in enumerate(rows) if row["reward"] != 0)


def visit_end(rows: list[Row]) -> int:
    return next(i for i, row in enumerate(rows) if row["truncated"])


def reset_row(rows: list[Row]) -> int:
    """The first row after a reset in the middle of a visit."""
    return next(
        i
        for i, row in enumerate(rows)
        if i
        and row["visit_frame_idx"] > 0
        and row["segment_id"] != rows[i - 1]["segment_id"]
    )


def lost_life(rows: list[Row]) -> int:
    """A terminated row after which the segment continues."""
    return next(
        i
        for i, row in enumerate(rows[:-1])
        if row["terminated"] and rows[i + 1]["segment_id"] == row["segment_id"]
    )


# --- Tricks on events -----------------------------------------------------------


def set_at(place: Callable[[list[Row]], int], **values: Any) -> Trick:
    """Sets values in the event at a place."""
    return on_rows(EVENTS, lambda rows: rows[place(rows)].update(values))


def flip_at(place: Callable[[list[Row]], int], key: str) -> Trick:
    def edit(rows: list[Row]) -> None:
        row = rows[place(rows)]
        row[key] = not row[key]

    return on_rows(EVENTS, edit)


def shift_at(place: Callable[[list[Row]], int], key: str, amount: float) -> Trick:
    def edit(rows: list[Row]) -> None:
        rows[place(rows)][key] += amount

    return on_rows(EVENTS, edit)


def _other_action(action: int) -> int:
    return (action + 1) % 18


def _drop_and_renumber(rows: list[Row]) -> None:
    del rows[any_row(rows)]
    for i, row in enumerate(rows):
        row["global_frame_idx"] = i


def _double_and_renumber(rows: list[Row]) -> None:
    at = any_row(rows)
    rows.insert(at, dict(rows[at]))
    for i, row in enumerate(rows):
        row["global_frame_idx"] = i


def _swap_frames(rows: list[Row]) -> None:
    at = any_row(rows)
    rows[at], rows[at + 1] = rows[at + 1], rows[at]


def _swap_contents(rows: list[Row]) -> None:
    """Swaps the decisions of two frames; frame numbers stay in order."""
    at = changed_decision(rows)
    a, b = rows[at - 1], rows[at]
    for key in ("is_decision_frame", "decided_action_idx", "applied_action_idx"):
        a[key], b[key] = b[key], a[key]


def _swap_visits(rows: list[Row]) -> None:
    first = [row for row in rows if row["visit_idx"] == 0]
    second = [row for row in rows if row["visit_idx"] == 1]
    rows[: len(first) + len(second)] = second + first


def _append_frame(rows: list[Row]) -> None:
    rows.append({**rows[-1], "global_frame_idx": len(rows)})


def _keep_first(count: int) -> Callable[[list[Row]], None]:
    def edit(rows: list[Row]) -> None:
        del rows[count:]

    return edit


def _move_decision_back(rows: list[Row]) -> None:
    at = changed_decision(rows)
    rows[at - 1].update(
        is_decision_frame=True, decided_action_idx=rows[at]["decided_action_idx"]
    )
    rows[at]["is_decision_frame"] = False


def _decide_every_frame(rows: list[Row]) -> None:
    for row in rows:
        row["is_decision_frame"] = True


def _change_held(rows: list[Row]) -> None:
    row = rows[held_row(rows)]
    row["decided_action_idx"] = _other_action(row["decided_action_idx"])


def _apply_late(rows: list[Row]) -> None:
    at = changed_application(rows)
    rows[at]["applied_action_idx"] = rows[at - 1]["applied_action_idx"]


def _apply_early(rows: list[Row]) -> None:
    at = changed_application(rows)
    rows[at - 1]["applied_action_idx"] = rows[at]["applied_action_idx"]


def _apply_undelayed(rows: list[Row]) -> None:
    for row in rows:
        row["applied_action_idx"] = row["decided_action_idx"]


def _apply_another(rows: list[Row]) -> None:
    for row in rows[-200:]:
        row["applied_action_idx"] = _other_action(row["applied_action_idx"])


def _replace_first_default(rows: list[Row]) -> None:
    rows[0]["applied_action_idx"] = 5


def _keep_queue_over_reset(rows: list[Row]) -> None:
    """Applies a decision from before a reset after it."""
    at = reset_row(rows)
    for i in (at, at + 1):
        rows[i]["applied_action_idx"] = _other_action(rows[i]["applied_action_idx"])


def _keep_phase_over_reset(rows: list[Row]) -> None:
    at = reset_row(rows)
    rows[at]["is_decision_frame"] = False
    rows[at + 1]["is_decision_frame"] = True


def _add_from(rows: list[Row], at: int, key: str, amount: int) -> None:
    for row in rows[at:]:
        row[key] += amount


def _split_episode(rows: list[Row], at: int) -> None:
    rows[at]["terminated"] = True
    _add_from(rows, at + 1, "episode_id", 1)


def _split_early(rows: list[Row]) -> None:
    _split_episode(rows, 20)


def _split_in_the_middle(rows: list[Row]) -> None:
    _split_episode(rows, any_row(rows))


def _merge_over_reset(rows: list[Row]) -> None:
    at = reset_row(rows)
    rows[at - 1]["terminated"] = False
    _add_from(rows, at, "episode_id", -1)
    _add_from(rows, at, "segment_id", -1)


def _hide_lost_life(rows: list[Row]) -> None:
    at = lost_life(rows)
    rows[at]["terminated"] = False


def _reset_at_no_boundary(rows: list[Row]) -> None:
    _add_from(rows, any_row(rows), "segment_id", 1)


def _join_segments_of_visits(rows: list[Row]) -> None:
    _add_from(rows, visit_end(rows) + 1, "segment_id", -1)


def _shift_column(key: str) -> Callable[[list[Row]], None]:
    return lambda rows: _add_from(rows, 0, key, 1)


def _rename_game(rows: list[Row]) -> None:
    for row in rows:
        row["game_id"] = "pong"


def _exchange_games(rows: list[Row]) -> None:
    names = {"qbert": "centipede", "centipede": "qbert"}
    for row in rows:
        row["game_id"] = names.get(row["game_id"], row["game_id"])


_ANY = any_row

_FRAMES = [
    Tampering("a frame dropped", on_rows(EVENTS, lambda r: r.pop(500)), ("frame order",)),
    Tampering("the first frame dropped", on_rows(EVENTS, lambda r: r.pop(0)), ("frame order",)),
    Tampering("the last frame dropped", on_rows(EVENTS, lambda r: r.pop()), ("missing frames",)),
    Tampering("a frame dropped and the rest renumbered", on_rows(EVENTS, _drop_and_renumber), ("missing frames", "schedule")),
    Tampering("a frame doubled", on_rows(EVENTS, lambda r: r.insert(500, dict(r[500]))), ("frame order",)),
    Tampering("a frame doubled and the rest renumbered", on_rows(EVENTS, _double_and_renumber), ("schedule", "frame order")),
    Tampering("two frames swapped", on_rows(EVENTS, _swap_frames), ("frame order",)),
    Tampering("what two frames hold swapped", on_rows(EVENTS, _swap_contents), ("decision cadence",)),
    Tampering("two visits swapped", on_rows(EVENTS, _swap_visits), ("frame order",)),
    Tampering("a frame after the end", on_rows(EVENTS, _append_frame), ("frame order",)),
    Tampering("only the first frame left", on_rows(EVENTS, _keep_first(1)), ("missing frames",)),
    Tampering("fewer frames left than the delay", on_rows(EVENTS, _keep_first(3)), ("missing frames",), LIFE_LOSS),
    Tampering("the last visit left out", on_rows(EVENTS, lambda r: r.__delitem__(slice(-100, None))), ("missing frames",)),
    Tampering("frames counted from 1", on_rows(EVENTS, _shift_column("global_frame_idx")), ("frame order",)),
    Tampering("visit edited", shift_at(_ANY, "visit_idx", 1), ("schedule",)),
    Tampering("cycle edited", shift_at(_ANY, "cycle_idx", 1), ("schedule",)),
    Tampering("frame of the visit edited", shift_at(_ANY, "visit_frame_idx", 1), ("schedule",)),
    Tampering("game of a frame edited", set_at(_ANY, game_id="pong"), ("schedule",)),
    Tampering("every game called by another name", on_rows(EVENTS, _rename_game), ("schedule",)),
    Tampering("the names of two games exchanged", on_rows(EVENTS, _exchange_games), ("schedule",)),
    Tampering("visits counted from 1", on_rows(EVENTS, _shift_column("visit_idx")), ("schedule",)),
    Tampering("largest int as a frame", set_at(_ANY, global_frame_idx=2**62), ("frame order",)),
]  # fmt: skip

_FLAGS = [
    Tampering("terminated set", flip_at(_ANY, "terminated"), ("episode id", "segment id", "episode row")),
    Tampering("truncated set before the end of a visit", flip_at(_ANY, "truncated"), ("truncated flag",)),
    Tampering("truncated cleared at the end of a visit", flip_at(visit_end, "truncated"), ("visit end",)),
    Tampering("truncated cleared on the last frame", flip_at(lambda r: -1, "truncated"), ("visit end", "episode row")),
    Tampering("truncated moved by one frame", both(flip_at(lambda r: visit_end(r) - 1, "truncated"), flip_at(lambda r: visit_end(r[700:]) + 700, "truncated")), ("truncated flag", "visit end")),
    Tampering("terminated set on the last frame of a visit", flip_at(visit_end, "terminated"), ("episode row",)),
    Tampering("a game over hidden", flip_at(lambda r: reset_row(r) - 1, "terminated"), ("episode id", "segment id"), GAME_OVER),
    Tampering("a game over moved", both(flip_at(lambda r: reset_row(r) - 1, "terminated"), flip_at(lambda r: reset_row(r) - 2, "terminated")), ("episode id", "segment id", "episode row"), GAME_OVER),
    Tampering("a lost life hidden", on_rows(EVENTS, _hide_lost_life), ("episode id",), LIFE_LOSS),
    Tampering("a life-loss end where no life was lost", on_rows(EVENTS, _split_in_the_middle), ("segment id",), LIFE_LOSS),
    Tampering("a life-loss end where no life was lost yet", on_rows(EVENTS, _split_early), ("segment id",), LIFE_LOSS),
    Tampering("is_decision_frame cleared", flip_at(changed_decision, "is_decision_frame"), ("decision cadence", "held decision")),
    Tampering("is_decision_frame set", flip_at(held_row, "is_decision_frame"), ("decision cadence",)),
    Tampering("a decision on every frame", on_rows(EVENTS, _decide_every_frame), ("decision cadence", "summary")),
    Tampering("the first decision cleared", flip_at(lambda r: 0, "is_decision_frame"), ("decision cadence",)),
    Tampering("the cadence not started again after a reset", on_rows(EVENTS, _keep_phase_over_reset), ("decision cadence",), GAME_OVER),
]  # fmt: skip

_ACTIONS = [
    Tampering("a decision moved one frame back", on_rows(EVENTS, _move_decision_back), ("decision cadence",)),
    Tampering("a decision changed", shift_at(lambda r: find(r, lambda i: r[i]["is_decision_frame"] and r[i]["decided_action_idx"] < 17), "decided_action_idx", 1), ("held decision", "delay law")),
    Tampering("a held decision changed", on_rows(EVENTS, _change_held), ("held decision",)),
    Tampering("applied one frame late", on_rows(EVENTS, _apply_late), ("delay law",)),
    Tampering("applied one frame early", on_rows(EVENTS, _apply_early), ("delay law",)),
    Tampering("applied one frame late, delay 6", on_rows(EVENTS, _apply_late), ("delay law",), LIFE_LOSS),
    Tampering("applied without the delay", on_rows(EVENTS, _apply_undelayed), ("delay law",)),
    Tampering("other actions applied at the end", on_rows(EVENTS, _apply_another), ("delay law",)),
    Tampering("not the default action at first", on_rows(EVENTS, _replace_first_default), ("delay law",)),
    Tampering("not the default action after a reset", on_rows(EVENTS, _keep_queue_over_reset), ("delay law",), GAME_OVER),
    Tampering("not the default action after a reset with life loss", on_rows(EVENTS, _keep_queue_over_reset), ("delay law",), GAME_OVER_LIFE_LOSS),
    Tampering("decided action 18", set_at(changed_decision, decided_action_idx=18), ("action range",)),
    Tampering("applied action 18", set_at(_ANY, applied_action_idx=18), ("action range", "delay law")),
    Tampering("decided action -1", set_at(changed_decision, decided_action_idx=-1), ("unreadable line",)),
    Tampering("applied action -1", set_at(_ANY, applied_action_idx=-1), ("unreadable line",)),
]  # fmt: skip


# --- Tricks on rewards, episodes and segments -------------------------------------


def _raise_reward(rows: list[Row]) -> None:
    rows[rewarded_row(rows)]["reward"] += 1.0


def _add_reward(run: Path, file: str) -> None:
    """Adds 1 to the return of the span the raised reward lies in."""
    rows = read_rows(run / file)
    at = rewarded_row(read_rows(run / EVENTS))
    span = next(r for r in rows if r["end_global_frame_idx"] >= at)
    span["return"] += 1.0
    write_rows(run / file, rows)


def _repair_episode(run: Path) -> None:
    _add_reward(run, EPISODES)


def _repair_segment(run: Path) -> None:
    _add_reward(run, SEGMENTS)


def _move_reward(rows: list[Row]) -> None:
    """Moves a reward from the first visit into the last: the total stays."""
    at = rewarded_row(rows)
    rows[-20]["reward"] += rows[at]["reward"]
    rows[at]["reward"] = 0.0


def _negate_rewards(rows: list[Row]) -> None:
    for row in rows:
        row["reward"] = -row["reward"] if row["reward"] else 0.0


def _add_beyond_float(rows: list[Row]) -> None:
    """Rewards that are finite one by one and infinite together."""
    for row in rows[-3:]:
        row["reward"] = 1.5e308


def _split(key: str) -> Callable[[list[Row]], None]:
    """Splits the second span in two, and renumbers the later ones."""

    def edit(rows: list[Row]) -> None:
        left, right = dict(rows[1]), dict(rows[1])
        middle = left["start_global_frame_idx"] + 100
        left.update(end_global_frame_idx=middle, length=101, ended_by="terminated")
        right.update(start_global_frame_idx=middle + 1, length=right["length"] - 101)
        right["return"] = 0.0
        rows[1:2] = [left, right]
        for i, row in enumerate(rows):
            row[key] = i

    return edit


def _merge(key: str) -> Callable[[list[Row]], None]:
    """Merges the first two spans, and renumbers the later ones."""

    def edit(rows: list[Row]) -> None:
        first, second = rows[:2]
        first["end_global_frame_idx"] = second["end_global_frame_idx"]
        first["length"] += second["length"]
        first["return"] += second["return"]
        first["ended_by"] = second["ended_by"]
        del rows[1]
        for i, row in enumerate(rows):
            row[key] = i

    return edit


def _other_end(rows: list[Row]) -> None:
    other = {"terminated": "truncated", "truncated": "terminated"}
    rows[0]["ended_by"] = other[rows[0]["ended_by"]]


def _swap_first_two(rows: list[Row]) -> None:
    rows[0], rows[1] = rows[1], rows[0]


def _hide_lost_life_everywhere(run: Path) -> None:
    """Makes one episode of two, and repairs every file; only the lives still tell."""
    rows = read_rows(run / EVENTS)
    at = lost_life(rows)
    rows[at]["terminated"] = False
    _add_from(rows, at + 1, "episode_id", -1)
    write_rows(run / EVENTS, rows)
    assert rows[at]["episode_id"] == 0
    on_rows(EPISODES, _merge("episode_id"))(run)
    add_to(SUMMARY, "episodes", -1)(run)
    add_to(SUMMARY, "visits.0.episodes", -1)(run)
    repair_score(run)


_REWARDS = [
    Tampering("a reward raised by 1", on_rows(EVENTS, _raise_reward), ("episode row", "segment row", "summary")),
    Tampering("a reward raised by 1, the episode repaired", both(on_rows(EVENTS, _raise_reward), _repair_episode), ("segment row",)),
    Tampering("a reward raised by 1, the segment repaired", both(on_rows(EVENTS, _raise_reward), _repair_segment), ("episode row",)),
    Tampering("a reward raised by 1, both repaired and scored", both(on_rows(EVENTS, _raise_reward), _repair_episode, _repair_segment, repair_score), ("summary",)),
    Tampering("a reward moved to the last visit", on_rows(EVENTS, _move_reward), ("score", "episode row", "segment row")),
    Tampering("a reward on the very last frame", shift_at(lambda r: -1, "reward", 1000.0), ("score", "episode row")),
    Tampering("a reward of a millionth", shift_at(_ANY, "reward", 1e-6), ("episode row", "segment row")),
    Tampering("rewards that add up to infinity", on_rows(EVENTS, _add_beyond_float), ()),
    Tampering("every reward negated", on_rows(EVENTS, _negate_rewards), ("episode row", "score")),
]  # fmt: skip

_SPANS = [
    tampering
    for file, key, kind in (
        (EPISODES, "episode_id", "episode row"),
        (SEGMENTS, "segment_id", "segment row"),
    )
    for tampering in (
        Tampering(f"{file} game edited", on_row(file, 1, game_id="qbert"), (kind,)),
        Tampering(f"{file} unknown game", on_row(file, 1, game_id="pong"), (kind,)),
        Tampering(f"{file} id edited", on_row(file, 1, **{key: 7}), (kind,)),
        Tampering(f"{file} start edited", on_row(file, 1, start_global_frame_idx=637), (kind,)),
        Tampering(f"{file} end edited", on_row(file, 1, end_global_frame_idx=1266), (kind,)),
        Tampering(f"{file} length edited", on_row(file, 1, length=631), (kind,)),
        Tampering(f"{file} return edited", on_row(file, 1, return_=433.0), (kind,)),
        Tampering(f"{file} return a little off", on_row(file, 1, return_=432.00001), (kind,)),
        Tampering(f"{file} ended_by edited", on_rows(file, _other_end), (kind,)),
        Tampering(f"{file} ended_by edited after a game over", on_rows(file, _other_end), (kind,), GAME_OVER),
        Tampering(f"{file} ended_by a third thing", on_row(file, 0, ended_by="won"), ("unreadable line",)),
        Tampering(f"{file} row split", on_rows(file, _split(key)), (kind,)),
        Tampering(f"{file} rows merged", on_rows(file, _merge(key)), (kind,)),
        Tampering(f"{file} rows merged over a game over", on_rows(file, _merge(key)), (kind,), GAME_OVER),
        Tampering(f"{file} rows swapped", on_rows(file, _swap_first_two), (kind,)),
        Tampering(f"{file} row dropped", on_rows(file, lambda r: r.pop(2)), (kind,)),
        Tampering(f"{file} last row dropped", on_rows(file, lambda r: r.pop()), (kind,)),
        Tampering(f"{file} row doubled", on_rows(file, lambda r: r.append(dict(r[-1]))), (kind,)),
        Tampering(f"{file} NaN return", respell(file, 0, b'"return":75.0', b'"return":NaN'), ("unreadable line",)),
        Tampering(f"{file} return spelt as an int", respell(file, 0, b"75.0", b"75"), ("not canonical",)),
        Tampering(f"{file} negative length", on_row(file, 0, length=-636), ("unreadable line",)),
    )
]  # fmt: skip

_IDS = [
    Tampering("episode id edited", shift_at(_ANY, "episode_id", 1), ("episode id",)),
    Tampering("episodes counted from 1", on_rows(EVENTS, _shift_column("episode_id")), ("episode id", "episode row")),
    Tampering("segment id edited", shift_at(_ANY, "segment_id", 1), ("segment id",)),
    Tampering("segments counted from 1", on_rows(EVENTS, _shift_column("segment_id")), ("segment id", "segment row")),
    Tampering("segments counted from 1 with life loss", on_rows(EVENTS, _shift_column("segment_id")), ("segment id", "segment row"), LIFE_LOSS),
    Tampering("an episode split in the events", on_rows(EVENTS, _split_in_the_middle), ("segment id", "episode row")),
    Tampering("an episode merged over a reset", on_rows(EVENTS, _merge_over_reset), ("decision cadence", "episode row", "segment row"), GAME_OVER),
    Tampering("a segment merged over a reset with life loss", on_rows(EVENTS, lambda r: _add_from(r, reset_row(r), "segment_id", -1)), ("segment row",), GAME_OVER_LIFE_LOSS),
    Tampering("a segment split where nothing ended", on_rows(EVENTS, _reset_at_no_boundary), ("segment id",)),
    Tampering("a segment split where nothing ended with life loss", on_rows(EVENTS, _reset_at_no_boundary), ("segment id",), LIFE_LOSS),
    Tampering("a segment split at a lost life", on_rows(EVENTS, lambda r: _add_from(r, lost_life(r) + 1, "segment_id", 1)), ("segment row",), LIFE_LOSS),
    Tampering("a lost life hidden everywhere", _hide_lost_life_everywhere, (), LIFE_LOSS),
    Tampering("one segment over two visits", on_rows(EVENTS, _join_segments_of_visits), ("segment id",)),
    Tampering("one segment over two visits with life loss", on_rows(EVENTS, _join_segments_of_visits), ("segment id",), LIFE_LOSS),
    Tampering("lives raised where an episode ended by a lost life", shift_at(lost_life, "lives", 1), ("segment id",), LIFE_LOSS),
]  # fmt: skip


# --- Tricks on the spelling of rows -----------------------------------------------


def _cut_last_line(data: bytes) -> bytes:
    return data[:-40]


def _reorder(line: bytes) -> bytes:
    row = json.loads(line)
    return msgspec.json.encode(dict(reversed(row.items()))) + b"\n"


def _add_key(line: bytes) -> bytes:
    return line.replace(b"}", b',"note":"mine"}')


def _key_twice(line: bytes) -> bytes:
    return line.replace(b'"reward":', b'"reward":99.0,"reward":')


def _nest(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def _without(key: str) -> Trick:
    return on_rows(EVENTS, lambda rows: rows[50].pop(key))


def _lines_after(index: int, added: bytes) -> Trick:
    return on_line(EVENTS, index, lambda line: line + added)


_KEYS = (
    "global_frame_idx game_id visit_idx cycle_idx visit_frame_idx episode_id segment_id"
    " is_decision_frame decided_action_idx applied_action_idx reward terminated"
    " truncated lives"
).split()

_UNREADABLE: tuple[Kind, ...] = ("unreadable line",)
_UNCANONICAL: tuple[Kind, ...] = ("not canonical",)

_SPELLING = [
    *(Tampering(f"a row without {key}", _without(key), _UNREADABLE) for key in _KEYS),
    Tampering("lives taken out of every row", on_rows(EVENTS, lambda rows: [r.pop("lives") for r in rows]), _UNREADABLE),
    Tampering("the last line cut", on_bytes(EVENTS, _cut_last_line), ("unreadable line", "missing frames")),
    Tampering("the last newline cut", on_bytes(EVENTS, lambda data: data[:-1]), _UNCANONICAL),
    Tampering("the last line of episodes cut", on_bytes(EPISODES, _cut_last_line), ("unreadable line", "episode row")),
    Tampering("the last line of segments cut", on_bytes(SEGMENTS, _cut_last_line), ("unreadable line", "segment row")),
    Tampering("two rows on one line", on_line(EVENTS, 50, lambda line: line[:-1]), _UNREADABLE),
    Tampering("two rows on one line with a comma", on_line(EVENTS, 50, lambda line: line[:-1] + b","), _UNREADABLE),
    Tampering("one row on two lines", respell(EVENTS, 50, b",", b",\n"), _UNREADABLE),
    Tampering("a line of garbage", _lines_after(50, b"garbage\n"), _UNREADABLE),
    Tampering("a line of binary garbage", _lines_after(50, bytes(range(0x80, 0x8A)) + b"\n"), _UNREADABLE),
    Tampering("a line that looks like markup", _lines_after(50, b"[/bold][red]\n"), _UNREADABLE),
    Tampering("zeros at the end", on_bytes(EVENTS, lambda data: data + b"\0" * 512), _UNREADABLE),
    Tampering("a blank line", _lines_after(50, b"\n"), _UNREADABLE),
    Tampering("a blank line at the end", on_bytes(EVENTS, lambda data: data + b"\n"), _UNREADABLE),
    Tampering("a blank line in episodes", on_bytes(EPISODES, lambda data: b"\n" + data), _UNREADABLE),
    Tampering("a comment line", on_bytes(EVENTS, lambda data: b"# frames\n" + data), _UNREADABLE),
    Tampering("a list instead of a row", on_line(EVENTS, 50, lambda line: b"[1,2]\n"), _UNREADABLE),
    Tampering("null instead of a row", on_line(EVENTS, 50, lambda line: b"null\n"), _UNREADABLE),
    Tampering("an empty object", on_line(EVENTS, 50, lambda line: b"{}\n"), _UNREADABLE),
    Tampering("a whole file in one list", on_bytes(EPISODES, lambda data: b"[" + data.strip().replace(b"\n", b",") + b"]\n"), _UNREADABLE),
    Tampering("empty events", on_bytes(EVENTS, lambda data: b""), ("missing frames", "episode row")),
    Tampering("empty episodes", on_bytes(EPISODES, lambda data: b""), ("episode row",)),
    Tampering("empty segments", on_bytes(SEGMENTS, lambda data: b""), ("segment row",)),
    Tampering("NaN as a reward", respell(EVENTS, 50, b'"reward":0.0', b'"reward":NaN'), _UNREADABLE),
    Tampering("Infinity as a reward", respell(EVENTS, 50, b'"reward":0.0', b'"reward":Infinity'), _UNREADABLE),
    Tampering("1e999 as a reward", respell(EVENTS, 50, b'"reward":0.0', b'"reward":1e999'), _UNREADABLE),
    Tampering("null as a reward", set_at(_ANY, reward=None), _UNREADABLE),
    Tampering("a string as a reward", set_at(_ANY, reward="0.0"), _UNREADABLE),
    Tampering("a bool as a reward", set_at(_ANY, reward=False), _UNREADABLE),
    Tampering("an int as a reward", set_at(_ANY, reward=0), _UNCANONICAL),
    Tampering("a reward in another spelling", respell(EVENTS, 50, b'"reward":0.0', b'"reward":0.00'), _UNCANONICAL),
    Tampering("a bool where an int belongs", respell(EVENTS, 0, b'"visit_idx":0', b'"visit_idx":false'), _UNREADABLE),
    Tampering("a bool as an action", respell(EVENTS, 0, b'"applied_action_idx":0', b'"applied_action_idx":false'), _UNREADABLE),
    Tampering("an int where a bool belongs", respell(EVENTS, 50, b'"terminated":false', b'"terminated":0'), _UNREADABLE),
    Tampering("a string where a bool belongs", respell(EVENTS, 50, b'"terminated":false', b'"terminated":"false"'), _UNREADABLE),
    Tampering("a float where an int belongs", respell(EVENTS, 50, b'idx":50,', b'idx":50.0,'), _UNREADABLE),
    Tampering("a fraction where an int belongs", respell(EVENTS, 50, b'idx":50,', b'idx":50.5,'), _UNREADABLE),
    Tampering("an int with an exponent", respell(EVENTS, 50, b'idx":50,', b'idx":5e1,'), _UNREADABLE),
    Tampering("a string where an int belongs", respell(EVENTS, 50, b'idx":50,', b'idx":"50",'), _UNREADABLE),
    Tampering("an int with a leading zero", respell(EVENTS, 50, b'idx":50,', b'idx":050,'), _UNREADABLE),
    Tampering("minus zero as a frame", respell(EVENTS, 0, b'idx":0,', b'idx":-0,'), _UNCANONICAL),
    Tampering("a negative frame", set_at(_ANY, global_frame_idx=-1), _UNREADABLE),
    Tampering("an int beyond 64 bits", respell(EVENTS, 50, b'idx":50,', b'idx":' + b"9" * 30 + b","), _UNREADABLE),
    Tampering("lives as a string", set_at(_ANY, lives="4"), _UNREADABLE),
    Tampering("negative lives", set_at(_ANY, lives=-1), _UNREADABLE),
    Tampering("null as a game", set_at(_ANY, game_id=None), _UNREADABLE),
    Tampering("an int as a game", set_at(_ANY, game_id=3), _UNREADABLE),
    Tampering("a game spelt with an escape", respell(EVENTS, 50, b'"qbert"', b'"\\u0071bert"'), _UNCANONICAL),
    Tampering("a byte that is not UTF-8", respell(EVENTS, 50, b'"qbert"', b'"qb\xffrt"'), _UNREADABLE),
    Tampering("an additional key", on_line(EVENTS, 50, _add_key), _UNCANONICAL),
    Tampering("an additional key in an episode", on_line(EPISODES, 1, _add_key), _UNCANONICAL),
    Tampering("an additional key nested deep", on_line(EVENTS, 50, lambda line: line.replace(b"}", b',"x":' + _nest(100_000) + b"}")), _UNREADABLE),
    Tampering("a key twice", on_line(EVENTS, 50, _key_twice), _UNCANONICAL),
    Tampering("keys in another order", on_line(EVENTS, 50, _reorder), _UNCANONICAL),
    Tampering("keys of a segment in another order", on_line(SEGMENTS, 1, _reorder), _UNCANONICAL),
    Tampering("spaces after colons", on_line(EVENTS, 50, lambda line: line.replace(b":", b": ")), _UNCANONICAL),
    Tampering("spaces at the end of a line", on_line(EVENTS, 50, lambda line: line[:-1] + b"  \n"), _UNCANONICAL),
    Tampering("CRLF on every line", on_bytes(EVENTS, lambda data: data.replace(b"\n", b"\r\n")), _UNCANONICAL),
    Tampering("CRLF on one line", on_line(EVENTS, 50, lambda line: line[:-1] + b"\r\n"), _UNCANONICAL),
    Tampering("a carriage return between two keys", respell(EVENTS, 50, b",", b",\r"), _UNCANONICAL),
    Tampering("a byte order mark", on_bytes(EVENTS, lambda data: b"\xef\xbb\xbf" + data), _UNREADABLE),
    Tampering("UTF-16", on_bytes(EPISODES, lambda data: data.decode().encode("utf-16")), _UNREADABLE),
]  # fmt: skip


# --- Tricks on config.json --------------------------------------------------------


def _seed_one(run: Path) -> None:
    """Gives the run the plan of seed 1, all of it."""
    given = read_json(run / CONFIG)["config_given"]
    plan = plan_run(given["suite"], 1, given["overrides"])
    derived = plan.config.model_dump(mode="json", exclude_none=True)
    write_json(run / CONFIG, read_json(run / CONFIG) | derived)


def _rename_in_config(run: Path) -> None:
    """Calls a game by another one's name, everywhere."""
    for file in FILES:
        text = (run / file).read_text()
        (run / file).write_text(text.replace('"qbert"', '"pong"'))


def _shorten_last_visit(run: Path) -> None:
    """Takes the last ten frames off the schedule, and off every file."""
    config = read_json(run / CONFIG)
    config["schedule"][-1]["visit_frames"] -= 10
    write_json(run / CONFIG, config)
    rows = read_rows(run / EVENTS)[:-10]
    rows[-1]["truncated"] = True
    write_rows(run / EVENTS, rows)
    for file in (EPISODES, SEGMENTS):
        spans = read_rows(run / file)
        spans[-1]["end_global_frame_idx"] -= 10
        spans[-1]["length"] -= 10
        write_rows(run / file, spans)
    repair_hash(run)
    repair_score(run)


def _config_twice(data: bytes) -> bytes:
    return data.replace(b'"delay": 2,', b'"delay": 0,\n  "delay": 2,', 1)


def _put_all(value: Any, *paths: str) -> Trick:
    return both(*(put(CONFIG, path, value) for path in paths))


_OTHER_SEEDS = list(plan_run("stream-smoke-v1", 1).config.emulator_seeds or ())
_CLAIM: tuple[Kind, ...] = ("suite claim",)
_HASHED: tuple[Kind, ...] = ("suite claim", "contract hash")
_BROKEN: tuple[Kind, ...] = ("unreadable document",)

# Setting -> another value, for settings that the hash covers.
_MECHANICS: dict[str, Any] = {
    "games": ["qbert", "centipede", "ms_pacman"],
    "schedule.0.visit_frames": 637,
    "schedule.0.game_id": "centipede",
    "schedule.0.cycle_idx": 1,
    "decision_interval": 5,
    "delay": 3,
    "sticky": 0.0,
    "life_loss_termination": True,
    "full_action_space": False,
    "action_mapping_policy.global_action_set": list(range(19)),
    "default_action_idx": 1,
    "scoring_defaults.window_frames": 100,
    "scoring_defaults.bottom_k_frac": 1.0,
    "scoring_defaults.revisit_frames": 100,
    "scoring_defaults.final_score_weights": [1.0, 0.0],
}

_CONFIG = [
    *(Tampering(f"{key} edited", put(CONFIG, key, value), _HASHED) for key, value in _MECHANICS.items()),
    *(Tampering(f"{key} edited with a new hash", both(put(CONFIG, key, value), repair_hash), _CLAIM) for key, value in _MECHANICS.items()),
    Tampering("scoring edited with a new hash and score", both(put(CONFIG, "scoring_defaults.window_frames", 100), repair_hash, repair_score), _CLAIM),
    Tampering("the last visit shortened everywhere", _shorten_last_visit, _CLAIM),
    Tampering("a visit dropped from the schedule", on_json(CONFIG, lambda c: c["schedule"].pop()), ("contract hash", "frame order")),
    Tampering("a visit added to the schedule", on_json(CONFIG, lambda c: c["schedule"].append({**c["schedule"][0], "visit_idx": 6})), ("contract hash", "missing frames")),
    Tampering("the schedule reordered", on_json(CONFIG, lambda c: c["schedule"].reverse()), ("schedule", "contract hash")),
    Tampering("visit_idx of the schedule edited", put(CONFIG, "schedule.0.visit_idx", 1), ("schedule", "contract hash")),
    Tampering("visit_idx of the schedule beyond its end", put(CONFIG, "schedule.0.visit_idx", 99), ("schedule", "contract hash")),
    Tampering("a game called by another name everywhere", both(_rename_in_config, repair_hash), _CLAIM),
    Tampering("the hash edited", put(CONFIG, "benchmark_contract_hash", "0" * 64), _HASHED),
    Tampering("the hash cut short", put(CONFIG, "benchmark_contract_hash", "0" * 63), _BROKEN),
    Tampering("the hash in capitals", on_json(CONFIG, lambda c: c.update(benchmark_contract_hash=c["benchmark_contract_hash"].upper())), _BROKEN),
    Tampering("the seed edited", put(CONFIG, "seed", 1), _CLAIM),
    Tampering("the seed negative", put(CONFIG, "seed", -1), _CLAIM),
    Tampering("the seed taken out", drop_key(CONFIG, "seed"), _CLAIM),
    Tampering("the seed a bool", put(CONFIG, "seed", False), _BROKEN),
    Tampering("another seed with all that follows from it", _seed_one, ("schedule",)),
    Tampering("another seed's emulator seeds", put(CONFIG, "emulator_seeds", _OTHER_SEEDS), _CLAIM),
    Tampering("one emulator seed edited", put(CONFIG, "emulator_seeds.5", 7), _CLAIM),
    Tampering("emulator seeds taken out", drop_key(CONFIG, "emulator_seeds"), _CLAIM),
    Tampering("the suite's name on other mechanics", put(CONFIG, "suite", "stream-smoke-v1"), _CLAIM),
    Tampering("the suite's name and no overrides", both(put(CONFIG, "suite", "stream-smoke-v1"), put(CONFIG, "config_given.overrides", {})), _CLAIM),
    Tampering("another suite's name", both(put(CONFIG, "suite", "stream-8x3-v1"), put(CONFIG, "config_given.suite", "stream-8x3-v1")), _CLAIM),
    Tampering("an unknown suite", put(CONFIG, "config_given.suite", "stream-9x9-v1"), _CLAIM),
    Tampering("another hash in the custom name", put(CONFIG, "suite", "stream-smoke-v1+00000000"), _CLAIM),
    Tampering("a longer hash in the custom name", on_json(CONFIG, lambda c: c.update(suite=c["suite"] + "0")), _CLAIM),
    Tampering("another suite in the custom name", on_json(CONFIG, lambda c: c.update(suite=c["suite"].replace("smoke", "3x2"))), _CLAIM),
    Tampering("the suite taken out", drop_key(CONFIG, "suite"), _CLAIM),
    Tampering("another track", put(CONFIG, "track", "control"), _CLAIM),
    Tampering("overrides edited", put(CONFIG, "config_given.overrides.base_visit_frames", 701), _CLAIM),
    Tampering("an override added", put(CONFIG, "config_given.overrides.sticky", 0.0), _CLAIM),
    Tampering("an override of an unknown setting", put(CONFIG, "config_given.overrides.luck", 1), _CLAIM),
    Tampering("an override out of range", put(CONFIG, "config_given.overrides.delay", -1), _CLAIM),
    Tampering("an override of the wrong type", put(CONFIG, "config_given.overrides.games", 5), _CLAIM),
    Tampering("config_given taken out", drop_key(CONFIG, "config_given"), _CLAIM),
    Tampering("config_effective edited", put(CONFIG, "config_effective.delay", 0), _CLAIM),
    Tampering("config_effective with another key", put(CONFIG, "config_effective.luck", 1), _CLAIM),
    Tampering("config_effective with a float for an int", put(CONFIG, "config_effective.delay", 2.0), _CLAIM),
    Tampering("config_effective with a bool for an int", put(CONFIG, "config_effective.min_visit_frames", True), _CLAIM),
    Tampering("config_effective taken out", drop_key(CONFIG, "config_effective"), _CLAIM),
    Tampering("the agent taken out", drop_key(CONFIG, "agent"), _CLAIM),
    Tampering("another agent under the same id", put(CONFIG, "agent.config._type", "mine.Agent"), _CLAIM),
    Tampering("another agent id", put(CONFIG, "agent.agent_id", "0" * 64), _CLAIM),
    Tampering("the ROM hashes taken out", drop_key(CONFIG, "rom_md5"), _CLAIM),
    Tampering("the ROM hash of one game taken out", on_json(CONFIG, lambda c: c["rom_md5"].pop("qbert")), _CLAIM),
    Tampering("another contract version", put(CONFIG, "benchmark_contract_version", "v2"), ("contract version",)),
    Tampering("default action out of range", put(CONFIG, "default_action_idx", 18), ("action range", "contract hash")),
    Tampering("negative default action", put(CONFIG, "default_action_idx", -1), _BROKEN),
    Tampering("a delay longer than the run", put(CONFIG, "delay", 100_000), _HASHED),
    Tampering("a second delay that goes first", put(CONFIG, "delay_frames", 0), ("suite claim",)),
    Tampering("a delay beyond 64 bits", put(CONFIG, "delay", 2**80), _BROKEN),
    Tampering("a decision interval beyond 64 bits", put(CONFIG, "decision_interval", 2**80), _BROKEN),
    Tampering("visit frames beyond 64 bits", put(CONFIG, "schedule.0.visit_frames", 2**80), _BROKEN),
    Tampering("visit frames that add up beyond 64 bits", _put_all(2**62, "schedule.0.visit_frames", "schedule.1.visit_frames", "schedule.2.visit_frames"), _BROKEN),
    Tampering("a cycle beyond 64 bits", put(CONFIG, "schedule.0.cycle_idx", 2**80), _BROKEN),
    Tampering("no frames in a visit", put(CONFIG, "schedule.0.visit_frames", 0), _BROKEN),
    Tampering("a key too many in the schedule", put(CONFIG, "schedule.0.bonus", 1), ("suite claim",)),
    Tampering("an empty schedule", put(CONFIG, "schedule", []), _BROKEN),
    Tampering("no games", put(CONFIG, "games", []), _BROKEN),
    Tampering("no actions", put(CONFIG, "action_mapping_policy.global_action_set", []), _BROKEN),
    Tampering("a float where an int belongs in config", put(CONFIG, "delay", 2.0), _BROKEN),
    Tampering("a bool where an int belongs in config", put(CONFIG, "delay", True), _BROKEN),
    Tampering("an int where a bool belongs in config", put(CONFIG, "full_action_space", 1), _BROKEN),
    Tampering("a number as a string in config", put(CONFIG, "delay", "2"), _BROKEN),
    Tampering("a bottom-k share of 0", put(CONFIG, "scoring_defaults.bottom_k_frac", 0.0), _BROKEN),
    Tampering("three weights", put(CONFIG, "scoring_defaults.final_score_weights", [0.5, 0.5, 0.5]), _BROKEN),
    Tampering("a sticky of 1", put(CONFIG, "sticky", 1.0), _BROKEN),
    Tampering("NaN in config", put(CONFIG, "sticky", float("nan")), _BROKEN),
    Tampering("NaN in a key of config that is not read", put(CONFIG, "mood", float("nan")), _BROKEN),
    Tampering("1e999 in config", on_bytes(CONFIG, lambda data: data.replace(b'"sticky": 0.25', b'"sticky": 1e999')), _BROKEN),
    Tampering("1e999 in a key of config that is not read", on_bytes(CONFIG, lambda data: data.replace(b'"sticky":', b'"mood": 1e999,\n"sticky":', 1)), _BROKEN),
    Tampering("a key twice in config", on_bytes(CONFIG, _config_twice), _BROKEN),
    Tampering("null for a required key", put(CONFIG, "sticky", None), _BROKEN),
    *(Tampering(f"{key} taken out of config", drop_key(CONFIG, key), _BROKEN) for key in (
        "games", "schedule", "decision_interval", "delay", "sticky", "life_loss_termination", "full_action_space", "action_mapping_policy",
        "default_action_idx", "scoring_defaults", "benchmark_contract_version", "benchmark_contract_hash")),
    Tampering("config a list", on_bytes(CONFIG, lambda data: b"[" + data + b"]"), _BROKEN),
    Tampering("config a number", on_bytes(CONFIG, lambda data: b"1\n"), _BROKEN),
    Tampering("config empty", on_bytes(CONFIG, lambda data: b""), _BROKEN),
    Tampering("config cut", on_bytes(CONFIG, lambda data: data[:-10]), _BROKEN),
    Tampering("config not UTF-8", on_bytes(CONFIG, lambda data: data.replace(b'"qbert"', b'"qb\xffrt"', 1)), _BROKEN),
    Tampering("config with half a surrogate pair", on_bytes(CONFIG, lambda data: data.replace(b'"qbert"', b'"qb\\ud800rt"', 1)), _BROKEN),
    Tampering("config nested deep", on_bytes(CONFIG, lambda data: b'{"x": ' + _nest(100_000) + b"," + data[1:]), _BROKEN),
    Tampering("config nested less deep", on_bytes(CONFIG, lambda data: b'{"x": ' + _nest(700) + b"," + data[1:]), _BROKEN),
    Tampering("config with a number of 10,000 digits", on_bytes(CONFIG, lambda data: data.replace(b'"delay": 2', b'"delay": ' + b"2" * 10_000, 1)), _BROKEN),
]  # fmt: skip


# --- Tricks on score.json and run_summary.json --------------------------------------


def _partial_score(run: Path) -> None:
    """Puts the score of a run cut short as the score of the whole."""
    events = (run / EVENTS).read_bytes()
    on_rows(EVENTS, lambda rows: rows.__delitem__(slice(-1, None)))(run)
    write_score(run, score_run(run, partial=True))
    (run / EVENTS).write_bytes(events)


def _other_windows(run: Path) -> None:
    """Puts a score over other windows, under the run's own hash."""
    digest = read_json(run / SCORE)["benchmark_contract_hash"]
    write_score(run, score_run(run, window_frames=50))
    put(SCORE, "benchmark_contract_hash", digest)(run)


def _raise_fps(run: Path) -> None:
    add_to(SUMMARY, "fps", 1000.0)(run)
    add_to(SCORE, "fps", 1000.0)(run)


_SCORE_NUMBERS = (
    "final_score mean_score bottom_k_score per_game_scores.qbert"
    " per_game_scores.centipede forgetting_index_mean forgetting_index_median"
    " per_game_forgetting.qbert plasticity_mean plasticity_median"
    " per_game_plasticity.ms_pacman fps frames per_game_episode_counts.qbert"
    " per_game_visit_frames.qbert"
).split()
_SUMMARY_NUMBERS = (
    "frames decision_frames emulator_frames episodes segments visits.1.visit_idx"
    " visits.1.cycle_idx visits.1.frames visits.1.decision_frames"
    " visits.1.emulator_frames visits.1.reward_sum visits.1.game_reward_sum"
    " visits.1.episodes"
).split()
_SCORED: tuple[Kind, ...] = ("score",)
_SUMMED: tuple[Kind, ...] = ("summary",)

_RESULTS = [
    *(Tampering(f"{key} of the score edited", add_to(SCORE, key, 1), _SCORED) for key in _SCORE_NUMBERS),
    *(Tampering(f"{key} taken out of the score", drop_key(SCORE, key), _BROKEN) for key in (
        "final_score", "per_game_scores", "per_game_episode_counts", "fps", "frames", "benchmark_contract_hash")),
    Tampering("final_score off in the ninth digit", add_to(SCORE, "final_score", 1e-9), _SCORED),
    Tampering("final_score null", put(SCORE, "final_score", None), _SCORED),
    Tampering("final_score a string", put(SCORE, "final_score", "100"), _BROKEN),
    Tampering("final_score NaN", put(SCORE, "final_score", float("nan")), _BROKEN),
    Tampering("final_score 1e999", on_bytes(SCORE, lambda data: data.replace(b'"final_score": ', b'"final_score": 1e999, "x": ')), _BROKEN),
    Tampering("final_score twice", on_bytes(SCORE, lambda data: data.replace(b"{", b'{"final_score": 9.0,', 1)), _BROKEN),
    Tampering("frames of the score a float", on_json(SCORE, lambda s: s.update(frames=float(s["frames"]))), _BROKEN),
    Tampering("fps of the score null", put(SCORE, "fps", None), _SCORED),
    Tampering("a game taken out of the score", on_json(SCORE, lambda s: s["per_game_scores"].pop("qbert")), _SCORED),
    Tampering("a game put into the score", put(SCORE, "per_game_scores.pong", 21.0), _SCORED),
    Tampering("a game taken out of the forgetting", on_json(SCORE, lambda s: s["per_game_forgetting"].pop("qbert")), _SCORED),
    Tampering("the hash of the score edited", put(SCORE, "benchmark_contract_hash", "0" * 64), _SCORED),
    Tampering("the contract version of the score edited", put(SCORE, "benchmark_contract_version", "v2"), _SCORED),
    Tampering("a score over other windows", _other_windows, _SCORED),
    Tampering("a partial score", _partial_score, _SCORED),
    Tampering("a partial score called complete", both(_partial_score, put(SCORE, "complete", True), put(SCORE, "incomplete_visits", [])), _SCORED),
    Tampering("a score called partial", put(SCORE, "complete", False), _SCORED),
    Tampering("a visit left out of the score", put(SCORE, "incomplete_visits", [5]), _SCORED),
    Tampering("the score a list", on_bytes(SCORE, lambda data: b"[" + data + b"]"), _BROKEN),
    Tampering("the score empty", on_bytes(SCORE, lambda data: b""), _BROKEN),
    *(Tampering(f"{key} of the summary edited", add_to(SUMMARY, key, 1), _SUMMED) for key in _SUMMARY_NUMBERS),
    Tampering("the game of a visit of the summary edited", put(SUMMARY, "visits.0.game_id", "pong"), _SUMMED),
    Tampering("a visit taken out of the summary", on_json(SUMMARY, lambda s: s["visits"].pop()), _SUMMED),
    Tampering("a visit doubled in the summary", on_json(SUMMARY, lambda s: s["visits"].append(s["visits"][-1])), _SUMMED),
    Tampering("fps of the summary edited", add_to(SUMMARY, "fps", 1.0), _SCORED),
    Tampering("fps of summary and score edited", _raise_fps, _SUMMED),
    Tampering("frames of the summary a bool", put(SUMMARY, "frames", True), _BROKEN),
    Tampering("frames of the summary a float", on_json(SUMMARY, lambda s: s.update(frames=float(s["frames"]))), _BROKEN),
    Tampering("NaN in the agent's metrics", put(SUMMARY, "visits.0.metrics", {"loss": float("nan")}), _BROKEN),
    Tampering("1e999 in the agent's metrics", on_bytes(SUMMARY, lambda data: data.replace(b'"metrics": {}', b'"metrics": {"loss": 1e999}', 1)), _BROKEN),
    Tampering("a summary of a newer kind", put(SUMMARY, "schema_version", 2), _BROKEN),
    Tampering("the summary empty", on_bytes(SUMMARY, lambda data: b""), _BROKEN),
    *(Tampering(f"{file} missing", remove(file), ("missing file",)) for file in FILES),
]  # fmt: skip

_DIGESTED = ("digest row",)

# Their form alone: whether they are true, `verify` says.
_EVIDENCE = [
    Tampering("a digest taken out", on_rows(DIGESTS, lambda rows: rows.pop(1)), _DIGESTED),
    Tampering("a digest doubled", on_rows(DIGESTS, lambda rows: rows.insert(1, rows[1])), _DIGESTED),
    Tampering("the last digest taken out", on_rows(DIGESTS, lambda rows: rows.pop()), ("digest row", "summary")),
    Tampering("the frame of a digest edited", on_row(DIGESTS, 1, global_frame_idx=7), _DIGESTED),
    Tampering("the visit of a digest edited", on_row(DIGESTS, 1, visit_idx=9), _DIGESTED),
    Tampering("the visit frame of a digest edited", on_row(DIGESTS, 1, visit_frame_idx=3), _DIGESTED),
    Tampering("no digests at all", on_bytes(DIGESTS, lambda data: b""), ("digest row", "summary")),
    Tampering("a chain that is not a hash", on_row(DIGESTS, 1, chain="0" * 63), ("unreadable line", "digest row")),
    Tampering("a memory digest in capitals", on_row(DIGESTS, 1, ram_crc32="ABCDEF01"), ("unreadable line", "digest row")),
    Tampering("another key in a digest", on_row(DIGESTS, 1, note="true"), ("not canonical",)),
    Tampering("the last chain edited", on_row(DIGESTS, -1, chain="0" * 64), ("summary",)),
    Tampering("the head of the chain edited", put(SUMMARY, "chain_head", "0" * 64), ("summary",)),
    Tampering("the head of the chain taken out", put(SUMMARY, "chain_head", None), ("summary",)),
]  # fmt: skip

TAMPERINGS: list[Tampering] = [
    *_EVIDENCE,
    *_FRAMES,
    *_FLAGS,
    *_ACTIONS,
    *_REWARDS,
    *_SPANS,
    *_IDS,
    *_SPELLING,
    *_CONFIG,
    *_RESULTS,
]
