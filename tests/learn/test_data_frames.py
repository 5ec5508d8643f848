"""Tables as data frames of pandas and polars, which only `make test-all` installs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import longplay
from rows import read_rows

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> longplay.Comparison:
    out = tmp_path_factory.mktemp("frames") / "e"
    settings = {"base_visit_frames": 120}
    longplay.run("control-smoke-v1", "random", out=out, overrides=settings)
    return longplay.compare(out)


def list_rows(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame of either library."""
    return frame.to_dicts() if hasattr(frame, "to_dicts") else frame.to_dict("records")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_rows_of_a_run(library: str, finished_run: Path) -> None:
    expected = read_rows(finished_run / "episodes.jsonl")
    episodes = longplay.read_run(finished_run).episodes
    assert list_rows(getattr(episodes, f"to_{library}")()) == expected
    some = getattr(episodes, f"to_{library}")("game_id", "return")
    assert list(some.columns) == ["game_id", "return"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_numbers_of_a_comparison(library: str, comparison: longplay.Comparison) -> None:
    frame = getattr(comparison, f"to_{library}")()
    assert len(frame) == len(comparison.numbers) > 3
    assert list(frame["agent"]) == ["random"] * len(frame)
    assert list(frame["mean"]) == comparison.numbers["mean"].tolist()
    # One run has no interval.
    missing = frame["low"].isna() if library == "pandas" else frame["low"].is_null()
    assert missing.all()


def test_other_libraries_read_arrow(
    comparison: longplay.Comparison, finished_run: Path
) -> None:
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(comparison.numbers).equals(
        polars.from_arrow(comparison.arrow())
    )
    run = longplay.read_run(finished_run)
    frame = polars.DataFrame(run.events)
    assert frame["reward"].to_list() == run.events.numpy("reward")["reward"].tolist()
