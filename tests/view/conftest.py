"""Chromium, and a viewer that runs as its own process."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browsing import Served
from playwright.sync_api import Browser, sync_playwright

from compared_runs import make_compared
from longplay.verify.pack import pack_run
from playing import play_run


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = os.environ.get("LONGPLAY_CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.fail(
            "expected Chromium: apt install chromium, or name it in LONGPLAY_CHROMIUM"
        )
    with sync_playwright() as playwright:
        # Without its sandbox, which does not start as root; the pages are ours.
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """`serve(PATH…)` starts `longplay view` and returns its address, without slash."""
    started: list[subprocess.Popen[str]] = []
    cache = tmp_path_factory.mktemp("viewer-cache")

    def serve(*paths: Path) -> str:
        command = [sys.executable, "-m", "longplay", "view", *map(str, paths)]
        process = subprocess.Popen(
            [*command, "--no-open", "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LONGPLAY_CACHE": str(cache)},
        )
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.match(r"(http://127\.0\.0\.1:\d+)/  \(Ctrl-C stops\)", line)
        assert found is not None, line
        return found[1]

    yield serve
    for process in started:
        process.terminate()
        process.wait(timeout=20)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture(scope="session")
def served(
    serve: Callable[..., str],
    finished_run: Path,
    control_run: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Served:
    """A viewer of runs of all tracks, a pack, and two agents with three runs each."""
    folder = tmp_path_factory.mktemp("agents")
    make_compared(folder, {"alpha": 2.0, "<b>beta</b>": 0.5})
    out = tmp_path_factory.mktemp("prediction") / "experiment"
    settings = {"base_visit_frames": 200}
    prediction_run = play_run(
        "prediction-smoke-v1", "linear-td", seed=1000, out=out, overrides=settings
    ).run_dir
    pack = tmp_path_factory.mktemp("packs") / "control.longplay"
    pack_run(control_run, pack)
    runs = {
        "streaming": finished_run,
        "control": control_run,
        "prediction": prediction_run,
        "pack": pack,
        "alpha": folder / "0" / "0",
        "beta": folder / "1" / "0",
    }
    played = (finished_run, control_run, prediction_run)
    experiments = (run.parent.parent for run in played)
    return Served(serve(folder, pack, *experiments), runs)
