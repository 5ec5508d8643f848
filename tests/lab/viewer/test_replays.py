"""Pixels and rows of any frame are those of the run."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bare_replay import replay_bare
from longplay.lab.report.draw.frame_pictures import render_png
from longplay.lab.viewer import replays
from longplay.lab.viewer.replays import CHUNK_FRAMES, Replays
from longplay.verify.pack import pack_run
from viewer_requests import open_viewer


def decode(picture: bytes) -> np.ndarray:
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))
    return pixels.reshape(-1, 210, 160, 3)


@pytest.mark.parametrize("is_small", [True, False])
def test_png_keeps_every_pixel(is_small):
    pixels = np.random.default_rng(0).integers(0, 256, (420, 160, 3), np.uint8)
    shown = decode(render_png(pixels, is_small=is_small))
    np.testing.assert_array_equal(shown.reshape(pixels.shape), pixels)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["finished_run", "control_run"])
def test_chunks_show_the_frames_of_a_bare_replay(name, request):
    """In order, backwards, across visits and at both ends."""
    run_dir: Path = request.getfixturevalue(name)
    viewer = open_viewer(run_dir)
    address = viewer.run_address(run_dir)
    bare = list(replay_bare(run_dir))
    rows = (run_dir / "events.jsonl").read_text().splitlines()
    last = len(rows)
    starts = [0, 64, 128, 400, 300, last - 64, 0, 650]
    for start in starts:
        end = min(start + CHUNK_FRAMES, last)
        query = f"?from={start}&to={end}"
        found = decode(viewer.get(f"{address}/frames.png{query}").body)
        np.testing.assert_array_equal(found, bare[start:end])
        assert (
            viewer.get(f"{address}/frames.json{query}").json["rows"] == rows[start:end]
        )


def test_chunks_in_order_continue_one_replay(finished_run, monkeypatch):
    viewer = open_viewer(finished_run)
    (entry,) = viewer.site.index.read().runs.values()
    opened = []
    original = replays.open_frames
    monkeypatch.setattr(
        replays, "open_frames", lambda path: opened.append(path) or original(path)
    )
    found = Replays()
    for start in range(0, 320, 64):
        found.read(entry, range(start, start + 64))
    (waiting,) = found._open._values.values()
    stream = waiting[1][0]._frames
    found.read(entry, range(320, 384))
    assert waiting[1][0]._frames is stream
    found.read(entry, range(64, 128))  # kept: nothing is replayed
    assert waiting[1][0]._frames is stream
    assert len(opened) == 1


def test_returns_belong_to_the_frame(finished_run):
    viewer = open_viewer(finished_run)
    lines = (finished_run / "events.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines[:700]]
    address = viewer.run_address(finished_run)
    total = 0.0
    for start in range(0, 640, 64):
        reply = viewer.get(f"{address}/frames.json?from={start}&to={start + 64}").json
        for row, value in zip(rows[start : start + 64], reply["returns"], strict=True):
            assert value == total
            is_over = row["terminated"] or row["truncated"]
            total = 0.0 if is_over else total + row["reward"]


def test_pages_of_episodes_and_visits(finished_run):
    viewer = open_viewer(finished_run)
    address = viewer.run_address(finished_run)
    row = json.loads((finished_run / "episodes.jsonl").read_text().splitlines()[1])
    first, last = row["start_global_frame_idx"], row["end_global_frame_idx"]
    text = viewer.get(f"{address}/episodes/1?frame={last}").text
    assert f'data-first="{first}" data-end="{last + 1}" data-frame="{last}"' in text
    assert f"{row['game_id']}: episode 1 of random" in text
    visit = json.loads((finished_run / "config.json").read_text())["schedule"][0]
    text = viewer.get(f"{address}/visits/0").text
    assert f'data-first="0" data-end="{visit["visit_frames"]}"' in text


@pytest.mark.exhaustive
def test_frames_of_a_pack_are_those_of_the_run(finished_run, tmp_path):
    pack = tmp_path / "one.longplay"
    pack_run(finished_run, pack)
    viewer = open_viewer(pack)
    address = viewer.run_address(pack)
    rows = (finished_run / "events.jsonl").read_text().splitlines()
    query = "?from=100&to=120"
    assert viewer.get(f"{address}/frames.json{query}").json["rows"] == rows[100:120]
    logged = open_viewer(finished_run)
    there = logged.get(f"{logged.run_address(finished_run)}/frames.png{query}").body
    assert viewer.get(f"{address}/frames.png{query}").body == there


def test_false_log_is_not_shown(finished_run, copy_of):
    run_dir = copy_of(finished_run)
    path = run_dir / "events.jsonl"
    first, *others = path.read_text().splitlines(keepends=True)
    row = json.loads(first)
    changed = first.replace(f'"lives":{row["lives"]}', f'"lives":{row["lives"] + 1}')
    path.write_text("".join((changed, *others)))
    viewer = open_viewer(run_dir)
    reply = viewer.get(f"{viewer.run_address(run_dir)}/frames.png?from=0&to=64")
    assert reply.status == 500
    assert "does not reproduce" in reply.text
