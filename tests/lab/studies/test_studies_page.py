"""docs/studies.md: its study file is valid, and its table of settings is complete."""

from __future__ import annotations

import re
from pathlib import Path

from longplay.cli.catalogue import list_settings
from longplay.lab.studies.file import read_study_file
from longplay.suites import SUITES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/studies.md").read_text(encoding="utf-8")


def test_the_study_file_of_the_page_is_valid(tmp_path):
    (text,) = re.findall(r"<!-- study file -->\n```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "study.toml").write_text(text)
    study, _ = read_study_file(tmp_path / "study.toml")
    assert [agent.ref for agent in study.agents] == ["random", "agents/mine.py"]
    assert study.tuning.grid == {"mine": {"step_size": [0.1, 0.01]}}


def test_the_table_of_settings_is_that_of_the_command():
    (table,) = re.findall(r"<!-- settings -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)
    rows = [
        f"| `{row['setting']}` | {row['expected']} | {row['description']} |"
        for row in list_settings(SUITES["control-v1"])
    ]
    assert table.splitlines()[2:] == rows


def test_the_example_study_can_be_planned(invoke):
    answer = invoke("study", "run", ROOT / "examples/study.toml", "--dry-run", "--json")
    # Two suites: a tuning cell for each of two points, and a result of two agents.
    assert len(answer.json["cells"]) == 2 * (2 + 2)
