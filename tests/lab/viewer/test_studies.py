"""The page of a study: results as a grid, choices, and the tuning runs."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from button_study import play_study
from longplay.lab.studies.directory import read_study
from longplay.lab.viewer.index import identify
from viewer_requests import Viewer, open_viewer


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play_study(tmp_path_factory.mktemp("study")).resolve()


@pytest.fixture(scope="module")
def viewer(study: Path) -> Viewer:
    return open_viewer(study)


def rows_of(text: str, caption: str) -> list[list[str]]:
    table = text.partition(f"<caption>{caption}")[2].partition("</table>")[0]
    lines = re.findall(r"<tr>(.*?)</tr>", table.partition("<tbody>")[2], re.DOTALL)
    cells = (re.findall(r"<td.*?>(.*?)</td>", line, re.DOTALL) for line in lines)
    return [[html.unescape(re.sub("<.*?>", "", c)) for c in row] for row in cells]


def test_list_leads_to_the_study_and_its_experiments_back(viewer: Viewer, study: Path):
    address = f"/studies/{identify(study)}"
    assert f'href="{address}">buttons</a>' in viewer.get("/").text
    assert "2 runs, 2 experiments." in viewer.get("/").text
    for cell in (study / "cells").iterdir():
        page = viewer.get(f"/experiments/{identify(cell)}").text
        assert f'href="{address}"' in page


def test_study_shows_results_choices_and_tuning_runs(viewer: Viewer, study: Path):
    text = viewer.get(f"/studies/{identify(study)}").text
    opened = read_study(study)
    repeat = opened.plan.cells[1]
    points = opened.read_points(repeat)
    chosen = opened.find_choice(repeat)
    assert points is not None and chosen is not None
    assert [row[0] for row in rows_of(text, "headline of each")] == ["random", "repeat"]
    args = [row[2] for row in rows_of(text, "cells")]
    assert args == ["", f"action={chosen.args['action']}"]
    shown = rows_of(text, "reward_rate over 50% of the stream")
    assert [row[2] for row in shown] == ["action=1", "action=5"]
    assert [row[3] for row in shown] == [f"{point.value:.5g}" for point in points]
    marks = {row[2]: row[5] for row in shown}
    assert marks[f"action={chosen.args['action']}"] == "chosen"
    assert sorted(marks.values()) == ["", "chosen"]
    runs = rows_of(text, "tuning runs")
    assert [row[0] for row in runs] == ["repeat, seed 1000", "repeat, seed 1001"] * 2
    address = re.findall(r'href="(/runs/\w+)">repeat, seed 1000', text)[0]
    assert "Tuning run" in viewer.get(address).text


def test_page_of_an_unfinished_study_hears_of_its_runs(study: Path, copy_of):
    copied = copy_of(study).resolve()
    (run,) = (copied / "cells").glob("*repeat*/episodes/*")
    run.rename(copied / "kept")
    viewer = open_viewer(copied)
    address = f"/studies/{identify(copied)}"
    assert f'data-news="{address}/news"' in viewer.get(address).text
    before = viewer.get(f"{address}/news").json
    (copied / "kept").rename(run)
    after = open_viewer(copied).get(f"{address}/news").json
    assert before["version"] != after["version"]
    assert "data-news" not in open_viewer(copied).get(address).text


def test_study_outside_of_the_given_path_is_not_read(study: Path):
    viewer = open_viewer(study / "cells")
    assert viewer.site.index.read().studies == {}
    assert viewer.get(f"/studies/{identify(study)}").status == 404


def test_damaged_plan_is_a_message(study: Path, copy_of):
    copied = copy_of(study).resolve()
    plan = json.loads((copied / "study.json").read_text())
    (copied / "study.json").write_text(json.dumps(plan | {"cells": 3}))
    reply = open_viewer(copied).get(f"/studies/{identify(copied)}")
    assert reply.status == 500
    assert "study.json" in reply.text


def test_plan_behind_a_link_is_not_read(study: Path, copy_of):
    copied = copy_of(study).resolve()
    (copied / "study.json").unlink()
    (copied / "study.json").symlink_to(study / "study.json")
    reply = open_viewer(copied).get(f"/studies/{identify(copied)}")
    assert reply.status == 500
    assert "expected a regular file" in reply.text
