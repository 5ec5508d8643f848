"""Chromium, and a viewer that runs as its own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from browsing import Served
from playwright.sync_api import Browser

import viewer_pictures
from button_study import play_study
from compared_runs import make_compared
from longplay.errors import ConfigError
from longplay.verify.pack import pack_run
from playing import play_run


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        viewer_pictures.find_chromium()
    except ConfigError as error:
        pytest.fail(str(error))
    with viewer_pictures.launch() as browser:
        yield browser


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """`serve(PATH…)` starts `longplay view` and returns its address, without slash."""
    cache = tmp_path_factory.mktemp("viewer-cache")
    with ExitStack() as started:
        yield lambda *paths: started.enter_context(viewer_pictures.serve(cache, *paths))


@pytest.fixture(scope="session")
def served(
    serve: Callable[..., str],
    finished_run: Path,
    control_run: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Served:
    """A viewer of runs of all tracks, a pack, a study, and two agents with runs."""
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
    study = play_study(tmp_path_factory.mktemp("study"))
    played = (finished_run, control_run, prediction_run)
    experiments = (run.parent.parent for run in played)
    return Served(serve(folder, pack, study, *experiments), runs, study)
