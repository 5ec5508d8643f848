"""The leaderboard: who is ranked, who is incomplete, who is refused and why."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from generated_runs import edit, make_status, write
from longplay.analysis.runs import FoundRuns, MeasuredRun, RunReader
from longplay.contract.files import read_document
from longplay.contract.rundir import RunDirectory
from longplay.errors import OutputError
from longplay.report.leaderboard import (
    Leaderboard,
    judge_runs,
    make_board_table,
    make_leaderboard,
    write_leaderboard,
)
from longplay.report.verdicts import Judge, Verdict, open_pack, read_trust
from longplay.verify import verification
from longplay.verify.pack import pack_run
from made_up_anchors import NO_ANCHORS, make_anchors, make_game
from written_runs import make_config, write_run

SUITE = "control-smoke-v1"


def write_entry(folder: Path, name: str, reward: float, seeds=range(5)) -> None:
    for seed in seeds:
        config = make_config(SUITE, seed, {}, name)
        rewards = np.full(config.total_frames, reward)
        write_run(folder / name / str(seed), config, rewards)


def read(folder: Path) -> FoundRuns:
    return RunReader(open_pack=open_pack).read_all([folder])


def build(folder: Path, judge=None, anchors=NO_ANCHORS) -> Leaderboard:
    found = read(folder)
    verdicts = judge_runs(found, judge or (lambda _: Verdict(level="claimed")))
    return make_leaderboard(found, anchors, verdicts, folder)


def test_agents_are_ranked_on_the_official_seeds(tmp_path):
    write_entry(tmp_path, "alpha", 1.0)
    write_entry(tmp_path, "beta", 2.0)
    (suite,) = build(tmp_path).suites
    assert (suite.suite, suite.lead) == (SUITE, "headline")
    assert suite.official_seeds == (0, 1, 2, 3, 4)
    assert [(e.rank, e.agent) for e in suite.entries] == [(1, "beta"), (2, "alpha")]
    assert suite.entries[0].numbers["headline"].mean == 3000.0
    assert suite.entries[0].trust == "claimed"


def test_anchors_decide_the_ranking(tmp_path):
    write_entry(tmp_path, "alpha", 1.0)
    games = dict.fromkeys(("pong", "breakout", "space_invaders"), make_game())
    (suite,) = build(tmp_path, anchors=make_anchors(SUITE, **games)).suites
    assert suite.lead == "average"


def test_entry_that_misses_a_seed_is_never_averaged(tmp_path):
    write_entry(tmp_path, "alpha", 9.0, seeds=(0, 1, 4))
    write_entry(tmp_path, "beta", 1.0)
    (suite,) = build(tmp_path).suites
    beta, alpha = suite.entries
    assert (beta.rank, alpha.rank) == (1, None)
    assert (alpha.seeds, alpha.missing_seeds) == ((0, 1, 4), (2, 3))
    assert alpha.numbers == {}
    row = make_board_table(suite).rows[1]
    assert row[2].text == "incomplete: 2–3 missing"


def test_errored_runs_are_counted_beside_their_agent(tmp_path):
    write_entry(tmp_path, "alpha", 1.0)
    write_entry(tmp_path, "beta", -1.0)
    for name, seed in (("alpha", 3), ("alpha", 4)):
        status = make_status("FAILED", "ValueError")
        write(tmp_path / name / str(seed) / "status.json", status)
    (suite,) = build(tmp_path).suites
    beta, alpha = suite.entries
    assert (beta.rank, beta.errored_seeds) == (1, ())
    assert (alpha.rank, alpha.numbers) == (None, {})
    assert alpha.errored_seeds == (3, 4)
    cell = make_board_table(suite).rows[1][2]
    assert cell.text == "incomplete: 3–4 missing, 2 errored"


def test_trust_is_that_of_the_run_proven_least(tmp_path):
    write_entry(tmp_path, "alpha", 1.0)

    def judge(run: MeasuredRun) -> Verdict:
        return Verdict(level="claimed" if run.seed == 3 else "re-executed")

    (suite,) = build(tmp_path, judge).suites
    assert suite.entries[0].trust == "claimed"


def test_refused_runs_are_listed_and_do_not_affect_others(tmp_path):
    write_entry(tmp_path, "alpha", 1.0)
    write_entry(tmp_path, "beta", 1.0, seeds=(7,))
    config = make_config(SUITE, 0, {"base_visit_frames": 60}, "gamma")
    changed = write_run(tmp_path / "gamma", config, [1.0] * config.total_frames)
    (tmp_path / "noise.longplay").write_bytes(b"\0" * 5000)
    (tmp_path / "empty.longplay").write_bytes(b"")
    forged = tmp_path / "delta/0"
    write_entry(tmp_path, "delta", 1.0, seeds=(0,))
    edit(forged / "config.json", sticky=0.0)
    board = build(tmp_path)
    (suite,) = board.suites
    assert [entry.agent for entry in suite.entries] == ["alpha"]
    reasons = {refusal.name: refusal.reason for refusal in board.refused}
    assert reasons.keys() == {
        "beta/7",
        "gamma",
        "noise.longplay",
        "empty.longplay",
        "delta/0",
    }
    assert reasons["beta/7"] == "seed 7 is not one of the official seeds 0–4"
    assert reasons["gamma"].endswith("is not a suite of the catalogue")
    assert reasons["delta/0"] == f"its settings are not those of {SUITE}"
    assert reasons["noise.longplay"].startswith("unreadable: noise.longplay is not a")
    assert RunDirectory(changed).score is not None


def test_runs_that_contradict_each_other_are_all_refused(tmp_path):
    write_entry(tmp_path / "one", "alpha", 1.0)
    write_entry(tmp_path / "two", "alpha", 2.0, seeds=(0,))
    board = build(tmp_path)
    (suite,) = board.suites
    assert suite.entries[0].missing_seeds == (0,)
    assert [refusal.name for refusal in board.refused] == ["one/alpha/0", "two/alpha/0"]
    assert str(tmp_path) not in board.model_dump_json()


@pytest.mark.parametrize("has_own_rows", [False, True], ids=["copied", "own"])
def test_forged_run_does_not_remove_the_run_it_imitates(tmp_path, has_own_rows):
    """The forgery is read first, and has the rows of the true run or its own."""
    write_entry(tmp_path / "b", "alpha", 1.0)
    write_entry(tmp_path / "a", "alpha", 2.0 if has_own_rows else 1.0, seeds=(0,))
    edit(tmp_path / "a/alpha/0/score.json", cumulative_reward=9999.0)

    def judge(run: MeasuredRun) -> Verdict:
        is_false = run.path.is_relative_to(tmp_path / "a")
        return Verdict(level="replayed", problem="score" if is_false else None)

    board = build(tmp_path, judge)
    (entry,) = board.suites[0].entries
    assert (entry.rank, entry.missing_seeds) == (1, ())
    assert entry.numbers["headline"].mean == 1500.0
    assert [refusal.name for refusal in board.refused] == ["a/alpha/0"]
    # Unverified, both are refused.
    assert [refusal.name for refusal in build(tmp_path).refused] == [
        "a/alpha/0",
        "b/alpha/0",
    ]


def test_run_found_not_true_is_refused(tmp_path):
    write_entry(tmp_path, "alpha", 1.0)

    def judge(run: MeasuredRun) -> Verdict:
        problem = "visit 0: reward" if run.seed == 2 else None
        return Verdict(level="claimed", problem=problem)

    board = build(tmp_path, judge)
    assert board.suites[0].entries[0].missing_seeds == (2,)
    assert [(r.name, r.reason) for r in board.refused] == [
        ("alpha/2", "visit 0: reward")
    ]


def test_site(tmp_path):
    write_entry(tmp_path / "in", "<i>alpha</i>".replace("/", "|"), 1.0)
    found = read(tmp_path / "in")
    board = build(tmp_path / "in")
    write_leaderboard(tmp_path / "site", board, found.runs)
    page = (tmp_path / "site/index.html").read_text()
    assert "&lt;i&gt;alpha" in page
    assert "<i>" not in page
    assert read_document(tmp_path / "site/leaderboard.json", Leaderboard) == board
    with pytest.raises(OutputError, match="not empty"):
        write_leaderboard(tmp_path / "site", board, found.runs)


def test_empty_board_has_a_message(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/bad.longplay").write_bytes(b"")
    board = build(tmp_path / "in")
    write_leaderboard(tmp_path / "site", board, ())
    page = (tmp_path / "site/index.html").read_text()
    assert "No entry yet." in page
    assert "bad.longplay" in page


# --- verdicts -------------------------------------------------------------------


@pytest.fixture
def packed(control_run: Path, tmp_path: Path) -> Path:
    """A real run of the control track, verified in `copy` and packed."""
    copy = shutil.copytree(control_run, tmp_path / "copy")
    verification.write_verification(verification.verify_run(copy))
    path = tmp_path / "run.longplay"
    pack_run(copy, path)
    return path


def one(path: Path, cache: Path | None = None) -> MeasuredRun:
    (run,) = RunReader(cache, open_pack).read([path]).runs
    return run


def test_pack_and_directory_are_verified_once(
    packed, control_run, tmp_path, monkeypatch
):
    judge = Judge(tmp_path / "verdicts", tmp_path / "curves")
    assert one(packed, tmp_path / "curves").curves is None
    assert judge.judge(one(packed)) == Verdict(level="replayed")
    # Its rows were there for a moment.
    assert one(packed, tmp_path / "curves").curves is not None

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("played again")

    monkeypatch.setattr(verification, "replay_visits", refuse)
    assert judge.judge(one(packed)) == Verdict(level="replayed")
    assert judge.judge(one(control_run)) == Verdict(level="replayed")
    assert len(list((tmp_path / "verdicts").iterdir())) == 1


def test_own_word_of_a_run_is_not_trusted(packed, tmp_path):
    """Its verification.json says *replayed*, but this machine has not replayed it."""
    judge = Judge(tmp_path / "verdicts", tmp_path / "curves")
    assert read_trust(one(packed)) == "replayed"
    assert judge.recall(one(packed)) == Verdict(level="claimed")
    judge.judge(one(packed))
    assert judge.recall(one(packed)) == Verdict(level="replayed")


def test_pack_keeps_the_declared_tuning(control_run, tmp_path):
    copy = shutil.copytree(control_run, tmp_path / "copy")
    write(copy / "episode_record.json", {"tuning_frames": 7})
    pack_run(copy, tmp_path / "run.longplay")
    assert one(tmp_path / "run.longplay").agent.tuning_frames == 7


def test_run_that_is_not_true_has_a_problem(control_run, tmp_path):
    false = shutil.copytree(control_run, tmp_path / "false")
    events = false / "events.jsonl"
    lines = events.read_bytes().splitlines(True)
    lines[40] = lines[40].replace(b'"reward":0.0', b'"reward":1.0')
    events.write_bytes(b"".join(lines))
    judge = Judge(tmp_path / "verdicts", tmp_path / "curves")
    verdict = judge.judge(one(false))
    assert verdict.level == "claimed"
    assert verdict.problem is not None
    assert "reward" in verdict.problem
    # And again, from memory.
    assert judge.judge(one(false)) == verdict


def test_trust_is_read_from_a_verification_that_fits(packed, control_run, tmp_path):
    assert read_trust(one(control_run)) == "claimed"
    copy = tmp_path / "copy"
    assert read_trust(one(copy)) == "replayed"
    assert read_trust(one(packed)) == "replayed"
    edit(copy / "run_summary.json", tries=2)
    assert read_trust(one(copy)) == "claimed"
