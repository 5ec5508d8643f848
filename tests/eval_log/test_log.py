"""EvalLog: made, saved, loaded, changed and written as lines."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from generated_runs import (
    EXPERIMENT_ID,
    SUITE,
    describe_experiment,
    edit,
    iter_records,
    make_score,
    make_status,
    run_dir_of,
    write,
)
from hostile_inputs import HOSTILE_NAMES
from longplay.errors import ConfigError, DocumentError
from longplay.eval_log.export import ExportOptions, export_jsonl
from longplay.eval_log.log import EvalLog, save_records
from rows import read_rows


@pytest.mark.seed("001", "log-3", "log-4")
@pytest.mark.seed("cube", "eval_log_save_and_load")
def test_log_comes_back_as_it_was(experiment):
    log = EvalLog.from_directory(experiment, describe_experiment(experiment))
    log.save(experiment)
    assert EvalLog.load(experiment) == log
    assert len(log.episodes) == 3
    for seed in range(3):
        assert (run_dir_of(experiment, seed) / "episode_record.json").is_file()


def test_log_may_be_saved_elsewhere(experiment, tmp_path):
    log = EvalLog.from_directory(experiment, describe_experiment(experiment))
    log.save(str(tmp_path / "else" / "where"))
    assert EvalLog.load(tmp_path / "else" / "where") == log


def test_logs_that_differ_are_not_equal(experiment):
    log = EvalLog.from_directory(experiment, describe_experiment(experiment))
    assert log != EvalLog(experiment=log.experiment, episodes=log.episodes[1:])
    assert log != "a log"


def test_records_are_saved_without_holding_them(experiment):
    assert save_records(experiment, describe_experiment(experiment)) == 3
    expected = EvalLog.from_directory(experiment, describe_experiment(experiment))
    assert EvalLog.load(experiment).episodes == expected.episodes


@pytest.mark.seed("001", "episode-23")
def test_saving_again_replaces_records(experiment):
    save_records(experiment, describe_experiment(experiment))
    write(run_dir_of(experiment, 0) / "score.json", make_score(9.0))
    save_records(experiment, describe_experiment(experiment))
    assert [r.reward for r in EvalLog.load(experiment).episodes] == [9.0, 1.25, 2.25]


def test_record_that_is_the_same_is_not_written_again(experiment):
    save_records(experiment, describe_experiment(experiment))
    paths = sorted(experiment.rglob("episode_record.json"))
    before = [path.stat().st_ino for path in paths]
    write(run_dir_of(experiment, 0) / "score.json", make_score(9.0))
    save_records(experiment, describe_experiment(experiment))
    after = [path.stat().st_ino for path in paths]
    assert [a == b for a, b in zip(after, before, strict=True)] == [False, True, True]


@pytest.mark.seed("001", "disk-4")
def test_archived_tries_are_never_counted(experiment):
    archived = experiment / "archive" / f"{SUITE}_seed-1" / "0"
    archived.parent.mkdir(parents=True)
    shutil.copytree(run_dir_of(experiment, 1), archived)
    write(archived / "status.json", make_status("FAILED", "AgentError"))
    save_records(experiment, describe_experiment(experiment))
    assert [record.error_type for record in iter_records(experiment)] == [None] * 3
    assert len(EvalLog.load(experiment).episodes) == 3
    assert (
        export_jsonl(
            experiment, experiment.parent / "out.jsonl", ExportOptions("visit")
        ).lines
        == 18
    )


def test_run_without_a_record_is_not_in_the_log(experiment):
    save_records(experiment, describe_experiment(experiment))
    (run_dir_of(experiment, 1) / "episode_record.json").unlink()
    assert [record.seed for record in EvalLog.load(experiment).episodes] == [0, 2]


# --- invariant 4: one experiment_id ---------------------------------------------------


@pytest.mark.seed("001", "purpose-6", "invariant-6")
@pytest.mark.seed("cube", "eval_log_experiment_id_fk_consistent")
def test_all_records_share_the_experiment_s_id(experiment):
    save_records(experiment, describe_experiment(experiment))
    log = EvalLog.load(experiment)
    assert {record.experiment_id for record in log.episodes} == {
        log.experiment.experiment_id
    }


@pytest.mark.seed("001", "experiment-13")
def test_record_of_another_experiment_is_refused(experiment):
    save_records(experiment, describe_experiment(experiment))
    edit(run_dir_of(experiment, 1) / "episode_record.json", experiment_id="other")
    with pytest.raises(
        DocumentError, match=rf"^{SUITE}_seed-1/episode_record\.json exp"
    ):
        EvalLog.load(experiment)
    log = EvalLog.from_directory(experiment, describe_experiment(experiment))
    stranger = log.episodes[0].model_copy(update={"experiment_id": "other"})
    with pytest.raises(DocumentError, match="experiment_id: expected 0123"):
        EvalLog(experiment=log.experiment, episodes=[stranger])


def test_two_records_of_one_run_are_refused(experiment):
    log = EvalLog.from_directory(experiment, describe_experiment(experiment))
    with pytest.raises(ValueError, match="found two of stream-smoke-v1_seed-0"):
        EvalLog(experiment=log.experiment, episodes=log.episodes[:1] * 2)


# --- lines ----------------------------------------------------------------------------


@pytest.mark.seed("001", "purpose-8", "log-8")
@pytest.mark.parametrize("level", ["run", "visit"])
def test_log_and_stream_write_the_same_bytes(experiment, tmp_path, level):
    save_records(experiment, describe_experiment(experiment))
    export_jsonl(str(experiment), str(tmp_path / "stream.jsonl"), ExportOptions(level))
    EvalLog.load(experiment).to_jsonl(tmp_path / "log.jsonl", level)
    stream, log = (tmp_path / f"{name}.jsonl" for name in ("stream", "log"))
    assert stream.read_bytes() == log.read_bytes()
    assert stream.read_bytes().count(b"\n") in (3, 18)


@pytest.mark.seed("001", "log-5")
def test_folder_of_the_lines_is_made(experiment, tmp_path):
    log = EvalLog.from_directory(experiment, describe_experiment(experiment))
    log.to_jsonl(tmp_path / "new" / "folder" / "runs.jsonl")
    assert len(read_rows(tmp_path / "new" / "folder" / "runs.jsonl")) == 3


def test_visits_of_a_log_without_folder_are_refused(experiment, tmp_path):
    log = EvalLog.from_directory(experiment, describe_experiment(experiment))
    alone = EvalLog(experiment=log.experiment, episodes=log.episodes)
    alone.to_jsonl(tmp_path / "runs.jsonl")
    with pytest.raises(ConfigError, match="visits are read from the experiment dir"):
        alone.to_jsonl(tmp_path / "visits.jsonl", level="visit")
    alone.save(experiment)
    alone.to_jsonl(tmp_path / "visits.jsonl", level="visit")
    assert len(read_rows(tmp_path / "visits.jsonl")) == 18


def test_log_saved_elsewhere_still_has_its_visits(experiment, tmp_path):
    log = EvalLog.from_directory(experiment, describe_experiment(experiment))
    log.to_jsonl(tmp_path / "visits.jsonl", level="visit")
    expected = (tmp_path / "visits.jsonl").read_bytes()
    assert expected.count(b"\n") == 18
    log.save(tmp_path / "elsewhere")
    shutil.rmtree(experiment)
    EvalLog.load(tmp_path / "elsewhere").save(tmp_path / "third")
    shutil.rmtree(tmp_path / "elsewhere")
    again = EvalLog.load(tmp_path / "third")
    again.to_jsonl(tmp_path / "again.jsonl", level="visit")
    assert (tmp_path / "again.jsonl").read_bytes() == expected


def test_visits_are_not_saved_beside_their_run(experiment):
    EvalLog.from_directory(experiment, describe_experiment(experiment)).save(experiment)
    assert list(experiment.rglob("visit_records.jsonl")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"/visit_records\.jsonl: missing in .*: export the experiment again"),
        ("{}\n", r"/visit_records\.jsonl:1 experiment_id: expected a value, found no"),
        ("nonsense\n", r"/visit_records\.jsonl:1 "),
    ],
)
def test_damaged_visits_are_refused_by_name(experiment, tmp_path, text, message):
    EvalLog.from_directory(experiment, describe_experiment(experiment)).save(
        tmp_path / "else"
    )
    path = run_dir_of(tmp_path / "else", 1) / "visit_records.jsonl"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    log = EvalLog.load(tmp_path / "else")
    with pytest.raises(DocumentError, match=rf"^{SUITE}_seed-1{message}"):
        log.to_jsonl(tmp_path / "visits.jsonl", level="visit")
    assert not (tmp_path / "visits.jsonl").exists()


def test_saved_visits_of_another_experiment_are_refused(experiment, tmp_path):
    EvalLog.from_directory(experiment, describe_experiment(experiment)).save(
        tmp_path / "else"
    )
    path = run_dir_of(tmp_path / "else", 1) / "visit_records.jsonl"
    path.write_text(path.read_text().replace(EXPERIMENT_ID, "fedcba9876543210"))
    with pytest.raises(DocumentError, match="experiment_id: expected 0123456789abcdef"):
        EvalLog.load(tmp_path / "else").to_jsonl(tmp_path / "visits.jsonl", "visit")


# --- records that others wrote --------------------------------------------------------


def rename_types(document: Any, namespace: str | None) -> Any:
    """The same document, its `_type`s another harness's, or missing."""
    if not isinstance(document, dict):
        return document
    renamed = {
        key: value if key == "config" else rename_types(value, namespace)
        for key, value in document.items()
    }
    name = renamed.pop("_type", None)
    if namespace is not None and name is not None:
        renamed["_type"] = f"{namespace}.{name.rpartition('.')[2]}"
    return renamed


@pytest.mark.parametrize("namespace", [None, "cube_harness.eval_log"])
def test_log_of_another_harness_is_read(experiment, namespace):
    save_records(experiment, describe_experiment(experiment))
    expected = EvalLog.load(experiment)
    for path in experiment.rglob("e*_record.json"):
        document = rename_types(json.loads(path.read_text()), namespace)
        document.pop("schema_version")
        for name in ("agent_id", "agent_name"):
            document.pop(name, None)
        path.write_text(json.dumps(document))
    log = EvalLog.load(experiment)
    assert log.experiment == expected.experiment
    assert [r.reward for r in log.episodes] == [r.reward for r in expected.episodes]
    assert {record.agent_id for record in log.episodes} == {None}


# --- assignment -----------------------------------------------------------------------


def test_parts_of_a_log_can_be_replaced(experiment):
    log = EvalLog.from_directory(experiment, describe_experiment(experiment))
    log.episodes = log.episodes[::-1]
    assert [record.seed for record in log.episodes] == [0, 1, 2]
    log.experiment = log.experiment.model_copy(update={"experiment_name": "renamed"})
    assert log.experiment.experiment_name == "renamed"


def test_parts_of_another_experiment_are_refused(experiment):
    log = EvalLog.from_directory(experiment, describe_experiment(experiment))
    before = log.model_copy(deep=True)
    stranger = log.episodes[0].model_copy(update={"experiment_id": "other"})
    with pytest.raises(DocumentError, match="experiment_id: expected 0123"):
        log.episodes = [stranger]
    with pytest.raises(DocumentError, match="experiment_id: expected other"):
        log.experiment = log.experiment.model_copy(update={"experiment_id": "other"})
    with pytest.raises(ValueError, match="found two of stream-smoke-v1_seed-0"):
        log.episodes = log.episodes[:1] * 2
    assert log == before


# --- bad input ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("experiment_record.json", None, r"experiment_record\.json: missing in"),
        ("experiment_record.json", '{"_type', r"experiment_record\.json: not readable"),
        (
            f"episodes/{SUITE}_seed-1/episode_record.json",
            '{"_type',
            rf"{SUITE}_seed-1/episode_record\.json: not readable as JSON",
        ),
        (
            f"episodes/{SUITE}_seed-1/episode_record.json",
            '{"schema_version": 2}',
            rf"{SUITE}_seed-1/episode_record\.json schema_version: expected at most 1",
        ),
    ],
)
def test_damaged_log_is_refused_by_name(experiment, path, text, message):
    save_records(experiment, describe_experiment(experiment))
    if text is None:
        (experiment / path).unlink()
    else:
        (experiment / path).write_text(text)
    with pytest.raises(DocumentError, match=f"^{message}"):
        EvalLog.load(experiment)


@pytest.mark.parametrize("trajectory_id", [name for name in HOSTILE_NAMES if name])
def test_hostile_id_stays_in_the_experiment(experiment, tmp_path, trajectory_id):
    log = EvalLog.from_directory(experiment, describe_experiment(experiment))
    record = log.episodes[0].model_copy(update={"trajectory_id": trajectory_id})
    log = EvalLog(experiment=log.experiment, episodes=[record])
    target = tmp_path / "deep" / "down" / "target"
    log.save(target)
    files = [path for path in (tmp_path / "deep").rglob("*") if path.is_file()]
    assert len(files) == 2
    assert {path.parent.parent.name for path in files} == {"down", "episodes"}
    assert EvalLog.load(target) == log
