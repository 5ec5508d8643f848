"""Output folders that are refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from failing_runs import (
    ONE_VISIT,
    SUITE,
    Left,
    play,
)

pytestmark = pytest.mark.usefixtures("working_dir")


def test_existing_out_is_refused(refuse: Callable[..., str], tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "precious.txt").write_text("precious")
    message = refuse("run", SUITE, "--agent", "random", "--out", out, *ONE_VISIT)
    assert "mine exists already; choose a new folder for --out" in message
    assert [path.name for path in out.iterdir()] == ["precious.txt"]


def test_out_that_is_a_file_is_refused(
    refuse: Callable[..., str], tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    out.write_text("precious")
    message = refuse("run", SUITE, "--agent", "random", "--out", out, *ONE_VISIT)
    assert "mine exists already" in message
    assert out.read_text() == "precious"


def test_out_below_a_file_is_refused(
    refuse: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("precious")
    out = tmp_path / "mine" / "out"
    message = refuse("run", SUITE, "--agent", "random", "--out", out, *ONE_VISIT)
    assert str(out) in message


def test_second_run_into_the_same_out_is_refused(
    invoke: Callable[..., Any], refuse: Callable[..., str], left: Left
) -> None:
    play(invoke, "noop", left.out)
    before = left.rows()
    refuse("run", SUITE, "--agent", "random", "--out", left.out, *ONE_VISIT)
    assert left.rows() == before


def test_too_little_disk_space_is_refused(
    refuse: Callable[..., str], left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2_000_000))
    message = refuse("run", SUITE, "--agent", "random", "--out", left.out)
    assert "the run needs about 3 MB of disk" in message
    assert "has 2 MB free" in message
    assert not left.out.exists()


def test_enough_disk_space_for_a_smaller_run(
    invoke: Callable[..., Any], left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2_000_000))
    assert len(play(invoke, "noop", left.out).rows()) == 60
