"""The leaderboard: who is ranked, who is incomplete, who is refused and why."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from generated_runs import edit, make_status, write
from longplay.contract.files import read_document
from longplay.contract.rundir import RunDirectory
from longplay.errors import ConfigError, OutputError
from longplay.lab.analysis.runs import FoundRuns, MeasuredRun, RunReader
from longplay.lab.report.draw.colours import style_agents
from longplay.lab.report.site.board_pages import make_board_table, write_leaderboard
from longplay.lab.report.site.leaderboard import (
    Leaderboard,
    judge_runs,
    make_leaderboard,
)
from longplay.lab.report.site.verdicts import (
    Judge,
    Verdict,
    check_verdict_folder,
    open_pack,
    read_trust,
)
from longplay.verify import verification
from longplay.verify.pack import pack_run
from made_up_anchors import NO_ANCHORS, make_anchors, make_game
from repacking import close_pack, open_contents
from written_runs import make_config, write_run

SUITE = "control-smoke-v1"
RESULTS = Path(__file__).parents[4] / "results" / "control-3x3-v1"


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
    assert row[3].text == "incomplete: 2–3 missing"


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
    cell = make_board_table(suite).rows[1][3]
    assert cell.text == "incomplete: 3–4 missing, 2 errored"


def test_errored_run_in_another_folder_is_not_counted(tmp_path):
    """Anyone can make a run of another's agent fail."""
    write_entry(tmp_path / "one", "alpha", 1.0)
    write_entry(tmp_path / "two", "alpha", 1.0, seeds=(3,))
    status = make_status("FAILED", "ValueError")
    write(tmp_path / "two/alpha/3/status.json", status)
    board = build(tmp_path)
    (entry,) = board.suites[0].entries
    assert (entry.rank, entry.errored_seeds) == (1, ())
    assert [refusal.name for refusal in board.refused] == ["two/alpha/3"]


def test_reasons_are_shown_without_control_characters(tmp_path):
    write_entry(tmp_path, "alpha", 1.0)
    board = build(tmp_path, lambda _: Verdict(level="claimed", problem="a\u202eb\x1b"))
    assert {refusal.reason for refusal in board.refused} == {"a\\u202eb\\x1b"}


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


def test_links_out_of_the_folder_are_refused_and_others_are_followed(tmp_path):
    """A link could publish a pack that only the maintainer can read."""
    packs = {name: RESULTS / name / "seed-0.longplay" for name in ("random", "blind")}
    board, private = tmp_path / "board", tmp_path / "private.longplay"
    board.mkdir()
    shutil.copy(packs["random"], private)
    shutil.copy(packs["blind"], board / ".stored")
    (board / "mine.longplay").symlink_to(private)
    (board / "known.longplay").symlink_to(".stored")
    built = build(board)
    assert [entry.agent for entry in built.suites[0].entries] == ["blind"]
    assert [(refusal.name, refusal.reason) for refusal in built.refused] == [
        ("mine.longplay", "a link out of board; replace it by the file itself")
    ]


def test_contradicting_runs_are_two_disputed_entries(tmp_path):
    """A rival's run of the same agent and seed removes and changes nothing."""
    write_entry(tmp_path / "one", "alpha", 1.0)
    write_entry(tmp_path / "two", "alpha", 2.0)
    write_entry(tmp_path / "two", "beta", 3.0)
    board = build(tmp_path)
    (suite,) = board.suites
    found = {
        entry.agent: (entry.rank, entry.is_disputed, entry.numbers["headline"].mean)
        for entry in suite.entries
    }
    assert found == {
        "beta": (1, False, 4500.0),
        "alpha [two/alpha]": (2, True, 3000.0),
        "alpha [one/alpha]": (3, True, 1500.0),
    }
    assert board.refused == ()
    assert str(tmp_path) not in board.model_dump_json()
    marks = [row[3].text for row in make_board_table(suite).rows]
    assert marks == ["", "disputed", "disputed"]


def test_single_contradicting_run_leaves_the_other_entry_complete(tmp_path):
    write_entry(tmp_path / "one", "alpha", 1.0)
    write_entry(tmp_path / "two", "alpha", 2.0, seeds=(0,))
    # Copies of the true runs beside the false one do not help it.
    shutil.copytree(tmp_path / "one/alpha/1", tmp_path / "two/alpha/1")
    (suite,) = build(tmp_path).suites
    one, two = suite.entries
    assert (one.agent, one.rank, one.missing_seeds) == ("alpha [one/alpha]", 1, ())
    assert one.numbers["headline"].mean == 1500.0
    assert (two.agent, two.rank) == ("alpha [two/alpha]", None)
    assert two.missing_seeds == (2, 3, 4)
    assert one.is_disputed
    assert two.is_disputed


def test_entry_in_several_folders_survives_a_dispute(tmp_path):
    write_entry(tmp_path / "a", "alpha", 1.0, seeds=(0, 1))
    write_entry(tmp_path / "b", "alpha", 1.0, seeds=(2, 3, 4))
    write_entry(tmp_path / "c", "alpha", 2.0, seeds=(0,))
    (suite,) = build(tmp_path).suites
    complete = [entry for entry in suite.entries if entry.rank is not None]
    assert [entry.agent for entry in complete] == ["alpha [a/alpha]"]
    assert complete[0].numbers["headline"].mean == 1500.0


def test_dispute_of_every_folder_does_not_tear_an_entry_apart(tmp_path):
    write_entry(tmp_path / "a", "alpha", 1.0, seeds=(0, 1))
    write_entry(tmp_path / "b", "alpha", 1.0, seeds=(2, 3, 4))
    write_entry(tmp_path / "c", "alpha", 2.0, seeds=(0, 2))
    (suite,) = build(tmp_path).suites
    first, second = suite.entries
    assert (first.agent, first.rank) == ("alpha [a/alpha + b/alpha]", 1)
    assert first.numbers["headline"].mean == 1500.0
    assert (second.agent, second.rank) == ("alpha [c/alpha]", None)
    assert first.is_disputed
    assert second.is_disputed


def test_flood_of_contradicting_runs_is_one_entry_each(tmp_path):
    """Not one per combination: three seeds of six versions would have 216."""
    write_entry(tmp_path / "a", "alpha", 1.0)
    for seed in range(3):
        for n in range(5):
            write_entry(tmp_path / f"{seed}{n}", "alpha", 2.0 + n, seeds=(seed,))
    (suite,) = build(tmp_path).suites
    assert len(suite.entries) == 16
    assert (suite.entries[0].agent, suite.entries[0].rank) == ("alpha [a/alpha]", 1)


def test_entry_of_several_folders_names_them(tmp_path):
    """A stranger's run can complete an entry, but not secretly."""
    write_entry(tmp_path / "one", "alpha", 1.0, seeds=(0, 1, 2, 3))
    write_entry(tmp_path / "two", "alpha", 0.0, seeds=(4,))
    write_entry(tmp_path / "one", "beta", 2.0)
    board = build(tmp_path)
    (suite,) = board.suites
    found = {entry.agent: entry.joined_from for entry in suite.entries}
    assert found == {"alpha": ("one/alpha", "two/alpha"), "beta": ()}
    marks = {row[1].text: row[3].text for row in make_board_table(suite).rows}
    assert marks == {"alpha": "runs from one/alpha, two/alpha", "beta": ""}
    assert board.model_dump_json().count("joined_from") == 1


def test_second_run_in_the_same_folder_removes_nothing(tmp_path):
    write_entry(tmp_path, "alpha", 1.0)
    config = make_config(SUITE, 3, {}, "alpha")
    write_run(tmp_path / "alpha/3-again", config, [2.0] * config.total_frames)
    (suite,) = build(tmp_path).suites
    assert [(e.agent, e.rank, e.is_disputed) for e in suite.entries] == [
        ("alpha [alpha #2]", 1, True),
        ("alpha [alpha]", 2, True),
    ]


def test_other_word_about_tuning_does_not_hide_a_dispute(tmp_path):
    write_entry(tmp_path / "one", "alpha", 1.0)
    write_entry(tmp_path / "two", "alpha", 2.0)
    for seed in range(5):
        write(tmp_path / f"two/alpha/{seed}/episode_record.json", {"tuning_frames": 7})
    (suite,) = build(tmp_path).suites
    assert [(e.tuning_frames, e.is_disputed) for e in suite.entries] == [
        (7, True),
        (None, True),
    ]


def test_copies_of_an_entry_are_no_dispute(tmp_path):
    write_entry(tmp_path / "one", "alpha", 1.0)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    shutil.copytree(tmp_path / "one/alpha/2", tmp_path / "three/2")
    (suite,) = build(tmp_path).suites
    (entry,) = suite.entries
    assert (entry.agent, entry.rank, entry.is_disputed) == ("alpha", 1, False)


def test_identical_rows_under_two_agents_are_marked(tmp_path):
    write_entry(tmp_path, "alpha", 1.0)
    write_entry(tmp_path, "beta", 1.0)
    write_entry(tmp_path, "gamma", 2.0)
    # Other documents, the same rows.
    edit(tmp_path / "beta/0/run_summary.json", wall_time_s=9.0)
    board = build(tmp_path)
    found = {entry.agent: entry.same_rows_as for entry in board.suites[0].entries}
    assert found == {"alpha": ("beta",), "beta": ("alpha",), "gamma": ()}
    write_leaderboard(tmp_path / "site", board, (), NO_ANCHORS)
    assert "same rows as beta" in (tmp_path / "site/index.html").read_text()


def test_single_games_are_neither_ranked_nor_refused(tmp_path):
    write_entry(tmp_path, "alpha", 1.0)
    alone = {"games": ["qbert"], "num_cycles": 1}
    config = make_config("stream-smoke-v1", 0, alone, "alpha")
    write_run(tmp_path / "alone", config, [1.0] * config.total_frames)
    board = build(tmp_path)
    assert [suite.suite for suite in board.suites] == [SUITE]
    assert (board.refused, board.single_games) == ((), 1)


def test_what_is_only_said_is_set_apart(tmp_path):
    write_entry(tmp_path, "alpha", 1.0)
    board = build(tmp_path, lambda _: Verdict(level="replayed", made_by="make it"))
    columns = make_board_table(board.suites[0]).columns
    assert columns[-6:] == (
        "trust",
        "checked by",
        "packs",
        "says: isolation",
        "says: tuning timesteps",
        "says: source",
    )
    streaming = board.suites[0].model_copy(update={"suite": "stream-3x2-v1"})
    assert "says: tuning frames" in make_board_table(streaming).columns
    assert board.suites[0].entries[0].checked_by == ("make it",)
    assert {"agent", "isolation", "tuning_frames"} <= set(board.said)


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
    # Unverified, it is an entry of its own.
    assert [entry.rank for entry in build(tmp_path).suites[0].entries] == [1, None]


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
    write_leaderboard(tmp_path / "site", board, found.runs, NO_ANCHORS)
    page = (tmp_path / "site/index.html").read_text()
    assert "&lt;i&gt;alpha" in page
    assert "<i>" not in page
    assert read_document(tmp_path / "site/leaderboard.json", Leaderboard) == board
    assert 'href="agents/i-alpha-i.html"' in page
    own = (tmp_path / "site/agents/i-alpha-i.html").read_text()
    assert "&lt;i&gt;alpha" in own
    assert "<i>" not in own
    runs = re.search(r"<caption>runs</caption>.*?</table>", own, re.DOTALL)
    assert runs is not None
    headlines = re.findall(r"<tr>\s*<td[^>]*>\d</td>\s*<td[^>]*>(.*?)</td>", runs[0])
    assert headlines == ["1,500"] * 5
    with pytest.raises(OutputError, match="not empty"):
        write_leaderboard(tmp_path / "site", board, found.runs, NO_ANCHORS)


def test_an_agent_has_the_colour_of_its_name(tmp_path):
    write_entry(tmp_path / "runs", "dqn", 1.0)
    write_entry(tmp_path / "runs", "linear-sarsa", 2.0)
    board = build(tmp_path / "runs")
    write_leaderboard(tmp_path / "site", board, (), NO_ANCHORS)
    page = (tmp_path / "site/index.html").read_text()
    ranked = ["linear-sarsa", "dqn"]
    styles = style_agents(ranked)
    shown = re.findall(r'"marker": *{[^}]*"color": *"(#\w+)"', page)
    assert shown == [styles[agent].colour for agent in ranked]


def test_empty_board_has_a_message(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/bad.longplay").write_bytes(b"")
    board = build(tmp_path / "in")
    write_leaderboard(tmp_path / "site", board, (), NO_ANCHORS)
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


def one(path: Path) -> MeasuredRun:
    (run,) = RunReader(open_pack).read([path]).runs
    return run


def test_run_is_replayed_once(packed, control_run, tmp_path, monkeypatch):
    judge = Judge(tmp_path / "verdicts")
    assert one(packed).curves is not None
    verdict = judge.judge(one(packed))
    assert verdict == Verdict(level="replayed", made_by="longplay leaderboard --verify")
    assert judge.judge(one(control_run)).level == "replayed"

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("played again")

    monkeypatch.setattr(verification, "replay_visits", refuse)
    assert judge.judge(one(packed)) == verdict
    assert judge.judge(one(control_run)) == verdict


@pytest.mark.exhaustive
@pytest.mark.parametrize("copy_is_first", [True, False])
def test_copy_with_other_answers_has_a_verdict_of_its_own(
    packed, tmp_path, copy_is_first
):
    """Its manifest says the same of the verified files."""
    contents = open_contents(packed)
    contents["answers"] = bytes(len(contents["answers"]))
    copy = close_pack(packed, tmp_path / "copy.longplay", contents)
    judge = Judge(tmp_path / "verdicts")
    order = (copy, packed) if copy_is_first else (packed, copy)
    found = {path: judge.judge(one(path)) for path in order}
    assert found[packed].level == "replayed"
    assert found[copy].level == "claimed"
    assert found[copy].problem is not None


@pytest.mark.exhaustive
def test_verdict_is_about_the_bytes_that_were_replayed(packed, tmp_path, monkeypatch):
    """The pack is replaced by a forged copy while it is replayed."""
    contents = open_contents(packed)
    contents["answers"] = bytes(len(contents["answers"]))
    forged = close_pack(packed, tmp_path / "forged.longplay", contents)
    judge = Judge(tmp_path / "verdicts")
    play = Judge._play

    def replace_after(self: Judge, played: Path) -> Verdict:
        verdict = play(self, played)
        shutil.copyfile(forged, played)
        return verdict

    monkeypatch.setattr(Judge, "_play", replace_after)
    problem = judge.judge(one(packed)).problem
    assert problem == "its files changed while it was replayed"
    assert judge.recall(one(packed)).level == "claimed"


@pytest.mark.exhaustive
def test_own_word_of_a_run_is_not_trusted(packed, tmp_path):
    """Its verification.json says *replayed*, but this machine has not replayed it."""
    judge = Judge(tmp_path / "verdicts")
    assert read_trust(one(packed)) == "replayed"
    assert judge.recall(one(packed)) == Verdict(level="claimed")
    judge.judge(one(packed))
    assert judge.recall(one(packed)).level == "replayed"


@pytest.mark.exhaustive
@pytest.mark.parametrize("level", ["re-executed", "re-executed (unconfined)"])
def test_verdict_that_the_judge_cannot_reach_is_not_believed(packed, tmp_path, level):
    judge = Judge(tmp_path / "verdicts")
    judge.keep(packed, Verdict(level=level))
    assert judge.recall(one(packed)) == Verdict(level="claimed")
    assert judge.judge(one(packed)).level == "replayed"


# --- where verdicts may lie -----------------------------------------------------


def test_verdicts_inside_of_the_folder_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected verdicts outside of"):
        check_verdict_folder(tmp_path / "packs/.cache", tmp_path / "packs")


@pytest.mark.parametrize("is_link", [False, True])
def test_verdicts_in_the_same_work_tree_are_refused(tmp_path, is_link):
    tree = tmp_path / "checkout"
    (tree / ".git").mkdir(parents=True)
    (tree / "packs").mkdir()
    if is_link:
        (tree / "cache").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="choose another folder with --verdicts"):
        check_verdict_folder(tree / "cache/verdicts", tree / "packs")
    check_verdict_folder(tmp_path / "verdicts", tree / "packs")


@pytest.mark.parametrize("where", ["verdicts", "."])
def test_verdicts_where_others_can_write_are_refused(tmp_path, where):
    place = tmp_path / "cache"
    (place / "verdicts").mkdir(parents=True)
    (place / where).chmod(0o777)
    with pytest.raises(ConfigError, match="with mode 777"):
        check_verdict_folder(place / "verdicts", tmp_path / "packs")
    (place / where).chmod(0o755)
    check_verdict_folder(place / "verdicts", tmp_path / "packs")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_verdicts_of_another_user_are_refused(tmp_path):
    (tmp_path / "verdicts").mkdir()
    os.chown(tmp_path / "verdicts", 12345, 12345)
    with pytest.raises(ConfigError, match="of user 12345"):
        check_verdict_folder(tmp_path / "verdicts", tmp_path / "packs")


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
    judge = Judge(tmp_path / "verdicts")
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


def test_the_number_that_ranks_comes_first(tmp_path):
    write_entry(tmp_path, "alpha", 1.0)
    games = dict.fromkeys(("pong", "breakout", "space_invaders"), make_game())
    (suite,) = build(tmp_path, anchors=make_anchors(SUITE, **games)).suites
    table = make_board_table(suite, {"alpha": "agents/alpha.html"})
    assert table.columns[:4] == ("rank", "agent", "average (ranks)", "seeds")
    assert table.rows[0][1].page == "agents/alpha.html"


def test_page_of_an_agent_has_the_runs_of_its_entry_alone(tmp_path):
    write_entry(tmp_path / "in", "alpha", 1.0)
    found = read(tmp_path / "in")
    board = build(tmp_path / "in")
    (suite,) = board.suites
    packs = {str(seed): f"packs/{seed:016}.longplay" for seed in range(5)}
    entry = suite.entries[0].model_copy(update={"packs": packs})
    changed = suite.model_copy(update={"entries": (entry,)})
    other = board.model_copy(update={"suites": (changed,)})
    for name, shown in (("one", board), ("two", other)):
        write_leaderboard(tmp_path / name, shown, found.runs, NO_ANCHORS)
    one, two = (
        (tmp_path / name / "agents/alpha.html").read_text() for name in ("one", "two")
    )
    assert one.index("(ranks)") < one.index("--agent alpha")
    # Runs are not those that the entry names: none is shown in their place.
    assert "--agent alpha" not in two
