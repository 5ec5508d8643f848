"""The windows of a run: by hand, against every row, from the cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from generated_runs import write
from longplay.analysis import curves as module
from longplay.analysis.curves import (
    HEAD,
    SECOND_HALF,
    TAIL,
    Curves,
    cache_folder,
    count_frames,
    read_curves,
    recorded_sha256,
    scan_events,
)
from longplay.contract.records import PredictionScore
from longplay.contract.rundir import RunDirectory
from longplay.errors import DocumentError
from written_runs import make_config, write_run

GOLDEN = Path(__file__).parents[1] / "golden"


def slow_windows(run_dir: Path, column: str) -> dict[tuple[int, int], Fraction]:
    """(visit, window) -> the sum of a column, row by row, in exact arithmetic."""
    lines = (run_dir / "events.jsonl").read_bytes().splitlines()
    rows = [msgspec.json.decode(line) for line in lines]
    lengths: dict[int, int] = {}
    for row in rows:
        lengths[row["visit_idx"]] = lengths.get(row["visit_idx"], 0) + 1
    sums: dict[tuple[int, int], Fraction] = {}
    for row in rows:
        visit = row["visit_idx"]
        place = visit, row["visit_frame_idx"] * 60 // lengths[visit]
        sums[place] = sums.get(place, Fraction(0)) + Fraction(row[column])
    return sums


@pytest.mark.parametrize("name", ["v1", "control-v1", "prediction-v1"])
def test_scan_agrees_with_the_rows(name):
    found = scan_events(RunDirectory(GOLDEN / name))
    expected = slow_windows(GOLDEN / name, "reward")
    for (visit, window), total in expected.items():
        assert found.rewards[visit, window] == float(total)
    assert found.frames.sum() == RunDirectory(GOLDEN / name).config.total_frames


def test_errors_of_predictions_are_those_of_the_score():
    run = RunDirectory(GOLDEN / "prediction-v1")
    assert isinstance(run.score, PredictionScore)
    expected = list(run.score.per_game_nmse.values())
    assert scan_events(run).normalised_errors() == pytest.approx(expected)


def test_rates_by_hand(tmp_path):
    """Visit 0 pays 1 in its first tenth and 2 in its last; visit 1 half a point."""
    config = make_config()
    rewards = [1.0] * 6 + [0.0] * 48 + [2.0] * 6 + [0.5] * 60 + [0.0] * 240
    run = RunDirectory(write_run(tmp_path / "run", config, rewards))
    found = scan_events(run)
    assert found.rates(HEAD)[:3].tolist() == [1.0, 0.5, 0.0]
    assert found.rates(TAIL)[:3].tolist() == [2.0, 0.5, 0.0]
    assert found.rates(SECOND_HALF)[0] == pytest.approx(12 / 30)
    assert found.rates()[0] == pytest.approx(18 / 60)
    assert found.rate_of_first(0, 8) == pytest.approx(6 / 8)
    assert np.isnan(found.rate_of_first(0, 61))
    # The last two thirds of 360 frames begin where visit 2 does.
    assert found.rate_of_last(2 / 3) == 0.0
    assert found.rate_of_last(5 / 6) == pytest.approx(30 / 300)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=5), st.data())
def test_window_lengths_are_counted_right(lengths, data):
    played = data.draw(st.integers(0, sum(lengths)))
    expected = np.zeros((len(lengths), 60), np.int64)
    frame = 0
    for visit, length in enumerate(lengths):
        for i in range(length):
            expected[visit, i * 60 // length] += frame < played
            frame += 1
    assert np.array_equal(count_frames(lengths, played), expected)


def test_first_and_last_tenth_have_the_frames_they_are_said_to_have():
    frames = count_frames([936], 936)[0]
    assert (frames[HEAD].sum(), frames[TAIL].sum()) == (94, 93)


def test_run_stopped_in_the_middle_of_a_visit(tmp_path):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 75)
    found = scan_events(RunDirectory(run_dir))
    assert found.frames.sum(axis=1).tolist() == [60, 15, 0, 0, 0, 0]
    assert found.rates()[:2].tolist() == [1.0, 1.0]
    assert np.isnan(found.rates()[2:]).all()


def test_torn_last_line_does_not_count(tmp_path):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 75)
    events = run_dir / "events.jsonl"
    events.write_bytes(events.read_bytes()[:-20])
    assert scan_events(RunDirectory(run_dir)).frames.sum() == 74


def _drop(lines: list[bytes]) -> list[bytes]:
    return lines[:40] + lines[41:]


def _double(lines: list[bytes]) -> list[bytes]:
    return [*lines, lines[40]]


def _move(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b'"visit_idx":1', b'"visit_idx":9') for line in lines]


def _swap_windows(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b'frame_idx":40,', b'frame_idx":41,') for line in lines]


@pytest.mark.parametrize("damage", [_drop, _double, _move, _swap_windows])
def test_rows_that_are_not_a_run_are_refused(tmp_path, damage):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 360)
    events = run_dir / "events.jsonl"
    events.write_bytes(b"".join(damage(events.read_bytes().splitlines(True))))
    with pytest.raises(DocumentError, match=r"expected frames 0, 1, 2, … once each"):
        scan_events(RunDirectory(run_dir))


def test_missing_rows_are_an_error(tmp_path):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 360)
    (run_dir / "events.jsonl").unlink()
    for read in (scan_events, recorded_sha256):
        with pytest.raises(DocumentError, match=r"events\.jsonl: missing"):
            read(RunDirectory(run_dir))


# --- the cache ------------------------------------------------------------------


def equal(one: Curves, other: Curves) -> bool:
    pairs = ((getattr(one, n), getattr(other, n)) for n in one.__dataclass_fields__)
    return all(np.array_equal(a, b) if a is not None else b is None for a, b in pairs)


@pytest.mark.parametrize("name", ["v1", "prediction-v1"])
def test_second_reading_scans_nothing(tmp_path, monkeypatch, name):
    run, cache = RunDirectory(GOLDEN / name), tmp_path / "cache"
    first = read_curves(run, cache)

    def refuse(_: object) -> Curves:
        raise AssertionError("scanned again")

    monkeypatch.setattr(module, "scan_events", refuse)
    assert equal(read_curves(run, cache), first)


def test_nothing_is_written_into_the_run_directory(tmp_path):
    run_dir = shutil.copytree(GOLDEN / "v1", tmp_path / "run")
    before = sorted(run_dir.iterdir())
    read_curves(RunDirectory(run_dir), tmp_path / "cache")
    assert sorted(run_dir.iterdir()) == before


def test_other_rows_are_scanned_again(tmp_path):
    cache = tmp_path / "cache"
    for reward in (1.0, 2.0):
        run_dir = write_run(tmp_path / str(reward), make_config(), [reward] * 360)
        assert read_curves(RunDirectory(run_dir), cache).rates()[0] == reward
    assert len(list(cache.iterdir())) == 2


def test_run_cannot_change_what_is_cached_for_another(tmp_path):
    cache, config = tmp_path / "cache", make_config()
    true = write_run(tmp_path / "true", config, [1.0] * 360)
    false = shutil.copytree(true, tmp_path / "false")
    events = false / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(b'"reward":1.0', b'"reward":9.0'))
    with pytest.raises(DocumentError, match="expected SHA-256"):
        read_curves(RunDirectory(false), cache)
    assert read_curves(RunDirectory(true), cache).rates()[0] == 1.0
    events.write_bytes(events.read_bytes()[:-1])
    with pytest.raises(DocumentError, match=r"expected [\d,]+ bytes"):
        read_curves(RunDirectory(false), cache)


@pytest.mark.parametrize("content", ["", "{}", '{"played": 3, "rewards": [1]}', "[]"])
def test_damaged_cache_is_scanned_again(tmp_path, content):
    run, cache = RunDirectory(GOLDEN / "v1"), tmp_path / "cache"
    first = read_curves(run, cache)
    (path,) = cache.iterdir()
    path.write_text(content)
    assert equal(read_curves(run, cache), first)
    assert path.read_text() != content


def test_cache_that_cannot_be_written_costs_no_result(tmp_path):
    (tmp_path / "file").write_text("")
    run = RunDirectory(GOLDEN / "v1")
    assert equal(read_curves(run, tmp_path / "file" / "cache"), scan_events(run))


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("LONGPLAY_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / "curves"
    monkeypatch.delenv("LONGPLAY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "longplay" / "curves"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "longplay" / "curves"


def write_long_run(run_dir: Path, visit_frames: int) -> None:
    """Rows with the keys that a scan reads, written as they are made."""
    config = make_config(
        overrides={"base_visit_frames": visit_frames, "jitter_pct": 0.0}
    )
    run_dir.mkdir()
    write(run_dir / "config.json", config)
    with (run_dir / "events.jsonl").open("w") as file:
        for visit in config.schedule:
            start = visit.visit_idx * visit_frames
            file.writelines(
                f'{{"global_frame_idx":{start + i},"visit_idx":{visit.visit_idx},'
                f'"visit_frame_idx":{i},"reward":1.0}}\n'
                for i in range(visit_frames)
            )


@pytest.mark.exhaustive
def test_memory_does_not_grow_with_the_run(tmp_path):
    """Ten times the rows, 250 MB of them: less than 100 MB more, DuckDB's buffers."""
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from longplay.analysis.curves import scan_events\n"
        "from longplay.contract.rundir import RunDirectory\n"
        "scan_events(RunDirectory(Path(sys.argv[1])))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = []
    for visit_frames in (50_000, 500_000):
        write_long_run(tmp_path / str(visit_frames), visit_frames)
        command = [sys.executable, "-c", code, str(tmp_path / str(visit_frames))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 100_000
