"""A tuning run: the first part of the stream, a result of its own, never a score."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import longplay
from longplay.contract.files import hash_file
from longplay.contract.rundir import ROW_FILES
from longplay.errors import ConfigError
from longplay.plan import plan_run
from longplay.suites import find_split
from rows import read_rows

SUITE = "control-smoke-v1"


@pytest.fixture(scope="module")
def tuning_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from typer.testing import CliRunner

    from longplay.cli.app import app

    out = tmp_path_factory.mktemp("tuning") / "out"
    command = ["run", SUITE, "--agent", "random", "--seed", "1000", "--quiet"]
    result = CliRunner().invoke(
        app, [*command, "--stop-after", "0.5", "--out", str(out)]
    )
    assert result.exit_code == 0, result.stderr
    return next((out / "episodes").iterdir())


def test_it_stops_after_the_fraction_rounded_up():
    assert plan_run(SUITE, 1000, stop_after=0.5).config.total_frames == 750
    assert plan_run(SUITE, 1000, stop_after=0.0001).config.total_frames == 1
    config = plan_run(SUITE, 1000, stop_after=0.5).config
    assert [v.visit_frames for v in config.played_schedule] == [500, 250]
    assert [v.visit_frames for v in config.schedule] == [500, 500, 500]
    whole = plan_run(SUITE, 1000).config
    assert config.benchmark_contract_hash == whole.benchmark_contract_hash


@pytest.mark.parametrize("fraction", [0.0, 1.0, -1.0, 2.0, float("nan")])
def test_other_fractions_are_refused(fraction: float):
    with pytest.raises(ConfigError, match="stop_after: expected a fraction between"):
        plan_run(SUITE, 1000, stop_after=fraction)


def test_its_rows_are_the_first_of_the_whole_run(tuning_run: Path, tmp_path: Path):
    whole = longplay.run(SUITE, "random", seeds=[1000], out=tmp_path / "e").runs[0]
    rows = read_rows(tuning_run / "events.jsonl")
    expected = read_rows(whole.run_dir / "events.jsonl")[: len(rows)]
    assert len(rows) == 750
    assert rows[:-1] == expected[:-1]
    assert rows[-1] == {**expected[-1], "truncated": True}


def test_it_is_complete_and_valid_and_has_no_score(tuning_run: Path):
    run = longplay.read_run(tuning_run)
    assert run.status.state == "COMPLETED"
    assert run.config.stop_frame == 750
    assert longplay.validate_run(tuning_run).is_valid
    assert longplay.verify_run(tuning_run).passed
    assert not (tuning_run / "score.json").exists()
    tuning = json.loads((tuning_run / "tuning.json").read_text())
    assert tuning["stop_frame"] == 750
    assert list(tuning["per_game"]) == ["pong", "breakout"]
    parts = tuning["per_game"].values()
    assert tuning["value"] == pytest.approx(sum(parts) / 2)
    with pytest.raises(longplay.IncompleteRunError, match="a tuning run has no score"):
        longplay.score_run(tuning_run)


def test_a_score_or_a_missing_result_is_a_finding(
    tuning_run: Path, copy_of: Callable[[Path], Path]
):
    run_dir = copy_of(tuning_run)
    (run_dir / "tuning.json").rename(run_dir / "score.json")
    counts = longplay.validate_run(run_dir).findings.counts
    assert counts == {"score": 1, "missing file": 1}


def test_it_cannot_be_resumed_beyond_its_end(tuning_run: Path, invoke: Callable):
    out = tuning_run.parent.parent
    answer = invoke(
        *("run", SUITE, "--agent", "random", "--seed", 1000, "--out", out),
        *("--resume", "--quiet"),
    )
    assert answer.exit_code == 2
    assert "config_given.stop_after" in answer.stderr


def test_it_is_exported_as_validation_and_never_as_a_test(
    tuning_run: Path, tmp_path: Path, invoke: Callable
):
    lines = tmp_path / "lines.jsonl"
    assert invoke("export", tuning_run, "--jsonl", lines).exit_code == 0
    record = json.loads(lines.read_text())
    assert record["split"] == "val"
    tuning = json.loads((tuning_run / "tuning.json").read_text())
    assert record["reward"] == tuning["value"]
    out = tmp_path / "official"
    command = ("run", SUITE, "--agent", "random", "--stop-after", 0.1, "--quiet")
    answer = invoke(*command, "--seed", 0, "--out", out)
    assert "a tuning run on an official seed" in answer.stderr + answer.stdout
    answer = invoke("export", out, "--jsonl", tmp_path / "none.jsonl")
    assert answer.exit_code != 0
    assert not (tmp_path / "none.jsonl").exists()


@pytest.mark.parametrize(
    ("suite", "seed", "split"),
    [
        ("control-v1", 0, "test"),
        ("control-v1", 4, "test"),
        ("control-v1", 5, None),
        ("control-v1", 999, None),
        ("control-v1", 1000, "val"),
        ("stream-8x3-v1", 2, "test"),
        ("stream-8x3-v1", 3, None),
        ("stream-8x3-1m-v1", 4, None),
        ("control-v1+01234567", 0, None),
        ("control-v1+01234567", 1234, "val"),
    ],
)
def test_splits_follow_from_suite_and_seed(suite: str, seed: int, split: str | None):
    assert find_split(suite, seed) == split


def test_a_complete_run_carries_the_hashes_of_its_files(finished_run: Path):
    summary = longplay.read_run(finished_run).summary
    assert summary.score_sha256 == hash_file(finished_run / "score.json")
    assert list(summary.rows) == list(ROW_FILES)
    for name, digest in summary.rows.items():
        path = finished_run / name
        assert digest.bytes == path.stat().st_size
        assert digest.sha256 == hash_file(path)
