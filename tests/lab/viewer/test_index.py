"""Runs have ids that stay, and nothing outside the given paths is opened."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from generated_runs import edit, make_experiment, write
from longplay.contract.rundir import RunDirectory
from longplay.errors import DocumentError, NotARunError
from longplay.lab.report.site.verdicts import trust_of
from longplay.lab.viewer.cards import CardReader
from longplay.lab.viewer.index import Index
from longplay.runs.status import derive_state, read_status
from longplay.verify.verification import verify_run, write_verification
from made_up_anchors import NO_ANCHORS
from written_runs import make_config, write_run


def make_run(path: Path, seed: int = 0) -> Path:
    return write_run(path, make_config(seed=seed), [1.0] * 360)


def test_ids_follow_from_paths(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", seed=1)
    first, again = Index([tmp_path]).read(), Index([tmp_path]).read()
    assert first.runs == again.runs
    assert all(len(run_id) == 12 for run_id in first.runs)
    names = [entry.name for entry in first.runs.values()]
    assert names == [f"{tmp_path.name}/a", f"{tmp_path.name}/b"]


def test_run_belongs_to_its_experiment(tmp_path):
    experiment = make_experiment(tmp_path / "exp", [0, 1])
    found = Index([tmp_path, experiment / "episodes"]).read()
    (entry,) = found.experiments.values()
    assert len(found.runs) == 2
    assert {run.experiment_id for run in found.runs.values()} == {entry.id}


def test_path_without_runs_is_refused(tmp_path):
    with pytest.raises(NotARunError, match="expected a run"):
        Index([tmp_path])


def test_experiment_with_a_broken_plan_is_listed(tmp_path):
    experiment = make_experiment(tmp_path / "exp", [0])
    write(experiment / "experiment_config.json", {"seeds": "all"})
    (entry,) = Index([tmp_path]).read().experiments.values()
    assert entry.plan is None
    assert "experiment_config.json" in (entry.problem or "")
    assert len(entry.runs) == 1


def test_link_that_leads_out_is_not_followed(tmp_path):
    outside = make_run(tmp_path / "outside" / "run")
    experiment = make_experiment(tmp_path / "given" / "exp", [0])
    (experiment / "episodes" / "linked").symlink_to(outside)
    entries = Index([tmp_path / "given"]).read().runs.values()
    (linked,) = [entry for entry in entries if entry.path.name == "linked"]
    with pytest.raises(DocumentError, match="leads out of the given path"):
        linked.open()


def test_link_that_stays_inside_is_followed(tmp_path):
    real = make_run(tmp_path / "real")
    experiment = make_experiment(tmp_path / "exp", [0])
    (experiment / "episodes" / "linked").symlink_to(real)
    entries = Index([tmp_path]).read().runs.values()
    (linked,) = [entry for entry in entries if entry.path.name == "linked"]
    assert linked.open().config.seed == 0


def test_given_path_may_be_a_link(tmp_path):
    make_run(tmp_path / "real" / "run")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (entry,) = Index([tmp_path / "link"]).read().runs.values()
    assert entry.problem is None


def test_card_is_read_again_when_a_file_changes(tmp_path):
    run_dir = make_run(tmp_path / "a")
    (entry,) = Index([tmp_path]).read().runs.values()
    reader = CardReader(NO_ANCHORS)
    card = reader.read(entry)
    assert (card.state, card.agent, card.score) == ("COMPLETED", "alpha", 1.0)
    assert reader.read(entry) is card
    edit(run_dir / "score.json", final_score=2.5)
    assert reader.read(entry).score == 2.5
    shutil.rmtree(run_dir)
    gone = reader.read(entry)
    assert gone.state == "UNREADABLE"
    assert "config.json" in (gone.problem or "")


def test_pid_of_no_process_is_stale(tmp_path):
    run_dir = make_run(tmp_path / "a")
    edit(run_dir / "status.json", state="RUNNING", pid=2**31 - 1)
    status = read_status(run_dir)
    assert status is not None
    here = status.model_copy(update={"host": platform.node()})
    assert derive_state(here, stall_timeout_s=1e12) == "STALE"
    elsewhere = status.model_copy(update={"host": "another machine"})
    assert derive_state(elsewhere, stall_timeout_s=1e12) == "RUNNING"


def test_trust_without_reading_rows(finished_run, copy_of):
    run_dir = copy_of(finished_run)
    assert trust_of(RunDirectory(run_dir)) == "claimed"
    write_verification(verify_run(run_dir))
    assert trust_of(RunDirectory(run_dir)) == "replayed"
    with (run_dir / "events.jsonl").open("ab") as file:
        file.write(b"\n")
    assert trust_of(RunDirectory(run_dir)) == "claimed"
