"""A run in progress: its page gets what was added, and nothing twice."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from generated_runs import edit
from viewer_requests import Viewer, open_viewer
from written_runs import make_config, write_run


@pytest.fixture
def live_run(tmp_path: Path) -> Path:
    """A run of six visits of 60 frames that this process plays, at frame 0."""
    write_run(tmp_path / "whole", make_config(), [1.0] * 360)
    run_dir = write_run(tmp_path / "runs" / "live", make_config(), [])
    (run_dir / "run_summary.json").unlink()
    edit(
        run_dir / "status.json",
        state="RUNNING",
        frame=0,
        frames_total=360,
        heartbeat_utc=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}.000Z",
        pid=os.getpid(),
        host=platform.node(),
    )
    return run_dir


def play_until(run_dir: Path, frame: int) -> None:
    """Grows the files as a run does."""
    whole = run_dir.parent.parent / "whole"
    lines = (whole / "events.jsonl").read_bytes().splitlines(keepends=True)
    (run_dir / "events.jsonl").write_bytes(b"".join(lines[:frame]))
    rows = (whole / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (run_dir / "episodes.jsonl").write_bytes(b"".join(rows[: frame // 60]))
    with (run_dir / "metrics.jsonl").open("a") as file:
        row = {"global_frame_idx": frame, "visit_idx": 0, "loss": 1 / frame}
        file.write(json.dumps(row) + "\n")
    edit(
        run_dir / "status.json",
        frame=frame,
        reward_rate=0.5,
        metrics={"loss": 1 / frame},
    )


def trace(figure: dict[str, Any], key: str) -> dict[str, Any]:
    (found,) = [trace for trace in figure["data"] if trace.get("meta") == key]
    return found


def news(viewer: Viewer, address: str, after: dict[str, int]) -> dict[str, Any]:
    reply = viewer.get(f"{address}/news?{urlencode(after)}")
    assert len(reply.body) < 8000
    return reply.json


def test_news_continue_the_figure(live_run):
    play_until(live_run, 100)
    viewer = open_viewer(live_run)
    address = viewer.run_address(live_run)
    page = viewer.get(address).text
    assert f'data-news="{address}/news"' in page
    assert "▶ RUNNING" in page
    assert "100 of 360 frames (28 %)" in page
    assert "reward 0.5 per frame, loss 0.01" in page
    figure = viewer.get(f"{address}/timeline.json").json
    assert figure["next"] == {"rate": 100, "episodes": 1, "metrics": 1}
    assert len(trace(figure, "rate")["x"]) == 100 + 1  # one gap

    play_until(live_run, 190)
    found = news(viewer, address, figure["next"])
    name = address.removeprefix("/runs/")
    assert found["texts"][f"{name}-progress"] == "190 of 360 frames (53 %)"
    points = found["points"]
    assert points["rate"]["y"].count(None) == 2  # visits 2 and 3 began
    assert len(points["rate"]["y"]) == 90 + 2
    assert points["episodes"]["customdata"] == [
        f"{address}/episodes/1",
        f"{address}/episodes/2",
    ]
    assert points["metric:loss"] == {"x": [190.0], "y": [1 / 190]}
    assert found["next"] == {"rate": 190, "episodes": 3, "metrics": 2}
    assert news(viewer, address, found["next"])["points"] == {}


def test_page_hears_of_the_end(live_run):
    play_until(live_run, 100)
    viewer = open_viewer(live_run)
    address = viewer.run_address(live_run)
    assert news(viewer, address, {})["version"] == "RUNNING"
    edit(live_run / "status.json", state="CANCELLED")
    assert news(viewer, address, {})["version"] == "CANCELLED"
    assert "data-news" not in viewer.get(address).text


def test_list_has_texts_of_runs_in_progress_alone(live_run):
    write_run(live_run.parent / "done", make_config(seed=1), [1.0] * 360)
    play_until(live_run, 100)
    viewer = open_viewer(live_run.parent)
    name = viewer.run_address(live_run).removeprefix("/runs/")
    found = viewer.get("/news").json
    assert {key.partition("-")[0] for key in found["texts"]} == {name}
    assert found["version"] == f"2-{name}"
    edit(live_run / "status.json", state="FAILED")
    assert viewer.get("/news").json == {"texts": {}, "version": "2"}


def test_run_that_was_cut_back_starts_over(live_run):
    play_until(live_run, 190)
    viewer = open_viewer(live_run)
    address = viewer.run_address(live_run)
    viewer.get(f"{address}/timeline.json")
    play_until(live_run, 70)  # resumed from a checkpoint
    figure = viewer.get(f"{address}/timeline.json").json
    assert figure["next"]["rate"] == 70
    assert figure["next"]["episodes"] == 1
