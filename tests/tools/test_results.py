"""The results: planned, played once, packed, listed and verified."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import results
from longplay.agents.source.loading import load_agent
from longplay.contract.files import read_document
from longplay.errors import ConfigError
from longplay.lab.analysis.results import Results
from longplay.lab.analysis.runs import RunReader
from longplay.lab.probes.reading import read_probes
from longplay.lab.report.site.verdicts import open_pack
from longplay.suites import SUITES, get_suite
from longplay.tracks.catalogue import get_track

# Bytes of all packs together.
MOST_BYTES = 100_000_000
SHIPPED = results.read_manifest(results.RESULTS).packs
RUN = results.PlannedRun("control-smoke-v1", results.Variant("random"), 0)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    results.play([RUN], folder / "runs", folder / "results")
    return folder


def test_each_suite_is_played_on_its_official_seeds() -> None:
    counted = Counter((run.suite_id, run.variant.name) for run in results.plan())
    assert counted["control-v1", "dqn"] == 5
    assert counted["stream-8x3-v1", "linear-sarsa"] == 3
    assert counted["stream-8x3-v1", "stream-q"] == 3 * 8
    assert counted["control-3x3-v1", "dqn-shrink-perturb"] == 5
    assert counted["prediction-6x3-v1", "lstd-td-library"] == 5
    names = [run.name for run in results.plan()]
    assert len(set(names)) == len(names)
    official = {suite: get_suite(suite).official_seeds for suite, _ in results.PLAN}
    assert all(run.seed in official[run.suite_id] for run in results.plan())


def test_every_planned_agent_can_be_built() -> None:
    """And has an id of its own on its suite."""
    agents = {(run.suite_id, run.variant): run.variant for run in results.plan()}
    ids = {
        (suite_id, load_agent(variant.agent, variant.args).entry.agent_id)
        for (suite_id, _), variant in agents.items()
    }
    assert len(ids) == len(agents)
    for variant in set(agents.values()):
        loaded = load_agent(variant.agent, variant.args)
        track = "prediction-v1" if loaded.is_predictor else "control-v1"
        get_track(get_suite(track).track).build_agent(loaded, 0)


def test_what_keeps_something_is_probed_where_games_come_back() -> None:
    probed = {(r.suite_id, r.variant.name) for r in results.plan() if r.is_probed}
    names = {name for suite, name in probed if suite == "control-3x3-v1"}
    assert names == {
        *("blind", "linear-sarsa", "linear-sarsa-library"),
        *("linear-prost", "linear-prost-library", "dqn", "dqn-library"),
        *("dqn-rehearsal", "dqn-ewc", "dqn-redo", "dqn-shrink-perturb"),
    }
    assert {name for suite, name in probed if suite == "control-6x3-v1"} == {
        "linear-prost",
        "linear-prost-library",
    }
    assert ("prediction-6x3-v1", "lstd-td-library") in probed
    assert not any(get_suite(suite).num_cycles == 1 for suite, _ in probed)


def test_arguments_are_those_of_the_variant_and_of_tuning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = {("dqn", "none"): {"step_size": 1e-3}, ("dqn", "ewc"): {"strength": 100}}
    monkeypatch.setattr(results, "TUNED", tuned)
    played = {("dqn", "none"): 2_000, ("dqn", "ewc"): 500}
    monkeypatch.setattr(results, "TUNING_TIMESTEPS", played)
    assert results.Variant("linear-sarsa").args == {}
    assert results.Variant("linear-sarsa").tuning_timesteps is None
    assert results.Variant("dqn").tuning_timesteps == 2_000
    assert results.Variant("dqn", is_tuned=False).tuning_timesteps is None
    assert results.Variant("dqn").args == {"step_size": 1e-3}
    assert results.Variant("dqn", is_tuned=False).args == {}
    library = results.Variant("dqn", "library")
    assert library.args == {"memory": "library", "step_size": 1e-3}
    ewc = results.Variant("dqn", method="ewc")
    assert ewc.args == {"method": "ewc", "strength": 100}
    run = results.PlannedRun("control-smoke-v1", ewc, 1000, is_probed=True)
    assert run.make_job(tmp_path).command == [
        *("run", "control-smoke-v1", "--agent", "dqn", "--seed", "1000"),
        *("--agent-arg", 'method="ewc"', "--agent-arg", "strength=100"),
        *("--keep-agent", "visits", "--name", "dqn-ewc", "--tuning-frames", "2500"),
        *("--out", str(tmp_path / "control-smoke-v1/dqn-ewc/seed-1000")),
        *("--resume", "--quiet"),
    ]


def test_nothing_is_played_before_its_settings_are_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "TUNED", {("dqn", "none"): {}})
    variants = results.Variant("blind"), results.Variant("dqn", method="ewc")
    runs = [results.PlannedRun("control-smoke-v1", v, 1000) for v in variants]
    with pytest.raises(SystemExit, match="the settings of dqn-ewc; name other runs"):
        results.play(runs, tmp_path / "runs", tmp_path / "results")
    assert not list(tmp_path.iterdir())
    assert not results.Variant("dqn", "library").waits_for_tuning
    assert not results.Variant("dqn", method="ewc", is_tuned=False).waits_for_tuning


@pytest.mark.exhaustive
def test_a_run_with_arguments_is_packed_under_its_name(tmp_path: Path) -> None:
    library = results.Variant("blind", "library")
    run = results.PlannedRun("control-smoke-v1", library, 1000)
    results.play([run], tmp_path / "runs", tmp_path / "results")
    (packed,) = results.read_manifest(tmp_path / "results").packs
    assert packed.path == "control-smoke-v1/blind-library/seed-1000.longplay"
    assert results.find_problem(packed, tmp_path / "results") is None


@pytest.mark.exhaustive
def test_a_probed_run_has_packs_of_its_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "PROBE_SIZES", {"control-smoke-v1": (1, 20)})
    blind = results.Variant("blind")
    run = results.PlannedRun("control-smoke-v1", blind, 1000, is_probed=True)
    for _ in range(2):  # the second time nothing is missing
        results.play([run], tmp_path / "runs", tmp_path / "results")
    folder, manifest = tmp_path / "results", results.read_manifest(tmp_path / "results")
    probes, (packed,) = manifest.probes, manifest.packs
    assert [p.state for p in probes] == ["fresh", "visit-0", "visit-1", "visit-2"]
    assert {p.run for p in probes} == {"control-smoke-v1/blind/seed-1000.longplay"}
    assert results.find_problem(packed, folder, probes) is None
    assert [p.bytes for p in probes] == [
        (folder / p.path).stat().st_size for p in probes
    ]
    (run_found,) = RunReader(open_pack).read([folder]).runs  # without the probes
    found = read_probes(run_found.path, run_found.chain_head, open_pack)
    assert found is not None and set(found.places) == {p.state for p in probes}
    fresh, *_ = probes
    other = fresh.model_copy(update={"sha256": probes[1].sha256})
    problem = results.find_problem(packed, folder, [other])
    assert problem == "fresh.longplay does not have the hash of the manifest"
    exchanged = probes[1].model_copy(update={"path": fresh.path})
    exchanged = exchanged.model_copy(update={"sha256": fresh.sha256})
    assert results.find_problem(packed, folder, [exchanged]) == (
        "fresh.longplay: expected state visit-0, found fresh"
    )


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
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
    assert ".longplay does not have the hash of the manifest" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_verdicts_of_verify_results_label_the_board(
    played: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    packs, verdicts = played / "results", tmp_path / "verdicts"
    results.verify(results.read_manifest(packs).packs, packs, 1, verdicts)
    site = tmp_path / "site"
    board = invoke("leaderboard", packs, "-o", site, "--verdicts", verdicts, "--json")
    (entry,) = board.json["suites"][0]["entries"]
    assert (entry["trust"], entry["checked_by"]) == (
        "replayed",
        ["make verify-results"],
    )
    with pytest.raises(ConfigError, match="expected verdicts outside of"):
        results.verify((), packs, 1, packs / "verdicts")


@pytest.mark.exhaustive
def test_board_of_the_shipped_results_refuses_nothing(
    tmp_path: Path, invoke: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Specialists are neither ranked nor refused; suites have their own agents."""
    monkeypatch.setenv("LONGPLAY_CACHE", str(tmp_path / "cache"))
    options = ("-o", tmp_path / "site", "--strict", "--json")
    board = invoke("leaderboard", results.RESULTS, *options).json
    assert board["refused"] == []
    specialists = [packed for packed in SHIPPED if packed.suite not in SUITES]
    assert board["single_games"] == len(specialists) > 0
    assert {suite["suite"] for suite in board["suites"]} == {
        packed.suite for packed in SHIPPED if packed.suite in SUITES
    }
    entries = [entry for suite in board["suites"] for entry in suite["entries"]]
    assert all(entry["rank"] is not None for entry in entries)
    assert not any(entry["is_disputed"] for entry in entries)
    assert {entry["trust"] for entry in entries} == {"claimed"}


def test_pack_that_was_not_listed_in_time_is_listed(
    played: Path, tmp_path: Path
) -> None:
    shutil.copytree(played / "results", tmp_path / "results")
    manifest = tmp_path / "results" / "manifest.json"
    before = manifest.read_bytes()
    manifest.unlink()
    results.play([RUN], played / "runs", tmp_path / "results")
    assert manifest.read_bytes() == before


@pytest.mark.few(1)
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


def test_numbers_are_collected_from_packs_alone(
    played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "results.json"
    shipped.write_text('{"schema_version": 1, "runs": []}')
    monkeypatch.setattr(results, "SHIPPED", shipped)
    results.collect(played / "results")
    collected = shipped.read_bytes()
    results.collect(played / "results")
    assert shipped.read_bytes() == collected
    (run,) = read_document(shipped, Results).runs
    (packed,) = results.read_manifest(played / "results").packs
    assert (run.headline, run.pack_sha256) == (packed.headline, packed.sha256)
    games = get_suite("control-smoke-v1").games
    assert not np.isnan(run.game_rates(games).final).any()


def test_manifest_and_packs_agree() -> None:
    found = {
        path.relative_to(results.RESULTS).as_posix(): path.stat().st_size
        for path in results.RESULTS.rglob("*.longplay")
    }
    probes = results.read_manifest(results.RESULTS).probes
    assert found == {packed.path: packed.bytes for packed in (*SHIPPED, *probes)}
    assert {packed.path for packed in SHIPPED} <= {
        f"{run.name}.longplay" for run in results.plan()
    }
    assert sum(found.values()) <= MOST_BYTES


def test_shipped_numbers_are_those_of_the_packs() -> None:
    packs = [packed for packed in SHIPPED if packed.suite in SUITES]
    paths = [results.RESULTS / packed.path for packed in packs]
    read = RunReader(open_pack).read(paths).runs
    made = {
        run.path: results.record_result(run, packed.path, packed.sha256)
        for packed, path in zip(packs, paths, strict=True)
        for run in read
        if run.path == path
    }
    assert (
        tuple(made[path] for path in paths)
        == read_document(results.SHIPPED, Results).runs
    )


def test_packs_are_of_the_present_agents() -> None:
    planned = {f"{run.name}.longplay": run.variant for run in results.plan()}
    ids = {
        variant: load_agent(variant.agent, variant.args).entry.agent_id
        for variant in set(planned.values())
    }
    for packed in SHIPPED:
        assert packed.agent_id == ids[planned[packed.path]], packed.path


@pytest.mark.exhaustive
def test_every_tenth_pack_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    packs = SHIPPED[::10]
    results.verify(packs, results.RESULTS, workers=2)
    assert capsys.readouterr().out.count(" is verified\n") == len(packs) > 0
