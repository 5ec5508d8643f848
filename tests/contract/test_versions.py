"""A run of an unknown contract version is refused by every reader of runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import longplay
from longplay.contract.registry import ContractVersion, add_contract_version
from longplay.contract.rundir import read_run
from longplay.errors import ConfigError, ContractVersionError
from viewer_requests import open_viewer

KNOWN = "(v1, control-v1, prediction-v1), found 'v2'"


@pytest.fixture
def newer_run(finished_run, tmp_path) -> Path:
    """An experiment of one run, by a later version of the contract."""
    experiment = shutil.copytree(finished_run.parent.parent, tmp_path / "newer")
    path = experiment / "episodes" / finished_run.name / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "benchmark_contract_version": "v2"}))
    return experiment


@pytest.mark.seed("000", "config-14", "versions-1..5")
@pytest.mark.parametrize(
    "command",
    [
        ("score",),
        ("show",),
        ("compare",),
        ("plot", "-o", "{out}.pdf"),
        ("report", "-o", "{out}"),
        ("export", "--jsonl", "{out}"),
        ("pack", "-o", "{out}"),
        ("verify",),
        ("video", "-o", "{out}"),
        ("resume",),
        ("validate",),
    ],
    ids=lambda command: command[0],
)
def test_command_refuses_it_and_names_the_known_versions(
    invoke, newer_run, tmp_path, command
):
    name, *options = (part.format(out=tmp_path / "out") for part in command)
    answer = invoke(name, newer_run, *options)
    words = " ".join(f"{answer.stdout} {answer.stderr}".split())
    assert answer.exit_code != 0, words
    assert KNOWN in words.replace("│ ", ""), words


def test_comparison_of_others_names_it_with_the_reason(invoke, newer_run, finished_run):
    answer = invoke("compare", newer_run, finished_run)
    assert answer.exit_code == 0
    assert "left out: " in answer.stdout
    assert KNOWN in " ".join(answer.stdout.split())


def test_pages_list_it_with_the_reason(invoke, newer_run, tmp_path):
    assert "found &#39;v2&#39;" in open_viewer(newer_run).get("/").text
    invoke("leaderboard", newer_run, "-o", tmp_path / "board")
    assert "found &#39;v2&#39;" in (tmp_path / "board" / "index.html").read_text()


def test_python_refuses_it(newer_run):
    for read in (longplay.score_run, lambda path: read_run(path).config):
        with pytest.raises(ContractVersionError, match="found 'v2'") as caught:
            read(newer_run)
        assert str(caught.value).startswith("config.json benchmark_contract_version: ")


def test_score_is_not_written_under_another_version(invoke, newer_run):
    (score,) = newer_run.glob("episodes/*/score.json")
    before = score.read_bytes()
    invoke("score", newer_run)
    assert score.read_bytes() == before
    assert json.loads(before)["benchmark_contract_version"] == "v1"


def test_name_can_be_taken_once():
    with pytest.raises(ConfigError, match="'v1' is already registered"):
        add_contract_version(ContractVersion("v1", (), object, object))
