"""Runs recorded once and never rewritten: old runs stay valid, and play the same."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import longplay
from longplay.contract.rundir import ROW_FILES
from playing import play_run

GOLDEN = Path(__file__).parent / "golden"

# The first 32 of 64 hex digits.
SHA256 = {
    "v1/config.json": "c3280f07130c7f0528e7fa2b06d63e83",
    "v1/episodes.jsonl": "50948a4fe599c87a9f92562aa9405312",
    "v1/events.jsonl": "4e0c7b71e1314f70ae6fe0750c586475",
    "v1/run_summary.json": "bfe027467187b24df4b73356447de788",
    "v1/score.json": "4fd0fa0573600aa7b9e991ec8bfb8d1c",
    "v1/segments.jsonl": "ed9b38aac03eb8179bdb1b1b9fa4120d",
    "control-v1/config.json": "ecb6a18e1d8e03e60287426bc1a77a93",
    "control-v1/episodes.jsonl": "7649cfa265d12ad8fa036aeddf20896b",
    "control-v1/events.jsonl": "8d9dc9d862d6338276cbec245f377b18",
    "control-v1/run_summary.json": "c10286eaee139ea0818a84de7e425629",
    "control-v1/score.json": "3871ebb7d7047f96fc8b6e3c83101c3c",
    "control-v1/segments.jsonl": "70031e21f8674fb2c82d0910dff1667f",
    "prediction-v1/config.json": "d67d60b26960e3cfcb9eeedf58d6c947",
    "prediction-v1/digests.jsonl": "c7dba230eeafc05848049f6729b95d85",
    "prediction-v1/episodes.jsonl": "b4f7773f391ed22a2338f0ca4b223e1d",
    "prediction-v1/events.jsonl": "4ed2ea5a2673a4c5957c0d0589869711",
    "prediction-v1/run_summary.json": "bb0461b1548551e1721f80380fbf5a02",
    "prediction-v1/score.json": "697f2f9ef96e5ad0591f8fb28c7aafd4",
    "prediction-v1/segments.jsonl": "64e9c0e4b0ab138f048d13829e88fe12",
}


# Track -> who played.
AGENTS = {
    "streaming": "random",
    "control": "random",
    "prediction": str(GOLDEN / "predictor.py"),
}


@pytest.fixture(params=["v1", "control-v1", "prediction-v1"])
def golden(request: pytest.FixtureRequest) -> Path:
    return GOLDEN / request.param


@pytest.mark.parametrize("name", SHA256)
def test_golden_files_are_never_rewritten(name: str) -> None:
    found = hashlib.sha256((GOLDEN / name).read_bytes()).hexdigest()[:32]
    assert found == SHA256[name]


def test_golden_run_stays_valid(golden: Path) -> None:
    assert longplay.validate_run(golden).findings.shown == []


def test_golden_score_stays_the_same(golden: Path) -> None:
    assert longplay.score_run(golden) == longplay.read_run(golden).score


def test_golden_run_plays_the_same_again(golden: Path, tmp_path: Path) -> None:
    config = longplay.read_run(golden).config
    assert config.config_given is not None
    assert config.seed is not None
    result = play_run(
        config.config_given.suite,
        AGENTS[config.track or "streaming"],
        seed=config.seed,
        out=tmp_path / "again",
        overrides=config.config_given.overrides,
    )
    # Two of them are older than digests.jsonl.
    for name in [name for name in ROW_FILES if (golden / name).exists()]:
        assert (result.run_dir / name).read_bytes() == (golden / name).read_bytes()
