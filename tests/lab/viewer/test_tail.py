"""Files that grow are read once, and again only if they were cut or replaced."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from longplay.contract.rows import EpisodeRow
from longplay.contract.rundir import RunDirectory
from longplay.errors import DocumentError
from longplay.lab.viewer import tail
from longplay.lab.viewer.tail import GrowingRun, RowTail, Tail, WindowTail


def read_all(found: Tail) -> bytes:
    return b"".join(found.chunks())


def test_new_whole_lines_are_read_once(tmp_path):
    path = tmp_path / "rows.jsonl"
    found = Tail(path)
    assert read_all(found) == b""  # no file yet
    path.write_bytes(b"one\ntwo\nthr")
    assert read_all(found) == b"one\ntwo\n"
    assert read_all(found) == b""
    with path.open("ab") as file:
        file.write(b"ee\nfour\n")
    assert read_all(found) == b"three\nfour\n"
    assert found.restarts == 1


@pytest.mark.parametrize("content", [b"one\n", b"eins\nzwei\ndrei\nvier\n", b""])
def test_changed_file_is_read_again(tmp_path, content):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"one\ntwo\nthree\n")
    found = Tail(path)
    read_all(found)
    path.write_bytes(content)
    assert read_all(found) == content
    assert found.restarts == 2


def test_only_new_bytes_are_read(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"x" * 99 + b"\n" + b"y" * 899 + b"\n")
    found = Tail(path)
    read_all(found)
    read: list[int] = []

    class Counting:
        def __init__(self, file):
            self._file = file

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self._file.close()

        def seek(self, *place):
            return self._file.seek(*place)

        def read(self, size):
            content = self._file.read(size)
            read.append(len(content))
            return content

    with path.open("ab") as file:
        file.write(b"z\n")
    monkeypatch.setattr(tail, "open_regular", lambda p: Counting(p.open("rb")))
    assert read_all(found) == b"z\n"
    assert sum(read) <= 256 + 2  # the seam and the new line


def test_endless_line_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"ok\n" + b"x" * 100_000)
    with pytest.raises(DocumentError, match=r"found a longer one after byte 3"):
        read_all(Tail(path))


def test_rows_start_over_with_their_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    found = RowTail(path, dict[str, int])
    path.write_text('{"a": 1}\n{"a": 2}\n')
    found.update()
    with path.open("a") as file:
        file.write('{"a": 3}\n')
    found.update()
    assert [row["a"] for row in found.rows] == [1, 2, 3]
    path.write_text('{"a": 9}\n')
    found.update()
    assert found.rows == [{"a": 9}]
    path.write_text('{"a": "x"}\n')
    with pytest.raises(DocumentError, match=r"rows\.jsonl: Expected `int`"):
        found.update()


def test_windows_of_a_growing_run_are_those_of_a_scan(finished_run: Path, tmp_path):
    """Grown in three steps, the sums are those of one scan of the whole file."""
    run = RunDirectory(finished_run)
    events = (finished_run / "events.jsonl").read_bytes()
    windows = WindowTail(tmp_path, run.config)
    for end in (1000, len(events) // 2, len(events)):
        (tmp_path / "events.jsonl").write_bytes(events[:end])
        windows.update()
    scanned = run.curves
    np.testing.assert_array_equal(windows.curves().frames, scanned.frames)
    np.testing.assert_allclose(windows.curves().rewards, scanned.rewards)
    np.testing.assert_array_equal(windows.whole_curves().frames, scanned.frames)


def test_windows_that_are_not_over_are_left_out(finished_run: Path, tmp_path):
    run = RunDirectory(finished_run)
    lines = (finished_run / "events.jsonl").read_bytes().splitlines(keepends=True)
    frames = run.config.schedule[0].visit_frames
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines[: frames // 2 + 1]))
    windows = WindowTail(tmp_path, run.config)
    windows.update()
    whole, so_far = windows.whole_curves().frames[0], windows.curves().frames[0]
    assert so_far.sum() == frames // 2 + 1
    assert np.flatnonzero(whole).max() == np.flatnonzero(so_far).max() - 1


@pytest.mark.parametrize(
    "row",
    [
        {"visit_idx": 6, "visit_frame_idx": 0, "reward": 0.0},
        {"visit_idx": -1, "visit_frame_idx": 0, "reward": 0.0},
        {"visit_idx": 0, "visit_frame_idx": 10**6, "reward": 0.0},
        {"visit_idx": 2**70, "visit_frame_idx": 0, "reward": 0.0},
        {"visit_idx": 0},
    ],
)
def test_rows_of_another_run_are_refused(finished_run: Path, tmp_path, row):
    (tmp_path / "events.jsonl").write_text(json.dumps(row) + "\n")
    windows = WindowTail(tmp_path, RunDirectory(finished_run).config)
    with pytest.raises(DocumentError, match=r"events\.jsonl"):
        windows.update()


def test_metrics_by_name(finished_run: Path, tmp_path):
    rows = [
        {"global_frame_idx": 3999, "visit_idx": 0, "loss": 0.5},
        {"global_frame_idx": 7999, "visit_idx": 0, "loss": 0.25, "epsilon": 1},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "metrics.jsonl").write_text(text)
    growing = GrowingRun(tmp_path, RunDirectory(finished_run).config)
    growing.update(with_windows=False)
    found = growing.metrics()
    assert list(found) == ["loss", "epsilon"]
    assert (found["loss"].frames, found["loss"].values) == ([3999, 7999], [0.5, 0.25])
    assert found["epsilon"].frames == [7999]
    assert growing.episodes == []


def test_episodes_are_rows(finished_run: Path):
    growing = GrowingRun(finished_run, RunDirectory(finished_run).config)
    growing.update(with_windows=False)
    first = json.loads((finished_run / "episodes.jsonl").read_text().splitlines()[0])
    assert isinstance(growing.episodes[0], EpisodeRow)
    assert growing.episodes[0].length == first["length"]
