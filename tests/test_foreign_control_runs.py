"""A control run of another tool: what `control-v1` requires is required of it, too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import longplay
from longplay.contract.documents import ControlScore
from rows import read_rows
from tampering import CONFIG, EVENTS, Trick, drop_key, on_json, on_row, on_rows, put

# Keys that only longplay writes.
OWN_KEYS = (
    "suite seed emulator_seeds rom_md5 rom_sha256 agent versions git config_given"
    " config_effective"
).split()


@pytest.fixture
def foreign_run(control_run: Path, copy_of: Callable[[Path], Path]) -> Path:
    """The run as another tool may have written it, in its own spelling."""
    run = copy_of(control_run)
    for key in OWN_KEYS:
        drop_key(CONFIG, key)(run)
    for name in (EVENTS, "episodes.jsonl", "segments.jsonl"):
        rows = read_rows(run / name)
        (run / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("run_summary.json", "status.json", "episode_config.json"):
        (run / name).unlink()
    return run


def test_foreign_control_run_is_valid(foreign_run: Path) -> None:
    report = longplay.validate_run(foreign_run)
    assert report.findings.is_foreign
    assert report.findings.shown == []


def test_foreign_control_run_is_scored(foreign_run: Path, control_run: Path) -> None:
    score, own = longplay.score_run(foreign_run), longplay.read_run(control_run).score
    assert isinstance(score, ControlScore)
    assert isinstance(own, ControlScore)
    assert score.cumulative_reward == own.cumulative_reward
    assert score.reward_rate == own.reward_rate


FOUND: list[tuple[Trick, str]] = [
    (on_rows(EVENTS, lambda rows: rows[3].pop("game_reward")), "unreadable line"),
    (on_rows(EVENTS, lambda rows: rows[3].pop("emulator_frames")), "unreadable line"),
    (on_row(EVENTS, 3, emulator_frames=5), "emulator frames"),
    (on_row(EVENTS, 3, game_reward=-3.0), "delivered reward"),
    (put(CONFIG, "reward", "raw"), "contract hash"),
    (drop_key(CONFIG, "frame_skip"), "unreadable document"),
    (drop_key(CONFIG, "track"), "unreadable document"),
    (put(CONFIG, "benchmark_contract_version", "control-v9"), "contract version"),
    (on_json("score.json", lambda s: s.pop("reward_rate")), "unreadable document"),
]


@pytest.mark.parametrize(("trick", "kind"), FOUND)
def test_what_the_contract_says_is_a_finding(
    trick: Trick, kind: str, foreign_run: Path
) -> None:
    trick(foreign_run)
    assert kind in longplay.validate_run(foreign_run).findings.counts


def test_unknown_version_is_named(foreign_run: Path) -> None:
    put(CONFIG, "benchmark_contract_version", "prediction-v9")(foreign_run)
    shown = [
        str(finding) for finding in longplay.validate_run(foreign_run).findings.shown
    ]
    expected = "(v1, control-v1, prediction-v1), found 'prediction-v9'"
    assert any(expected in line for line in shown)
