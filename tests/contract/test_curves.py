"""The windows of a run: by hand, against every row, on the disk."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import longplay
from generated_runs import write
from longplay.contract.curves import (
    HEAD,
    SECOND_HALF,
    TAIL,
    Curves,
    VisitWindows,
    count_frames,
    parse_curve_rows,
)
from longplay.contract.documents import PredictionScore
from longplay.contract.rows import EventRow
from longplay.contract.rules import sum_events
from longplay.contract.rundir import RunDirectory
from longplay.errors import DocumentError
from written_runs import make_config, write_run

GOLDEN = Path(__file__).parents[1] / "golden"


def scan_events(run: RunDirectory) -> Curves:
    """The windows of a run, from its events alone."""
    rows = sum_events(run.path / "events.jsonl", run.config)
    return Curves.from_rows(rows, run.config.played_schedule)


def make_event(reward: float) -> EventRow:
    return EventRow(0, "a", 0, 0, 0, 0, 0, True, 0, 0, reward, False, False, 3)


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


def test_torn_last_line_does_not_count(tmp_path):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 75)
    events = run_dir / "events.jsonl"
    events.write_bytes(events.read_bytes()[:-20])
    assert scan_events(RunDirectory(run_dir)).frames.sum() == 60


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


def test_run_without_rows_has_no_curves(tmp_path):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 360)
    (run_dir / "events.jsonl").unlink()
    assert RunDirectory(run_dir).curves is None


# --- curves.jsonl ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["v1", "control-v1", "prediction-v1"])
def test_recorder_and_reader_get_the_same_bits(name):
    """Added frame by frame in blocks of any length, or column by column."""
    config = RunDirectory(GOLDEN / name).config
    expected = sum_events(GOLDEN / name / "events.jsonl", config)
    lines = (GOLDEN / name / "events.jsonl").read_bytes().splitlines()
    rows = [msgspec.json.decode(line, type=config.event_row) for line in lines]
    for visit, row in zip(config.played_schedule, expected, strict=True):
        mine = [r for r in rows if r.visit_idx == visit.visit_idx]
        windows = VisitWindows(visit.visit_frames)
        for start in range(0, len(mine), 37):
            windows.add(start, mine[start : start + 37])
        assert windows.to_row(visit) == row


def test_sums_round_after_every_frame():
    """0.1 ten times is 0.9999999999999999, which no compensated sum would give."""
    visit = make_config().schedule[0].model_copy(update={"visit_frames": 600})
    windows = VisitWindows(600)
    windows.add(0, [make_event(reward=0.1)] * 600)
    assert windows.to_row(visit).reward_sums == [0.9999999999999999] * 60


def test_visit_shorter_than_its_windows():
    windows = VisitWindows(7)
    windows.add(0, [make_event(reward=1.0)] * 7)
    sums = windows.sums["reward_sums"]
    assert [k for k, total in enumerate(sums) if total] == [0, 8, 17, 25, 34, 42, 51]


def test_visit_that_has_not_ended_has_no_row(tmp_path):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 75)
    found = RunDirectory(run_dir).curves
    assert found is not None
    assert found.frames.sum(axis=1).tolist() == [60, 0, 0, 0, 0, 0]


def write_curves(run_dir: Path) -> Path:
    rows = sum_events(run_dir / "events.jsonl", RunDirectory(run_dir).config)
    path = run_dir / "curves.jsonl"
    path.write_bytes(msgspec.json.Encoder().encode_lines(rows))
    return path


def test_curves_are_read_without_the_events(tmp_path):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 360)
    write_curves(run_dir)
    (run_dir / "events.jsonl").unlink()
    found = RunDirectory(run_dir).curves
    assert found is not None
    assert found.rates().tolist() == [1.0] * 6


def test_run_with_neither_curves_nor_events_has_none(tmp_path):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 360)
    (run_dir / "events.jsonl").unlink()
    assert RunDirectory(run_dir).curves is None


def _truncate(text: bytes) -> bytes:
    return text[: len(text) // 2] + b"\n"


BAD_CURVES = [
    (lambda text: text.replace(b'"visit_idx":2', b'"visit_idx":3'), "curves.jsonl:3:"),
    (lambda text: text.replace(b'"frames":60', b'"frames":61'), "found (0, "),
    (lambda text: text + text, "no row after the last visit"),
    (lambda text: text.replace(b"1.0,", b"", 1), "length >= 60"),
    (lambda text: text.replace(b"1.0,", b"1e999,", 1), "out of range"),
    (lambda text: text.replace(b"1.0,", b'"1",', 1), "Expected `float`"),
    (_truncate, "curves.jsonl:4:"),
    (lambda text: b"\xff" + text, "curves.jsonl:1:"),
]


@pytest.mark.parametrize(("damage", "message"), BAD_CURVES)
def test_curves_of_another_run_are_refused(tmp_path, damage, message):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 360)
    path = write_curves(run_dir)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DocumentError) as error:
        _ = RunDirectory(run_dir).curves
    assert message in str(error.value)


def test_curves_with_another_hash_than_recorded_are_refused(finished_run, copy_of):
    path = copy_of(finished_run) / "curves.jsonl"
    text = path.read_bytes()
    path.write_bytes(text.replace(b"0.0,", b"9.0,", 1))
    with pytest.raises(DocumentError, match=r"curves\.jsonl: expected SHA-256"):
        _ = RunDirectory(path.parent).curves


def test_finished_run_writes_what_its_rows_say(finished_run):
    rows = parse_curve_rows((finished_run / "curves.jsonl").read_bytes())
    config = RunDirectory(finished_run).config
    assert rows == sum_events(finished_run / "events.jsonl", config)
    summary = RunDirectory(finished_run).summary
    assert summary is not None
    for row, visit in zip(rows, summary.visits, strict=True):
        assert sum(row.reward_sums) == pytest.approx(visit.reward_sum)


@pytest.mark.parametrize(
    ("damage", "kind", "field"),
    [
        (lambda t: t.replace(b"0.0,", b"9.0,", 1), "curve row", "reward_sums.0"),
        (lambda t: t.replace(b'"cycle_idx":0', b'"cycle_idx":1'), "curve row", None),
        (lambda t: t.replace(b"0.0,", b"0,", 1), "not canonical", None),
        (lambda t: t.replace(b":", b": ", 1), "not canonical", None),
        (lambda t: t[: t.index(b"\n") + 1], "curve row", None),
        (lambda t: b"{}\n" + t, "unreadable line", None),
    ],
)
def test_validation_recomputes_curves(finished_run, copy_of, damage, kind, field):
    run_dir = copy_of(finished_run)
    path = run_dir / "curves.jsonl"
    path.write_bytes(damage(path.read_bytes()))
    report = longplay.validate_run(run_dir)
    assert kind in report.findings.counts
    if field is not None:
        assert field in {finding.field for finding in report.findings.shown}


def test_missing_curves_are_found_where_they_are_recorded(finished_run, copy_of):
    run_dir = copy_of(finished_run)
    (run_dir / "curves.jsonl").unlink()
    report = longplay.validate_run(run_dir)
    assert {(f.kind, f.file) for f in report.findings.shown} == {
        ("missing file", "curves.jsonl")
    }


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
    """Ten times the rows, 250 MB of them: less than 20 MB more."""
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from longplay.contract.rundir import RunDirectory\n"
        "assert RunDirectory(Path(sys.argv[1])).curves is not None\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = []
    for visit_frames in (50_000, 500_000):
        write_long_run(tmp_path / str(visit_frames), visit_frames)
        command = [sys.executable, "-c", code, str(tmp_path / str(visit_frames))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 20_000
