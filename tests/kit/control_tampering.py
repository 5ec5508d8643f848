"""More ways to tamper with a control run, besides those in `tampering`."""

# A table reads best with one trick per line, however long.
# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from longplay.contract.findings import Kind
from tampering import (
    CONFIG,
    EVENTS,
    SCORE,
    SUMMARY,
    Row,
    Tampering,
    Trick,
    add_to,
    both,
    drop_key,
    on_json,
    on_rows,
    put,
    read_json,
    remove,
    repair_hash,
    repair_score,
    respell,
)

CONTROL = "control_run"


def on_first(wanted: Callable[[Row], bool], **values: object) -> Trick:
    """Sets values in the first row that is wanted."""

    def edit(rows: list[Row]) -> None:
        next(row for row in rows if wanted(row)).update(values)

    return on_rows(EVENTS, edit)


def on_every(edit: Callable[[Row], object]) -> Trick:
    """Changes every row."""
    return on_rows(EVENTS, lambda rows: [edit(row) for row in rows])


def is_paid(row: Row) -> bool:
    return bool(row["game_reward"] > 0)


def is_over(row: Row) -> bool:
    return bool(row["terminated"])


def is_plain(row: Row) -> bool:
    return not (row["game_reward"] or row["terminated"] or row["truncated"])


def pay_raw(row: Row) -> None:
    row["reward"] = row["game_reward"]


def call_it_v1(run: Path) -> None:
    """Converts rows and settings to v1, as far as possible."""
    for key in ("frame_skip", "reward", "discount"):
        drop_key(CONFIG, key)(run)
    put(CONFIG, "benchmark_contract_version", "v1")(run)
    put(CONFIG, "track", "streaming")(run)

    def drop(row: Row) -> None:
        del row["game_reward"], row["emulator_frames"]

    on_every(drop)(run)
    repair_hash(run)
    remove(SCORE)(run)
    repair_score(run)


def double_reward_sum(run: Path) -> None:
    total = read_json(run / SCORE)["per_game_cumulative_reward"]["asterix"]
    put(SCORE, "per_game_cumulative_reward.asterix", 2 * total + 1)(run)


_TOTALS = (
    "cumulative_reward cumulative_game_score per_game_cumulative_reward.asterix"
    " per_game_cumulative_game_score.breakout reward_rate.0.rate reward_rate.1.timestep"
    " final_score per_game_scores.breakout"
).split()
_KEYS = "cumulative_reward per_game_cumulative_game_score reward_rate".split()
_SETTINGS: dict[str, object] = {"frame_skip": 3, "reward": "raw", "discount": 0.9}
_BROKEN: tuple[Kind, ...] = ("unreadable document",)
_LINE: tuple[Kind, ...] = ("unreadable line",)
_CLAIM: tuple[Kind, ...] = ("suite claim",)
_SCORED: tuple[Kind, ...] = ("score",)
_SUMMED: tuple[Kind, ...] = ("summary",)
_PAID: tuple[Kind, ...] = ("delivered reward",)
_COUNTED: tuple[Kind, ...] = ("emulator frames",)
_SPELT: tuple[Kind, ...] = ("not canonical",)

CONTROL_TAMPERINGS = [
    # Rewards
    Tampering("a reward delivered that the game did not pay", on_first(is_plain, reward=1.0), (*_PAID, *_SCORED, *_SUMMED), CONTROL),
    Tampering("a reward delivered twice as high", on_first(is_paid, reward=2.0), (*_PAID, *_SCORED), CONTROL),
    Tampering("a reward of the game held back", on_first(is_paid, reward=0.0), _PAID, CONTROL),
    Tampering("a reward with the other sign", on_first(is_paid, reward=-1.0), _PAID, CONTROL),
    Tampering("a game that pays less and is delivered the same", on_first(is_paid, game_reward=0.5), (*_SCORED, *_SUMMED), CONTROL),
    Tampering("a game that takes what it gave", on_first(is_paid, game_reward=-50.0), _PAID, CONTROL),
    Tampering("a game reward that is not delivered", on_first(is_plain, game_reward=7.0), (*_PAID, *_SCORED), CONTROL),
    Tampering("raw rewards delivered, and scored", both(on_every(pay_raw), repair_score), _PAID, CONTROL),
    Tampering("raw rewards delivered by a config that says so", both(on_every(pay_raw), put(CONFIG, "reward", "raw"), repair_hash, repair_score), _CLAIM, CONTROL),
    Tampering("a game reward too large to be true", on_first(is_plain, game_reward=1e16), _LINE, CONTROL),
    Tampering("a game reward that is an int", respell(EVENTS, 0, b'"game_reward":0.0', b'"game_reward":0'), _SPELT, CONTROL),
    Tampering("a game reward that is a string", on_first(is_plain, game_reward="0.0"), _LINE, CONTROL),
    # Emulator frames
    Tampering("a timestep of three frames", on_first(is_plain, emulator_frames=3), (*_COUNTED, *_SUMMED), CONTROL),
    Tampering("a timestep of five frames", on_first(is_plain, emulator_frames=5), _COUNTED, CONTROL),
    Tampering("a game over after no frame", on_first(is_over, emulator_frames=0), _COUNTED, CONTROL),
    Tampering("a game over after five frames", on_first(is_over, emulator_frames=5), _COUNTED, CONTROL),
    Tampering("a negative number of frames", on_first(is_plain, emulator_frames=-4), _LINE, CONTROL),
    Tampering("emulator frames a float", on_first(is_plain, emulator_frames=4.0), _LINE, CONTROL),
    # Keys
    *(Tampering(f"a row without its {key}", on_rows(EVENTS, lambda rows, key=key: rows[7].pop(key)), _LINE, CONTROL) for key in ("lives", "game_reward", "emulator_frames")),
    Tampering("a row with a key of the prediction track", on_first(is_plain, prediction=0.5), _SPELT, CONTROL),
    Tampering("the keys of a row in another order", on_rows(EVENTS, lambda rows: rows[7].update(lives=rows[7].pop("lives"))), _SPELT, CONTROL),
    # Settings
    *(Tampering(f"{key} of a control run edited", put(CONFIG, key, value), ("contract hash", *_CLAIM), CONTROL) for key, value in _SETTINGS.items()),
    *(Tampering(f"{key} of a control run edited with a new hash", both(put(CONFIG, key, value), repair_hash), _CLAIM, CONTROL) for key, value in _SETTINGS.items()),
    *(Tampering(f"{key} of a control run left out", drop_key(CONFIG, key), _BROKEN, CONTROL) for key in ("track", *_SETTINGS)),
    Tampering("an unknown reward rule", put(CONFIG, "reward", "clip"), _BROKEN, CONTROL),
    Tampering("a frame skip of none", put(CONFIG, "frame_skip", 0), _BROKEN, CONTROL),
    Tampering("a control run of a later version", put(CONFIG, "benchmark_contract_version", "control-v2"), ("contract version",), CONTROL),
    Tampering("a control run called v1", put(CONFIG, "benchmark_contract_version", "v1"), ("contract hash", *_CLAIM, *_SPELT), CONTROL),
    Tampering("a control run made over into a v1 run", call_it_v1, _CLAIM, CONTROL),
    Tampering("a control run called streaming", both(put(CONFIG, "track", "streaming"), repair_hash), _CLAIM, CONTROL),
    Tampering("the sequence of games turned around", both(on_json(CONFIG, lambda c: c["games"].reverse()), repair_hash), _CLAIM, CONTROL),
    # Results
    *(Tampering(f"{key} of a control score edited", add_to(SCORE, key, 1), _SCORED, CONTROL) for key in _TOTALS),
    *(Tampering(f"{key} taken out of a control score", drop_key(SCORE, key), _BROKEN, CONTROL) for key in _KEYS),
    Tampering("a total off in the ninth digit", add_to(SCORE, "cumulative_reward", 1e-9), _SCORED, CONTROL),
    Tampering("a game's total doubled", double_reward_sum, _SCORED, CONTROL),
    Tampering("a game taken out of the totals", on_json(SCORE, lambda s: s["per_game_cumulative_reward"].pop("breakout")), _SCORED, CONTROL),
    Tampering("a point taken out of the curve", on_json(SCORE, lambda s: s["reward_rate"].pop()), _SCORED, CONTROL),
    Tampering("a key put into a point of the curve", put(SCORE, "reward_rate.0.note", 1), _SCORED, CONTROL),
    Tampering("a point of the curve a number", put(SCORE, "reward_rate.0", 0.5), _BROKEN, CONTROL),
    Tampering("emulator frames of the summary of a control run edited", add_to(SUMMARY, "emulator_frames", 1), _SUMMED, CONTROL),
    Tampering("game rewards of a visit of a control run edited", add_to(SUMMARY, "visits.1.game_reward_sum", 1), _SUMMED, CONTROL),
    Tampering("emulator frames of a visit counted as timesteps", on_json(SUMMARY, lambda s: s["visits"][0].update(emulator_frames=s["visits"][0]["frames"])), _SUMMED, CONTROL),
]  # fmt: skip
