"""Runs recorded once and never rewritten: old runs stay valid, and play the same."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import longplay
from playing import play_run

GOLDEN = Path(__file__).parents[1] / "golden"
# `make golden` adds a run's lines when it makes the run; no line ever changes.
SHA256 = dict(
    reversed(line.split("  "))
    for line in (GOLDEN / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
)
RUNS = sorted(path.parent.name for path in GOLDEN.glob("*/config.json"))

# Track -> who played.
AGENTS = {
    "streaming": "random",
    "control": "random",
    "prediction": str(GOLDEN / "predictor.py"),
}


@pytest.fixture(params=RUNS)
def golden(request: pytest.FixtureRequest) -> Path:
    return GOLDEN / request.param


def test_every_golden_file_is_listed() -> None:
    files = {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.glob("*/*.json*")}
    assert set(SHA256) == files
    assert {"v1", "control-v1", "prediction-v1"} <= set(RUNS)


@pytest.mark.seed("000", "scope-1")
@pytest.mark.parametrize("name", SHA256)
def test_golden_files_are_never_rewritten(name: str) -> None:
    found = hashlib.sha256((GOLDEN / name).read_bytes()).hexdigest()
    assert found == SHA256[name]


@pytest.mark.seed("000", "versions-8")
def test_golden_run_stays_valid(golden: Path) -> None:
    assert longplay.validate_run(golden).findings.shown == []


@pytest.mark.seed("000", "versions-4")
def test_golden_score_stays_the_same(golden: Path) -> None:
    assert longplay.score_run(golden) == longplay.read_run(golden).score


@pytest.mark.few(3)
@pytest.mark.seed("000", "scope-1", "versions-2")
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
    # Those that it has: some runs are older than digests.jsonl or curves.jsonl.
    names = sorted(path.name for path in golden.glob("*.jsonl"))
    assert "events.jsonl" in names
    for name in names:
        assert (result.run_dir / name).read_bytes() == (golden / name).read_bytes()
