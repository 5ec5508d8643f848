"""Evidence in records, and what an export checks before it writes a line."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generated_runs import edit, make_experiment, run_dir_of, write_plan
from longplay.contract.rundir import ROW_FILES, RunDirectory
from longplay.errors import DocumentError
from longplay.eval_log.evidence import read_evidence
from longplay.eval_log.export import ExportOptions, export_jsonl
from longplay.validation import validate_run
from longplay.verify.verification import verify_run, write_verification
from rows import read_rows, rehash


@pytest.fixture
def played(control_run: Path, tmp_path: Path) -> Path:
    """A copy of a played control run in its experiment."""
    experiment = tmp_path / "experiment"
    shutil.copytree(control_run.parent.parent, experiment)
    (run,) = experiment.glob("episodes/*")
    return run


def export(run: Path, **options: Any) -> list[dict[str, Any]]:
    path = run.parent.parent.parent / "out.jsonl"
    export_jsonl(run.parent.parent, path, ExportOptions(**options))
    return read_rows(path)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def change(path: Path, keys: str, value: Any) -> None:
    """Sets a value in a document, at keys like `visits/0/frames`."""
    document = json.loads(path.read_text())
    *parents, last = keys.split("/")
    place: Any = document
    for key in parents:
        place = place[int(key) if isinstance(place, list) else key]
    place[int(last) if isinstance(place, list) else last] = value
    path.write_text(json.dumps(document, indent=2) + "\n")


# --- evidence -----------------------------------------------------------------------


def test_record_names_the_files_it_rests_on(played: Path) -> None:
    (record,) = export(played)
    evidence = record["evidence"]
    assert evidence["config_sha256"] == sha256(played / "config.json")
    assert evidence["score_sha256"] == sha256(played / "score.json")
    assert evidence["rows_sha256"] == {n: sha256(played / n) for n in ROW_FILES}
    last = read_rows(played / "digests.jsonl")[-1]
    assert evidence["chain_head"] == last["chain"]
    config = json.loads((played / "config.json").read_text())
    assert evidence["contract_hash"] == config["benchmark_contract_hash"]
    assert evidence["ale_py"] == config["versions"]["ale_py"]
    assert evidence["rom_sha256"] == config["rom_sha256"]
    assert evidence["isolation"] == config.get("agent_isolation")
    trust = evidence["trust"]
    assert (trust["level"], trust["verified_with"]) == ("claimed", None)


def test_visits_carry_the_evidence_of_their_run(played: Path) -> None:
    (record,) = export(played)
    for visit in export(played, level="visit"):
        assert visit["evidence"] == record["evidence"]


def test_isolation_is_copied_from_the_config(played: Path) -> None:
    isolation = {"level": "sandbox", "landlock_abi": 6, "allowed": []}
    document = json.loads((played / "config.json").read_text())
    document["agent_isolation"] = isolation
    (played / "config.json").write_text(json.dumps(document))
    assert read_evidence(RunDirectory(played)).isolation == isolation


def test_verification_of_these_files_is_the_trust(played: Path) -> None:
    record = write_verification(verify_run(played))
    (exported,) = export(played)
    assert exported["evidence"]["trust"] == {
        "_type": "longplay.eval_log.Trust",
        "schema_version": 1,
        "level": "replayed",
        "verified_with": record.versions,
        "verified_utc": record.verified_utc,
    }


FORGED_VERIFICATIONS: dict[str, dict[str, Any]] = {
    "covers nothing": {"sha256": {}},
    "covers another score": {"sha256/score.json": "0" * 64},
    "did not pass": {"passed": False},
    "lacks a row file": {"sha256": "without events"},
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", FORGED_VERIFICATIONS)
def test_other_verification_is_no_trust(played: Path, name: str) -> None:
    write_verification(verify_run(played))
    path = played / "verification.json"
    for keys, value in FORGED_VERIFICATIONS[name].items():
        if value == "without events":
            value = json.loads(path.read_text())["sha256"]
            del value["events.jsonl"]
        # A file name has a dot, not a slash.
        change(path, keys, value)
    assert read_evidence(RunDirectory(played)).trust.level == "claimed"
    with pytest.raises(DocumentError, match=r"verification\.json: expected a verif"):
        export(played, require="replayed")


# --- contradictions -----------------------------------------------------------------

SUMMARY, SCORE, CONFIG = "run_summary.json", "score.json", "config.json"
REQUEST, STATUS = "episode_config.json", "status.json"

# (file, keys, value, message). The hashes in the summary fit the edited score.
CONTRADICTIONS: list[tuple[str, str, Any, str]] = [
    (CONFIG, "emulator_seeds/0", 1, r"config\.json emulator_seeds: expected"),
    (CONFIG, "schedule/0/visit_frames", 451, r"config\.json schedule: expected"),
    (CONFIG, "seed", 2, r"config\.json seed: expected a seed that experiment_config"),
    (CONFIG, "agent/agent_id", "0" * 64, r"config\.json agent: expected the agent's"),
    (REQUEST, "seed", 7, r"episode_config\.json seed: expected 1 from config\.json"),
    (REQUEST, "agent/agent_id", "0" * 64, r"episode_config\.json agent: expected"),
    (REQUEST, "trajectory_id", "x", r"episode_config\.json trajectory_id: expected"),
    (STATUS, "frame", 899, r"status\.json frame: expected 900 from"),
    (STATUS, "frames_total", 1, r"status\.json frames_total: expected 900 from"),
    (SUMMARY, "frames", 901, r"run_summary\.json frames: expected 900 from its vis"),
    (SUMMARY, "episodes", 99, r"run_summary\.json episodes: expected"),
    (SUMMARY, "visits/0/frames", 451, r"run_summary\.json frames: expected 901"),
    (SUMMARY, "visits/1/game_id", "pong", r"run_summary\.json visits\.1\.game_id: "),
    (SUMMARY, "visits/0/reward_sum", 1e6, r"run_summary\.json visits\.0\.reward_sum"),
    (SUMMARY, "visits/0/game_reward_sum", 1e6, r"score\.json cumulative_game_score: e"),
    (SUMMARY, "chain_head", "0" * 64, r"run_summary\.json chain_head: expected"),
    (SUMMARY, "chain_head", None, r"run_summary\.json chain_head: expected"),
    (SUMMARY, "score_sha256", "0" * 64, r"run_summary\.json score_sha256: expected"),
    (SCORE, "frames", 1, r"score\.json frames: expected 900"),
    (SCORE, "complete", False, r"score\.json complete: expected True"),
    (SCORE, "benchmark_contract_hash", "0" * 64, r"score\.json benchmark_contract_ha"),
    (SCORE, "cumulative_reward", 9e9, r"score\.json cumulative_reward: expected"),
    (SCORE, "cumulative_game_score", 9e9, r"score\.json cumulative_game_score: exp"),
    (SCORE, "per_game_cumulative_reward/asterix", 9e9, r"score\.json per_game_cumula"),
]


@pytest.mark.parametrize(("file", "keys", "value", "message"), CONTRADICTIONS)
def test_documents_that_contradict_each_other_are_refused(
    played: Path, file: str, keys: str, value: Any, message: str
) -> None:
    change(played / file, keys, value)
    if file == SCORE:
        rehash(played)
    with pytest.raises(
        DocumentError, match=rf"^{played.name}/{message}".replace("+", ".")
    ):
        export(played)
    assert not (played.parent.parent.parent / "out.jsonl").exists()


def test_edited_reward_of_a_streaming_visit_is_refused(
    finished_run: Path, tmp_path: Path
) -> None:
    experiment = tmp_path / "experiment"
    shutil.copytree(finished_run.parent.parent, experiment)
    (run,) = experiment.glob("episodes/*")
    assert len(export(run)) == 1
    visit = json.loads((run / SUMMARY).read_text())["visits"][1]
    change(run / SUMMARY, "visits/1/reward_sum", visit["reward_sum"] + 1)
    message = r"visits\.1\.reward_sum: expected .* from curves\.jsonl, found"
    with pytest.raises(DocumentError, match=message):
        export(run)


def test_edited_score_is_refused_by_its_hash(played: Path) -> None:
    path = played / SCORE
    path.write_text(path.read_text().replace('"fps": ', '"fps": 1'))
    with pytest.raises(DocumentError, match=r"score_sha256: expected"):
        export(played)


@pytest.mark.parametrize("name", ROW_FILES)
def test_row_file_of_another_length_is_refused(played: Path, name: str) -> None:
    with (played / name).open("a") as file:
        file.write("\n")
    with pytest.raises(DocumentError, match=rf"{name} length in bytes: expected"):
        export(played)
    (played / name).unlink()
    with pytest.raises(DocumentError, match=r"from run_summary\.json, found None"):
        export(played)


def test_experiment_of_another_agent_is_refused(played: Path) -> None:
    plan = played.parent.parent / "experiment_config.json"
    change(plan, "agent/agent_id", "0" * 64)
    with pytest.raises(DocumentError, match=r"config\.json agent: expected .* experi"):
        export(played)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        ("experiment_id", "0" * 16),
        ("agent/agent_id", "0" * 64),
        ("agent/config/_type", "another.Agent"),
    ],
)
def test_record_of_another_experiment_or_agent_is_refused(
    played: Path, keys: str, value: str
) -> None:
    change(played.parent.parent / "experiment_record.json", keys, value)
    field = keys.replace("/_type", "").replace("/", r"\.")
    with pytest.raises(DocumentError, match=rf"record\.json {field}: expected"):
        export(played)


def test_damaged_last_digest_is_a_finding(played: Path) -> None:
    """One flipped bit, which makes it another byte than UTF-8 has."""
    path = played / "digests.jsonl"
    content = bytearray(path.read_bytes())
    content[-5] ^= 0x80
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=r"chain_head: expected None from digests"):
        export(played)
    findings = validate_run(played).findings
    assert "digests.jsonl" in {finding.file for finding in findings.shown}


def test_scoring_again_keeps_the_hash_up_to_date(
    played: Path, invoke: Callable[..., Any]
) -> None:
    (played / SCORE).write_text("{}")
    change(played / SUMMARY, "score_sha256", "0" * 64)
    assert invoke("score", played).exit_code == 0
    assert len(export(played)) == 1


# --- planned runs -------------------------------------------------------------------


def test_every_planned_seed_has_a_line(tmp_path: Path) -> None:
    experiment = make_experiment(tmp_path / "experiment", range(3))
    shutil.rmtree(run_dir_of(experiment, 1))
    message = (
        r"experiment_config\.json seeds: expected a run .* none of seed 1 \(1 of 3"
    )
    with pytest.raises(DocumentError, match=message):
        export_jsonl(experiment, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()
    assert (
        export_jsonl(
            experiment, tmp_path / "out.jsonl", ExportOptions(partial=True)
        ).lines
        == 2
    )


def test_run_that_was_not_planned_is_refused(tmp_path: Path) -> None:
    experiment = make_experiment(tmp_path / "experiment", range(3))
    write_plan(experiment, range(2))
    with pytest.raises(DocumentError, match=r"seed-2/config\.json seed: expected a se"):
        export_jsonl(experiment, tmp_path / "out.jsonl")


def test_run_is_exported_once(tmp_path: Path) -> None:
    experiment = make_experiment(tmp_path / "experiment", range(2))
    shutil.copytree(run_dir_of(experiment, 1), experiment / "episodes" / "again")
    with pytest.raises(DocumentError, match="expected one run of each seed, found 1"):
        export_jsonl(experiment, tmp_path / "out.jsonl")


# --- --require ----------------------------------------------------------------------


def test_run_without_evidence_is_noted_and_never_required(
    tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    experiment = make_experiment(tmp_path / "experiment", range(2))
    out = tmp_path / "out.jsonl"
    exported = export_jsonl(experiment, out, ExportOptions())
    assert exported.lines == 2
    runs = ("stream-smoke-v1_seed-0", "stream-smoke-v1_seed-1")
    assert exported.no_evidence == runs
    answer = invoke("export", experiment, "--jsonl", out)
    assert "no evidence (no digests or hashes, only claimed)" in answer.stdout
    with pytest.raises(DocumentError, match="no evidence: it has no digests or hash"):
        export_jsonl(experiment, out, ExportOptions(require="replayed"))


@pytest.mark.exhaustive
def test_export_verifies_what_it_requires(
    played: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    out = tmp_path / "out.jsonl"
    answer = invoke("export", played, "--jsonl", out, "--require", "replayed")
    assert answer.exit_code == 0
    (record,) = read_rows(out)
    assert record["evidence"]["trust"]["level"] == "replayed"
    out.unlink()
    edit(played / "verification.json", level="re-executed")  # nobody re-executed it
    lines = (played / "events.jsonl").read_bytes().replace(b'"lives":5', b'"lives":4')
    (played / "events.jsonl").write_bytes(lines)
    rehash(played)
    answer = invoke("export", played, "--jsonl", out, "--require", "replayed")
    assert answer.exit_code == 1
    assert "expected a verification of level replayed, found a failed one" in (
        answer.stderr.replace("\n", " ")
    )
    assert not out.exists()


BAD_OPTIONS = [
    (("--require", "claimed"), "--require: expected replayed or re-executed, found"),
    (("--agent", "random"), "--agent: only with --require re-executed"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_bad_options(
    options: tuple[str, ...], message: str, played: Path, invoke: Callable[..., Any]
) -> None:
    answer = invoke("export", played, "--jsonl", "out.jsonl", *options)
    assert answer.exit_code == 2
    assert message in answer.stderr
