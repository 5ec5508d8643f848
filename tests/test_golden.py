"""A run recorded once and never rewritten: old runs stay valid, and play the same."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import longplay
from longplay.contract.rundir import ROW_FILES

GOLDEN = Path(__file__).parent / "golden" / "v1"

# The first 32 of 64 hex digits.
SHA256 = {
    "config.json": "c3280f07130c7f0528e7fa2b06d63e83",
    "episodes.jsonl": "50948a4fe599c87a9f92562aa9405312",
    "events.jsonl": "4e0c7b71e1314f70ae6fe0750c586475",
    "run_summary.json": "bfe027467187b24df4b73356447de788",
    "score.json": "4fd0fa0573600aa7b9e991ec8bfb8d1c",
    "segments.jsonl": "ed9b38aac03eb8179bdb1b1b9fa4120d",
}


@pytest.mark.parametrize("name", SHA256)
def test_golden_files_are_never_rewritten(name: str) -> None:
    found = hashlib.sha256((GOLDEN / name).read_bytes()).hexdigest()[:32]
    assert found == SHA256[name]


def test_golden_run_stays_valid() -> None:
    assert longplay.validate_run(GOLDEN).findings.shown == []


def test_golden_score_stays_the_same() -> None:
    assert longplay.score_run(GOLDEN) == longplay.read_run(GOLDEN).score


def test_golden_run_plays_the_same_again(tmp_path: Path) -> None:
    config = longplay.read_run(GOLDEN).config
    assert config.config_given is not None
    assert config.seed is not None
    result = longplay.run(
        config.config_given.suite,
        "random",
        seed=config.seed,
        out=tmp_path / "again",
        overrides=config.config_given.overrides,
    )
    # It is older than digests.jsonl.
    for name in ROW_FILES[:3]:
        assert (result.run_dir / name).read_bytes() == (GOLDEN / name).read_bytes()
