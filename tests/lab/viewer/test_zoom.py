"""A part of a run in finer bins: the rewards of its rows, and of no others."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from longplay.contract.curves import Curves
from longplay.contract.rows import EpisodeRow
from longplay.errors import DocumentError
from longplay.lab.viewer import zoom
from longplay.lab.viewer.tail import MetricPoints
from longplay.lab.viewer.timeline import draw_episodes, draw_metric, draw_rate
from longplay.lab.viewer.zoom import Zoom, bin_rewards, read_zoom
from viewer_requests import open_viewer
from written_runs import make_config, write_run

CONFIG = make_config()  # six visits of 60 frames: a window is a frame


def write_rows(folder: Path, rewards: list[float]) -> Path:
    rows = (
        json.dumps({"global_frame_idx": n, "game_id": "pong" * (n % 3), "reward": r})
        for n, r in enumerate(rewards)
    )
    (folder / "events.jsonl").write_text("".join(f"{row}\n" for row in rows))
    return folder


@pytest.mark.parametrize(
    "frames", [range(10), range(4_321, 4_400), range(9_990, 9_999)]
)
@pytest.mark.parametrize("chunk_bytes", [100, 5_000, 2**22])
def test_rewards_of_a_range(tmp_path, monkeypatch, frames, chunk_bytes):
    monkeypatch.setattr(zoom, "_CHUNK_BYTES", chunk_bytes)
    run_dir = write_rows(tmp_path, [float(n) for n in range(10_000)])
    assert read_zoom(run_dir, frames).rewards.tolist() == list(frames)


def test_reads_little_more_than_the_range(tmp_path, monkeypatch):
    """A row far before the range is not a row; bisection jumps over it."""
    monkeypatch.setattr(zoom, "_CHUNK_BYTES", 1_000)
    run_dir = write_rows(tmp_path, [1.0] * 10_000)
    path = run_dir / "events.jsonl"
    damaged = path.read_bytes().replace(b'{"global_frame_idx": 9,', b"!" * 23)
    path.write_bytes(damaged)
    assert read_zoom(run_dir, range(9_000, 9_010)).rewards.tolist() == [1.0] * 10
    with pytest.raises(DocumentError, match=r"^events\.jsonl: "):
        read_zoom(run_dir, range(10))


def test_frames_without_a_row_are_unknown(tmp_path):
    run_dir = write_rows(tmp_path, [1.0, 2.0, 3.0])
    with (run_dir / "events.jsonl").open("a") as file:
        file.write('{"global_frame_idx": 3, "rew')  # being written
    rewards = read_zoom(run_dir, range(1, 5)).rewards
    np.testing.assert_array_equal(rewards, [2.0, 3.0, math.nan, math.nan])


def test_long_range_is_not_read(tmp_path):
    assert read_zoom(tmp_path, range(zoom.MOST_FRAMES + 1)).rewards is None
    with pytest.raises(DocumentError, match=r"events\.jsonl: No such file"):
        read_zoom(tmp_path, range(zoom.MOST_FRAMES))


def test_rows_without_end_are_refused(tmp_path):
    (tmp_path / "events.jsonl").write_bytes(b" " * 100_000)
    with pytest.raises(DocumentError, match="rows of at most 65,536 bytes"):
        read_zoom(tmp_path, range(9))


def test_bins_do_not_cross_visits(monkeypatch):
    """Frames 55 … 69 in bins of 4: the visit that starts at 60 starts a bin."""
    monkeypatch.setattr(zoom, "_MOST_BINS", 4)
    rewards = np.arange(55.0, 70.0)
    rewards[-1] = math.nan  # a frame that was not played yet
    fine = bin_rewards(CONFIG, range(55, 70), rewards)
    # 55–58, 59, 60–62, 63–66, 67–69
    assert fine.x.tolist() == [56.5, 59.0, 61.0, 64.5, 68.0]
    np.testing.assert_array_equal(fine.rates, [56.5, 59.0, 61.0, 64.5, math.nan])
    assert fine.starts_visit.tolist() == [False, False, True, False, False]


def test_rate_is_finer_in_the_part_and_as_before_around_it():
    """Visits of 600 frames, reward n on frame n: a window is ten frames."""
    visits = tuple(v.model_copy(update={"visit_frames": 600}) for v in CONFIG.schedule)
    config = CONFIG.model_copy(update={"schedule": visits})
    frames = np.full((6, 60), 10)
    middles = np.arange(360.0).reshape(6, 60) * 10 + 4.5
    curves = Curves(frames, middles * 10)
    part = range(590, 612)
    line = draw_rate(config, curves, zoom=Zoom(part, np.arange(590.0, 612.0)))
    points = dict(zip(line.x, line.y, strict=True))
    near = [x for x in line.x if 580 <= x <= 620]
    assert near == [585, *range(590, 600), 600, *range(600, 612), 615]
    assert all(points[x] == x for x in part)
    assert (points[585], points[615]) == (584.5, 614.5)
    gaps = [line.x[n] for n, y in enumerate(line.y) if math.isnan(y)]
    assert gaps == [600, 1205, 1805, 2405, 3005]
    assert list(line.x) == sorted(line.x)


def test_all_episodes_and_rows_of_metrics_in_the_part_are_shown():
    episodes = [
        EpisodeRow("pong", n, n, n, 1, float(n % 7), "terminated")
        for n in range(30_000)
    ]
    part = Zoom(range(10_000, 10_100))
    shown = [int(x) for x in draw_episodes("id", episodes, zoom=part).x]
    assert [x for x in shown if x in part.frames] == list(part.frames)
    assert len(shown) <= 2 * 3000 + 100
    assert shown == sorted(shown)
    metric = MetricPoints(list(range(30_000)), [float(n) for n in range(30_000)])
    line = draw_metric("loss", metric, zoom=part)
    inside = [n for n, x in enumerate(line.x) if x in part.frames]
    assert [line.y[n] for n in inside] == list(part.frames)
    assert {line.low[n] for n in inside} == {None}
    assert line.low[0] == 0.0  # binned around it


def test_addresses(tmp_path):
    run_dir = write_run(tmp_path / "a", make_config(), [float(n) for n in range(360)])
    viewer = open_viewer(tmp_path)
    address = f"{viewer.run_address(run_dir)}/timeline.json"
    whole, part = (viewer.get(a).json for a in (address, f"{address}?from=70&to=75"))
    (line,) = [trace for trace in part["data"] if trace.get("meta") == "rate"]
    points = dict(zip(line["x"], line["y"], strict=True))
    assert [points[n] for n in range(70, 75)] == [70.0, 71.0, 72.0, 73.0, 74.0]
    assert part["next"] == whole["next"]  # a run in progress continues as before
    table = viewer.get(f"{address[:-5]}.csv?from=70&to=75").text
    assert "\nreward per frame,reward rate,72.0,72.0,,\n" in table
    beyond = viewer.get(f"{address}?from=360&to=9999999")
    assert beyond.json == whole
    for query in ("?from=9", "?from=9&to=9", "?from=9&to=3", "?from=-1&to=3"):
        assert viewer.get(address + query).status == 404
