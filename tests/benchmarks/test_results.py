"""The results: planned, played once, packed, listed and verified."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import results
from longplay.agents.loading import load_agent
from longplay.analysis.results import read_results, record_result
from longplay.analysis.runs import RunReader
from longplay.report.verdicts import open_pack
from longplay.suites import SUITES, get_suite

# Bytes of all packs together.
MOST_BYTES = 60_000_000
SHIPPED = results.read_manifest(results.RESULTS).packs
RUN = results.PlannedRun("control-smoke-v1", "random", 0)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    results.play([RUN], folder / "runs", folder / "results")
    return folder


def test_each_suite_is_played_on_its_official_seeds() -> None:
    counted = Counter((run.suite_id, run.agent, run.game) for run in results.plan())
    assert counted["control-v1", "dqn", None] == 5
    assert counted["stream-8x3-v1", "linear-sarsa", None] == 3
    assert counted["stream-8x3-v1", "stream-q", "qbert"] == 3
    names = [run.name for run in results.plan()]
    assert len(set(names)) == len(names)


def test_a_pack_is_listed_with_its_hash_and_score(played: Path) -> None:
    (packed,) = results.read_manifest(played / "results").packs
    assert packed.path == "control-smoke-v1/random/seed-0.longplay"
    assert packed.bytes == (played / "results" / packed.path).stat().st_size
    assert (packed.suite, packed.agent, packed.seed) == (
        "control-smoke-v1",
        "random",
        0,
    )
    assert packed.headline is not None


def test_a_run_with_a_pack_is_not_played_again(
    played: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "measure", lambda job: pytest.fail("played again"))
    results.play([RUN], played / "runs", played / "results")


def test_packs_are_replayed(
    played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = results.read_manifest(played / "results")
    results.verify(manifest.packs, played / "results", workers=1)
    assert "1 of 1: control-smoke-v1/random/seed-0.longplay is verified" in (
        capsys.readouterr().out
    )
    copy = tmp_path / manifest.packs[0].path
    copy.parent.mkdir(parents=True)
    copy.write_bytes((played / "results" / manifest.packs[0].path).read_bytes()[:-1])
    with pytest.raises(SystemExit, match="1 of 1 packs do not verify"):
        results.verify(manifest.packs, tmp_path, workers=1)
    assert "it does not have the hash of the manifest" in capsys.readouterr().out


def test_pack_that_was_not_listed_in_time_is_listed(
    played: Path, tmp_path: Path
) -> None:
    shutil.copytree(played / "results", tmp_path / "results")
    manifest = tmp_path / "results" / "manifest.json"
    before = manifest.read_bytes()
    manifest.unlink()
    results.play([RUN], played / "runs", tmp_path / "results")
    assert manifest.read_bytes() == before


@pytest.mark.parametrize(
    ("field", "value"), [("headline", 99999.0), ("seed", 3), ("agent", "stream-q")]
)
def test_manifest_that_says_something_else_is_found(
    played: Path, field: str, value: object
) -> None:
    (packed,) = results.read_manifest(played / "results").packs
    changed = packed.model_copy(update={field: value})
    problem = results.find_problem(changed, played / "results")
    assert problem is not None
    assert f"{field}={value!r}" in problem


def test_curves_of_other_rows_are_found(
    played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(played / "results", tmp_path / "results")
    shipped = tmp_path / "results.json"
    shipped.write_text('{"schema_version": 1, "runs": []}')
    monkeypatch.setattr(results, "SHIPPED", shipped)
    results.collect(played / "runs", copy)
    (packed,) = results.read_manifest(copy).packs
    assert results.find_problem(packed, copy) is None
    (curves,) = (copy / results.CURVES).iterdir()
    document = json.loads(curves.read_text())
    document["rewards"][0][3] += 1.0
    document["rewards"][0][50] -= 1.0
    curves.write_text(json.dumps(document))
    problem = results.find_problem(packed, copy)
    assert problem == "curves: expected those of its rows, found others"


def test_numbers_are_collected_with_and_without_the_run(
    played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected = []
    for folder in (played / "runs", tmp_path / "gone"):
        shipped = tmp_path / f"{folder.name}.json"
        shipped.write_text('{"schema_version": 1, "runs": []}')
        monkeypatch.setattr(results, "SHIPPED", shipped)
        results.collect(folder, played / "results")
        collected.append(shipped.read_bytes())
        results.collect(tmp_path / "not read again", played / "results")
        assert shipped.read_bytes() == collected[-1]
    assert collected[0] == collected[1]
    (run,) = read_results(shipped).runs
    (packed,) = results.read_manifest(played / "results").packs
    assert (run.headline, run.pack_sha256) == (packed.headline, packed.sha256)
    games = get_suite("control-smoke-v1").games
    assert not np.isnan(run.game_rates(games).final).any()


def test_collecting_keeps_the_curves_of_specialists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = ('games=["pong"]', "num_cycles=1", "base_visit_frames=100")
    monkeypatch.setattr(results.PlannedRun, "settings", alone)
    run = results.PlannedRun("stream-smoke-v1", "random", 0, "pong")
    results.play([run], tmp_path / "runs", tmp_path)
    shipped = tmp_path / "results.json"
    shipped.write_text('{"schema_version": 1, "runs": []}')
    monkeypatch.setattr(results, "SHIPPED", shipped)
    results.collect(tmp_path / "runs", tmp_path)
    assert read_results(shipped).runs == ()
    (curves,) = (tmp_path / results.CURVES).iterdir()
    curves.unlink()
    results.collect(tmp_path / "gone", tmp_path)
    assert curves.exists()


def test_manifest_and_packs_agree() -> None:
    found = {
        path.relative_to(results.RESULTS).as_posix(): path.stat().st_size
        for path in results.RESULTS.rglob("*.longplay")
    }
    assert found == {packed.path: packed.bytes for packed in SHIPPED}
    assert set(found) <= {f"{run.name}.longplay" for run in results.plan()}
    assert sum(found.values()) <= MOST_BYTES


def test_shipped_numbers_are_those_of_the_packs() -> None:
    packs = [packed for packed in SHIPPED if packed.suite in SUITES]
    paths = [results.RESULTS / packed.path for packed in packs]
    read = RunReader(results.RESULTS / results.CURVES, open_pack).read(paths).runs
    made = {
        run.path: record_result(run, packed.path, packed.sha256)
        for packed, path in zip(packs, paths, strict=True)
        for run in read
        if run.path == path
    }
    assert tuple(made[path] for path in paths) == read_results(results.SHIPPED).runs


@pytest.mark.parametrize("agent", sorted({packed.agent for packed in SHIPPED}))
def test_packs_are_of_the_present_agents(agent: str) -> None:
    played = {packed.agent_id for packed in SHIPPED if packed.agent == agent}
    assert played == {load_agent(agent).entry.agent_id}


@pytest.mark.exhaustive
def test_every_tenth_pack_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    packs = SHIPPED[::10]
    results.verify(packs, results.RESULTS, workers=2)
    assert capsys.readouterr().out.count(" is verified\n") == len(packs) > 0
