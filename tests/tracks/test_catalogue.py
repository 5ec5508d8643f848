"""A track, a suite and a console defined outside the package."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longplay.console.machines import add_machine, remove_machine
from longplay.contract.registry import CONTRACT_VERSIONS
from longplay.errors import ConfigError, ContractVersionError, UnknownNameError
from longplay.plan import plan_run
from longplay.stream import INFO_KEYS
from longplay.suites import SUITES, add_suite
from longplay.tracks.catalogue import (
    TRACKS,
    add_track,
    get_track,
    track_of,
)
from toy_track import AGENT, GUESS_SUITE, GUESSING, TOY_MACHINE


def forget_toys() -> None:
    del SUITES[GUESS_SUITE.suite_id]
    del TRACKS[GUESSING.name]
    del CONTRACT_VERSIONS[GUESSING.contract.name]


@pytest.fixture
def toy_suite() -> Iterator[str]:
    add_machine(TOY_MACHINE)
    add_track(GUESSING)
    add_suite(GUESS_SUITE)
    yield GUESS_SUITE.suite_id
    forget_toys()
    remove_machine(TOY_MACHINE)


@pytest.fixture
def toy_run(toy_suite: str, invoke: Callable[..., Any], tmp_path: Path) -> Path:
    """An experiment of one run, made by the command line."""
    (tmp_path / "agent.py").write_text(AGENT)
    out = tmp_path / "experiment"
    arguments = ("--agent", tmp_path / "agent.py", "--out", out)
    answer = invoke("run", toy_suite, "--seed", "0", *arguments)
    assert answer.exit_code == 0, answer.stderr
    return out


def test_rows_have_the_columns_of_the_track(toy_run: Path) -> None:
    (events,) = toy_run.glob("episodes/*/events.jsonl")
    rows = [json.loads(line) for line in events.read_text().splitlines()]
    assert len(rows) == 600
    assert [row["applied_action_idx"] for row in rows] == [n % 18 for n in range(600)]
    assert {row["bit"] for row in rows} == {0, 1}


def test_a_run_of_it_is_valid(toy_run: Path, invoke: Callable[..., Any]) -> None:
    answer = invoke("validate", toy_run, "--json")
    assert answer.json["findings"] == []
    assert answer.exit_code == 0


def test_a_damaged_column_is_found(toy_run: Path, invoke: Callable[..., Any]) -> None:
    (events,) = toy_run.glob("episodes/*/events.jsonl")
    events.write_text(events.read_text().replace('"bit":1', '"bit":"1"', 1))
    answer = invoke("validate", toy_run)
    assert answer.exit_code == 1
    assert "bit" in answer.stdout


def test_a_run_of_it_is_scored_and_explained(
    toy_run: Path, invoke: Callable[..., Any]
) -> None:
    score = invoke("score", toy_run, "--explain", "toy_two", "--json").json
    (events,) = toy_run.glob("episodes/*/events.jsonl")
    rows = [json.loads(line) for line in events.read_text().splitlines()]
    assert score["rewarded"] == sum(row["reward"] != 0 for row in rows) > 0
    assert score["explanation"] == [{"visit": 1, "timesteps": 300}]
    shown = invoke("score", toy_run, "--explain", "toy_two").stdout
    assert "rewarded = all rewards" in shown


def test_a_run_of_it_is_shown(toy_run: Path, invoke: Callable[..., Any]) -> None:
    shown = invoke("show", toy_run).stdout
    assert "rewarded" in shown
    assert "600 timesteps" in shown
    assert invoke("show", toy_run, "--json").json["score"]["rewarded"] > 0


def test_a_run_of_it_is_exported_and_verified(
    toy_run: Path, invoke: Callable[..., Any], tmp_path: Path
) -> None:
    assert invoke("export", toy_run, "--jsonl", tmp_path / "lines").exit_code == 0
    (line,) = (tmp_path / "lines").read_text().splitlines()
    record, score = json.loads(line), invoke("score", toy_run, "--json").json
    assert record["task_id"] == "guessing-toy-v1/seed-0"
    assert record["reward"] == score["rewarded"]
    assert invoke("verify", toy_run, "--workers", 1).exit_code == 0


def test_the_catalogue_and_a_plan_show_it(
    toy_suite: str, invoke: Callable[..., Any]
) -> None:
    suites = {row["suite"]: row for row in invoke("suites", "--json").json}
    assert suites[toy_suite]["frames"] == 600
    plan = invoke("run", toy_suite, "--dry-run", "--json").json
    assert plan["track"] == "guessing"
    assert plan["benchmark_contract_version"] == "guessing-v1"
    assert "every reward" in invoke("run", toy_suite, "--dry-run").stdout


@pytest.mark.usefixtures("toy_suite")
def test_registered_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="track 'guessing' is already registered"):
        add_track(GUESSING)
    with pytest.raises(ConfigError, match="'guessing-toy-v1' is already in the cat"):
        add_suite(GUESS_SUITE)
    with pytest.raises(ConfigError, match="'toy_one' already belongs to toy_emul"):
        add_machine(TOY_MACHINE)


def test_removed_track_and_suite_are_unknown(toy_suite: str) -> None:
    forget_toys()
    assert "guessing" not in TRACKS
    assert "guessing-v1" not in CONTRACT_VERSIONS
    assert toy_suite not in SUITES
    add_track(GUESSING)
    add_suite(GUESS_SUITE)


def test_a_suite_of_unknown_games_is_not_added() -> None:
    with pytest.raises(UnknownNameError, match="toy_one"):
        add_suite(GUESS_SUITE)


# --- the tracks of the package --------------------------------------------------


@pytest.mark.parametrize("name", ["streaming", "control", "prediction"])
def test_tracks_are_found_by_name(name: str) -> None:
    assert get_track(name).name == name


def test_an_unknown_track_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown track 'contrl'.*'control'"):
        get_track("contrl")


def test_every_track_has_its_own_contract_version() -> None:
    versions = [track.contract.name for track in TRACKS.values()]
    assert versions == ["v1", "control-v1", "prediction-v1"] == list(CONTRACT_VERSIONS)
    headlines = {track.headline: track.less_is_better for track in TRACKS.values()}
    assert headlines == {"final_score": False, "cumulative_reward": False, "nmse": True}


@pytest.mark.parametrize("suite_id", list(SUITES))
def test_the_track_of_a_run_is_that_of_its_suite(suite_id: str) -> None:
    suite = SUITES[suite_id]
    config = plan_run(suite_id, reference_sha256=suite.references).config
    assert track_of(config).name == config.track == suite.track


def test_a_run_of_an_unknown_contract_version_has_no_track() -> None:
    config = plan_run("stream-smoke-v1").config
    unknown = config.model_copy(update={"benchmark_contract_version": "v9"})
    with pytest.raises(ContractVersionError, match="found 'v9'"):
        track_of(unknown)


@pytest.mark.seed("000", "versions-1..5")
def test_version_of_another_package_is_refused_where_it_is_not_registered(
    toy_run: Path, invoke: Callable[..., Any]
) -> None:
    score = invoke("score", toy_run, "--json").json
    assert score["benchmark_contract_version"] == "guessing-v1"
    forget_toys()
    try:
        refused = invoke("score", toy_run)
    finally:
        add_track(GUESSING)
        add_suite(GUESS_SUITE)
    assert refused.exit_code == 1
    message = " ".join(refused.stderr.split())
    assert "(v1, control-v1, prediction-v1), found 'guessing-v1'" in message


def test_columns_are_keys_of_the_score() -> None:
    for track in TRACKS.values():
        keys = track.contract.score_type.model_fields.keys()
        assert {*track.score_columns.values(), track.headline} <= keys
        assert set(track.info_keys) <= set(INFO_KEYS)
        assert set(track.env_info_keys) <= set(INFO_KEYS)
