"""A run of another tool: contract v1's required keys and nothing of longplay's own.

What the contract document does not say is a note there, and what it says is a finding.
"""

# Tables read best with one trick per line, however long.
# ruff: noqa: E501
from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longplay.contract.findings import Finding
from longplay.contract.rundir import read_run
from longplay.eval_log import EvalLog
from longplay.lab.analysis.runs import RunReader
from longplay.lab.atlas.matrix import read_matrix
from longplay.tracks.scores import score_run
from longplay.validation import Report, validate_run
from playing import play_run
from rows import read_rows
from tampering import (
    CONFIG,
    EPISODES,
    EVENTS,
    SCORE,
    SEGMENTS,
    Row,
    Trick,
    both,
    drop_key,
    on_bytes,
    on_json,
    put,
    read_json,
    remove,
    respell,
    write_json,
)

GAMES = ("tron", "snake")
VISITS = (("snake", 0, 12), ("tron", 0, 9), ("tron", 1, 10), ("snake", 1, 15))
GAME_FRAMES = 5  # a game is over after so many frames
DELAY, INTERVAL, DEFAULT = 1, 2, 3
SECONDS_PER_FRAME = 0.02


def write_lines(path: Path, rows: list[Row]) -> None:
    """As json.dumps spells rows: spaces after commas and colons."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_config() -> dict[str, Any]:
    schedule = [
        {"game_id": game, "visit_frames": n, "cycle_idx": cycle, "visit_idx": i}
        for i, (game, cycle, n) in enumerate(VISITS)
    ]
    scoring = {
        "window_frames": 4,
        "revisit_frames": 3,
        "bottom_k_frac": 0.5,
        "final_score_weights": [0.25, 0.75],
    }
    hashed = {
        "games": list(GAMES),
        "schedule": schedule,
        "decision_interval": INTERVAL,
        "sticky": 0.0,
        "life_loss_termination": False,
        "full_action_space": True,
        "default_action_idx": DEFAULT,
    }
    return {
        "benchmark_contract_version": "v1",
        "benchmark_contract_hash": hash_settings(
            {
                **hashed,
                "delay_frames": DELAY,
                "global_action_set": [0, 1, 2, 3],
                "scoring_defaults": scoring,
            }
        ),
        **hashed,
        "sticky": 0,
        "runner_config": {"delay_frames": DELAY, "device": "cpu"},
        "action_mapping_policy": {"global_action_set": [0, 1, 2, 3], "kind": "clip"},
        "scoring_defaults": scoring,
        "logdir": "somewhere",
    }


def hash_settings(payload: dict[str, Any]) -> str:
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def make_events() -> list[Row]:
    rng = random.Random(0)
    events: list[Row] = []
    span = 0
    for visit_idx, (game, cycle, frames) in enumerate(VISITS):
        for visit_frame in range(frames):
            since_reset = visit_frame % GAME_FRAMES
            if since_reset % INTERVAL == 0:
                decided = rng.randrange(4)
            applied = events[-1]["decided_action_idx"] if since_reset else DEFAULT
            row = {
                "reward": rng.choice([0, 0, 1, 2.5]),
                "terminated": since_reset == GAME_FRAMES - 1,
                "truncated": visit_frame == frames - 1,
                "wallclock_time": 1e9 + len(events) * SECONDS_PER_FRAME,
                "applied_action_idx": applied,
                "decided_action_idx": decided,
                "is_decision_frame": since_reset % INTERVAL == 0,
                "segment_id": span,
                "episode_id": span,
                "visit_frame_idx": visit_frame,
                "cycle_idx": cycle,
                "visit_idx": visit_idx,
                "game_id": game,
                "global_frame_idx": len(events),
            }
            events.append(row)
            span += row["terminated"] or row["truncated"]
    return events


def make_spans(events: list[Row], key: str) -> list[Row]:
    spans = []
    for i in range(events[-1][key] + 1):
        rows = [row for row in events if row[key] == i]
        spans.append(
            {
                "ended_by": "terminated" if rows[-1]["terminated"] else "truncated",
                "return": sum(row["reward"] for row in rows),
                "length": len(rows),
                "start_global_frame_idx": rows[0]["global_frame_idx"],
                "end_global_frame_idx": rows[-1]["global_frame_idx"],
                key: i,
                "game_id": rows[0]["game_id"],
            }
        )
    return spans


def on_events(edit: Callable[[list[Row]], Any]) -> Trick:
    def trick(run: Path) -> None:
        rows = read_rows(run / EVENTS)
        edit(rows)
        write_lines(run / EVENTS, rows)

    return trick


def set_event(index: int, **values: Any) -> Trick:
    return on_events(lambda rows: rows[index].update(values))


def set_span(file: str, index: int, **values: Any) -> Trick:
    def trick(run: Path) -> None:
        rows = read_rows(run / file)
        rows[index].update({k.rstrip("_"): v for k, v in values.items()})
        write_lines(run / file, rows)

    return trick


def other_notes(report: Report) -> list[Finding]:
    """The notes besides the one that every run of another tool gets."""
    return [note for note in report.findings.notes if note.kind != "no evidence"]


@pytest.fixture
def foreign_run(tmp_path: Path) -> Path:
    """A valid run of another tool, not scored."""
    run = tmp_path / "foreign"
    run.mkdir()
    write_json(run / CONFIG, make_config())
    events = make_events()
    write_lines(run / EVENTS, events)
    write_lines(run / EPISODES, make_spans(events, "episode_id"))
    write_lines(run / SEGMENTS, make_spans(events, "segment_id"))
    return run


# --- Valid ------------------------------------------------------------------------


def test_is_valid_without_a_note(foreign_run: Path, invoke: Callable[..., Any]) -> None:
    report = validate_run(foreign_run)
    assert report.findings.shown == other_notes(report) == []
    assert [note.kind for note in report.findings.notes] == ["no evidence"]
    assert (report.is_valid, report.findings.is_foreign) == (True, True)
    assert report.frames == sum(frames for _, _, frames in VISITS)
    answer = invoke("validate", foreign_run, "--json")
    assert answer.exit_code == 0
    assert answer.json["foreign"] is True


def test_is_scored(foreign_run: Path, invoke: Callable[..., Any]) -> None:
    assert invoke("score", foreign_run).exit_code == 0
    score = read_json(foreign_run / SCORE)
    events = make_events()
    tails = {
        "tron": sum(row["reward"] for row in events[27:31]) / 4,
        "snake": sum(row["reward"] for row in events[42:46]) / 4,
    }
    assert score["per_game_scores"] == pytest.approx(tails)
    mean, bottom = sum(tails.values()) / 2, min(tails.values())
    assert score["final_score"] == pytest.approx(0.25 * mean + 0.75 * bottom)
    # tron's two visits are next to each other: one long visit, nothing forgotten.
    assert set(score["per_game_forgetting"]) == {"snake"}
    assert score["per_game_episode_counts"] == {"tron": 2, "snake": 3}
    assert invoke("validate", foreign_run).exit_code == 0


@pytest.mark.seed("000", "score-13")
def test_fps_comes_from_the_clock_in_the_events(foreign_run: Path) -> None:
    assert score_run(foreign_run).fps == pytest.approx(1 / SECONDS_PER_FRAME)


def test_fps_is_null_without_a_clock(foreign_run: Path) -> None:
    on_events(lambda rows: [row.pop("wallclock_time") for row in rows])(foreign_run)
    assert score_run(foreign_run).fps is None
    assert validate_run(foreign_run).is_valid


ALLOWED: list[tuple[str, Trick]] = [
    ("CRLF", on_bytes(EVENTS, lambda data: data.replace(b"\n", b"\r\n"))),
    ("no newline at the end", on_bytes(EVENTS, lambda data: data[:-1])),
    ("lives", on_events(lambda rows: [row.update(lives=3) for row in rows])),
    (
        "additional keys",
        on_events(lambda rows: [row.update(q=[0.5, None, {}]) for row in rows]),
    ),
    (
        "a clock in words",
        on_events(lambda rows: [row.update(wallclock_time="noon") for row in rows]),
    ),
    ("additional keys in an episode", set_span(EPISODES, 0, note="first")),
    ("versions of its own", put(CONFIG, "versions", {"other_tool": "3"})),
    (
        "delay at the top",
        on_json(CONFIG, lambda c: c.update(delay=c.pop("runner_config")["delay_frames"])),
    ),
    ("delay_frames first", both(put(CONFIG, "delay_frames", 1), put(CONFIG, "delay", 9))),
    ("delay before the runner's", both(put(CONFIG, "delay", 1), put(CONFIG, "runner_config.delay_frames", 9))),
]  # fmt: skip


@pytest.mark.parametrize("trick", [pytest.param(t, id=i) for i, t in ALLOWED])
def test_may_do_as_it_likes_where_the_contract_is_silent(
    trick: Trick, foreign_run: Path
) -> None:
    trick(foreign_run)
    report = validate_run(foreign_run)
    assert report.findings.shown == []
    assert set(report.findings.note_counts) <= {"not canonical", "no evidence"}


def test_may_let_either_flag_win_where_both_are_set(foreign_run: Path) -> None:
    both_set = next(
        row["episode_id"]
        for row in make_events()
        if row["terminated"] and row["truncated"]
    )
    for file in (EPISODES, SEGMENTS):
        set_span(file, both_set, ended_by="truncated")(foreign_run)
        assert validate_run(foreign_run).is_valid


def test_life_loss_may_end_segments_or_not(foreign_run: Path) -> None:
    """Rows without lives cannot tell a lost life from a lost game."""

    def one_segment_per_visit(rows: list[Row]) -> None:
        for row in rows:
            row["segment_id"] = row["visit_idx"]

    put(CONFIG, "life_loss_termination", True)(foreign_run)
    repair_hash(foreign_run)
    assert validate_run(foreign_run).is_valid
    on_events(one_segment_per_visit)(foreign_run)
    events = read_rows(foreign_run / EVENTS)
    spans = make_spans(events, "segment_id")
    write_lines(foreign_run / SEGMENTS, spans)
    assert validate_run(foreign_run).is_valid


def repair_hash(run: Path) -> None:
    config = read_json(run / CONFIG)
    keys = (
        "games schedule decision_interval sticky life_loss_termination"
        " full_action_space default_action_idx scoring_defaults"
    ).split()
    payload = {key: config[key] for key in keys}
    payload["sticky"] = float(payload["sticky"])
    payload["delay_frames"] = config["runner_config"]["delay_frames"]
    policy = config["action_mapping_policy"]
    payload["global_action_set"] = policy["global_action_set"]
    put(CONFIG, "benchmark_contract_hash", hash_settings(payload))(run)


# --- Notes ------------------------------------------------------------------------


def _number_from_one(key: str, file: str) -> Trick:
    def trick(run: Path) -> None:
        for name in (EVENTS, file):
            rows = read_rows(run / name)
            for row in rows:
                row[key] += 1
            write_lines(run / name, rows)

    return trick


def _decide_never(rows: list[Row]) -> None:
    for row in rows:
        row["is_decision_frame"] = False


def _change_held(rows: list[Row]) -> None:
    row = rows[3]
    row["decided_action_idx"] = (row["decided_action_idx"] + 1) % 4


def _change_applied(rows: list[Row]) -> None:
    row = rows[3]
    row["applied_action_idx"] = (row["applied_action_idx"] + 1) % 4


NOTES: list[tuple[str, Trick]] = [
    ("decision cadence", on_events(_decide_never)),
    ("held decision", on_events(_change_held)),
    ("delay law", on_events(_change_applied)),
    ("episode id", _number_from_one("episode_id", EPISODES)),
    ("segment id", _number_from_one("segment_id", SEGMENTS)),
]


@pytest.mark.parametrize(("kind", "trick"), NOTES, ids=[kind for kind, _ in NOTES])
def test_unstated_rule_is_a_note(
    kind: str, trick: Trick, foreign_run: Path, invoke: Callable[..., Any]
) -> None:
    trick(foreign_run)
    report = validate_run(foreign_run)
    assert report.findings.counts == {}
    assert kind in report.findings.note_counts
    assert kind in {note.kind for note in report.findings.notes}
    answer = invoke("validate", foreign_run)
    assert answer.exit_code == 0
    assert kind in answer.stdout


def test_unmarked_end_of_a_visit_is_a_note_in_events(foreign_run: Path) -> None:
    """The contract says where truncated may be, not where it must be."""
    set_event(-1, truncated=False)(foreign_run)
    report = validate_run(foreign_run)
    assert report.findings.note_counts["visit end"] == 1
    assert "visit end" not in report.findings.counts


def test_notes_are_counted_and_five_are_shown(foreign_run: Path) -> None:
    def all_decide(rows: list[Row]) -> None:
        for row in rows:
            row["is_decision_frame"] = True

    wrong = sum(not row["is_decision_frame"] for row in make_events())
    on_events(all_decide)(foreign_run)
    report = validate_run(foreign_run)
    assert report.findings.note_counts["decision cadence"] == wrong
    assert [note.line for note in other_notes(report)] == [2, 4, 7, 9, 12]


# --- Findings ---------------------------------------------------------------------

FINDINGS: list[tuple[str, Trick, str]] = [
    ("frame dropped", on_events(lambda rows: rows.pop(7)), "frame order"),
    ("frames swapped", on_events(lambda rows: rows.insert(7, rows.pop(8))), "frame order"),
    ("last frame dropped", on_events(lambda rows: rows.pop()), "missing frames"),
    ("visit", set_event(7, visit_idx=1), "schedule"),
    ("cycle", set_event(7, cycle_idx=1), "schedule"),
    ("visit frame", set_event(7, visit_frame_idx=8), "schedule"),
    ("game", set_event(7, game_id="tron"), "schedule"),
    ("truncated early", set_event(7, truncated=True), "truncated flag"),
    ("action 4 of 0 to 3", set_event(8, applied_action_idx=4), "action range"),
    ("action -1", set_event(8, applied_action_idx=-1), "unreadable line"),
    ("reward", set_event(8, reward=99), "episode row"),
    ("NaN", set_event(8, reward=float("nan")), "unreadable line"),
    ("no reward", on_events(lambda rows: rows[8].pop("reward")), "unreadable line"),
    ("float for int", set_event(8, global_frame_idx=8.0), "unreadable line"),
    ("bool for int", set_event(0, visit_idx=False), "unreadable line"),
    ("int for bool", set_event(8, terminated=0), "unreadable line"),
    ("blank line", respell(EVENTS, 8, b"{", b"\n{"), "unreadable line"),
    ("episode length", set_span(EPISODES, 1, length=4), "episode row"),
    ("episode return", set_span(EPISODES, 1, return_=-1), "episode row"),
    ("episode ended_by", set_span(EPISODES, 0, ended_by="truncated"), "episode row"),
    ("segment start", set_span(SEGMENTS, 1, start_global_frame_idx=6), "segment row"),
    ("segment ended_by", set_span(SEGMENTS, 0, ended_by="truncated"), "segment row"),
    ("hash", put(CONFIG, "benchmark_contract_hash", "a" * 64), "contract hash"),
    ("sticky without a new hash", put(CONFIG, "sticky", 0.25), "contract hash"),
    ("delay without a new hash", put(CONFIG, "runner_config.delay_frames", 2), "contract hash"),
    ("schedule without a new hash", put(CONFIG, "schedule.0.visit_frames", 13), "contract hash"),
    ("schedule with a new hash", both(put(CONFIG, "schedule.0.visit_frames", 13), repair_hash), "schedule"),
    ("a game not among the games", both(put(CONFIG, "games", ["tron"]), repair_hash), "schedule"),
    ("visits numbered wrongly", both(put(CONFIG, "schedule.3.visit_idx", 9), repair_hash), "schedule"),
    ("default action out of range", both(put(CONFIG, "default_action_idx", 4), repair_hash), "action range"),
    ("version", put(CONFIG, "benchmark_contract_version", "v2"), "contract version"),
    ("no delay anywhere", drop_key(CONFIG, "runner_config"), "unreadable document"),
    ("a delay that is null", put(CONFIG, "runner_config.delay_frames", None), "unreadable document"),
    ("no episodes", remove(EPISODES), "missing file"),
    ("no events", remove(EVENTS), "missing file"),
    ("no segments", remove(SEGMENTS), "missing file"),
]  # fmt: skip


@pytest.mark.few(12)
@pytest.mark.seed("000", "files-2..4", "events-1", "schedule-2")
@pytest.mark.parametrize(
    ("trick", "kind"), [pytest.param(t, k, id=i) for i, t, k in FINDINGS]
)
def test_stated_rule_is_a_finding(
    trick: Trick, kind: str, foreign_run: Path, invoke: Callable[..., Any]
) -> None:
    trick(foreign_run)
    report = validate_run(foreign_run)
    assert kind in report.findings.counts
    assert invoke("validate", foreign_run).exit_code == 1


SCORE_EDITS: list[tuple[str, Any]] = [
    ("final_score", 1000.0),
    ("per_game_scores.tron", 1000.0),
    ("per_game_episode_counts.tron", 9),
    ("plasticity_mean", None),
    ("frames", 1),
    ("benchmark_contract_version", "v2"),
    ("benchmark_contract_hash", "a" * 64),
]


@pytest.mark.seed("000", "score-16")
@pytest.mark.parametrize(("key", "value"), SCORE_EDITS)
def test_edited_score_is_a_finding(
    key: str, value: Any, foreign_run: Path, invoke: Callable[..., Any]
) -> None:
    assert invoke("score", foreign_run).exit_code == 0
    put(SCORE, key, value)(foreign_run)
    report = validate_run(foreign_run)
    assert report.findings.counts["score"] == 1
    assert report.findings.shown[0].field == key.partition(".")[0]


@pytest.mark.seed("000", "versions-6")
def test_score_needs_no_key_but_the_required_ones(
    foreign_run: Path, invoke: Callable[..., Any]
) -> None:
    invoke("score", foreign_run)
    for key in ("complete", "incomplete_visits"):
        drop_key(SCORE, key)(foreign_run)
    assert validate_run(foreign_run).is_valid


# --- A run of longplay's own in another tool's clothes -----------------------------


def test_run_without_its_version_is_called_foreign(
    finished_run: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "stripped"))
    drop_key(CONFIG, "versions")(run)
    assert read_run(run).config.is_longplay is False
    answer = invoke("validate", run, "--json")
    assert answer.exit_code == 0
    assert answer.json["foreign"] is True


@pytest.mark.seed("000", "versions-6")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agent", "dqn"),
        ("git", "abc123"),
        ("versions", {"torch": 2}),
        ("versions", "1.0"),
        ("seed", "0"),
        ("suite", {"name": "mine"}),
        ("track", 1),
        ("schema_version", 3),
        ("emulator_seeds", "none"),
    ],
)
def test_metadata_of_its_own_is_its_own_business(
    key: str, value: object, foreign_run: Path
) -> None:
    path = foreign_run / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    (foreign_run / "run_summary.json").write_text('["mine"]')
    (foreign_run / "status.json").write_text("done")
    report = validate_run(foreign_run)
    assert report.is_valid
    assert not other_notes(report)
    assert score_run(foreign_run).complete


PROFILES = [
    ({"runner_mode": "asks_after_the_step"}, "runner_mode"),
    ({"multi_run_profile": "asks_after_the_step"}, "multi_run_profile"),
]


@pytest.mark.parametrize(("keys", "field"), PROFILES)
def test_profile_of_its_own_is_a_note(
    keys: dict[str, str], field: str, foreign_run: Path
) -> None:
    """A loop that asks the agent after the step fills v1's keys, too."""
    on_json(CONFIG, lambda config: config.update(keys))(foreign_run)
    report = validate_run(foreign_run)
    assert report.is_valid
    (note,) = other_notes(report)
    assert (note.kind, note.file, note.field) == ("runner profile", CONFIG, field)
    assert "found 'asks_after_the_step'" in note.message


def test_the_profile_of_v1_is_no_note(foreign_run: Path) -> None:
    put(CONFIG, "runner_mode", "standard")(foreign_run)
    assert other_notes(validate_run(foreign_run)) == []


def test_show_counts_its_rows_and_advises_nothing_that_refuses(
    foreign_run: Path, invoke: Callable[..., Any]
) -> None:
    shown = " ".join(invoke("show", foreign_run).stdout.split())
    assert "score it with `longplay score`" in shown
    for visit_idx, (game, cycle, frames) in enumerate(VISITS):
        assert f"{visit_idx} {cycle} {game} {frames} – – – –" in shown
    assert "a run of another tool, which cannot be replayed" in shown
    assert "longplay verify" not in shown
    assert invoke("score", foreign_run).exit_code == 0


def test_show_of_a_part_of_it(foreign_run: Path, invoke: Callable[..., Any]) -> None:
    on_events(lambda rows: rows.__delitem__(slice(15, None)))(foreign_run)
    shown = " ".join(invoke("show", foreign_run).stdout.split())
    assert "0 0 snake 12 – – – – 1 0 tron 3/9 – – – – 2 1 tron 0/10" in shown


NAMES = ("--agent-name", "theirs", "--suite-name", "arcade")


def test_export_needs_its_names(
    foreign_run: Path, invoke: Callable[..., Any], tmp_path: Path
) -> None:
    for names in ((), NAMES[:2], NAMES[2:]):
        answer = invoke("export", foreign_run, "--jsonl", tmp_path / "lines", *names)
        assert answer.exit_code == 2
        message = " ".join(answer.stderr.split())
        assert f"{foreign_run}: found a run of another tool" in message
        assert "expected --agent-name and --suite-name" in message
    assert not (tmp_path / "lines").exists()


def test_export_makes_a_record_without_evidence(
    foreign_run: Path, invoke: Callable[..., Any], tmp_path: Path
) -> None:
    lines, log = tmp_path / "lines.jsonl", tmp_path / "log"
    options = ("--jsonl", lines, "--log", log, *NAMES, "--seed", 7)
    answer = invoke("export", foreign_run, *options)
    assert answer.exit_code == 0, answer.stderr
    assert "no evidence (no digests or hashes, only claimed): foreign" in answer.stdout
    (record,) = read_rows(lines)
    score = score_run(foreign_run)
    assert (record["reward"], record["n_steps"]) == (score.final_score, score.frames)
    assert (record["task_id"], record["seed"]) == ("arcade/seed-7", 7)
    assert record["agent_name"] == "theirs"
    assert record["evidence"]["trust"]["level"] == "claimed"
    assert record["n_agent_steps"] == sum(
        row["is_decision_frame"] for row in read_rows(foreign_run / EVENTS)
    )
    assert EvalLog.load(log).episodes[0].reward == score.final_score
    for paths in ([lines, log / "experiment_record.json"], [log]):
        matrix = read_matrix(paths)
        assert [agent.name for agent in matrix.agents] == ["theirs"]
        assert [share.propensity for share in matrix.experiments] == [1.0]


def test_atlas_names_the_command_that_makes_its_record(
    foreign_run: Path, invoke: Callable[..., Any]
) -> None:
    answer = invoke("atlas", foreign_run)
    assert answer.exit_code == 2
    message = " ".join(answer.stderr.split())
    assert "found a run of another tool; `longplay export --jsonl FILE" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--jsonl", "out", "--level", "visit"), "--level visit: expected runs of"),
        (
            ("--eee", "out", "--organization", "A", "--relationship", "other"),
            "--eee: expected an experiment of longplay",
        ),
        (("--jsonl", "out", "--require", "replayed"), "cannot be replayed"),
    ],
    ids=["visit", "eee", "require"],
)
def test_export_refuses_what_it_does_not_have(
    foreign_run: Path,
    invoke: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(foreign_run.parent)
    answer = invoke("export", foreign_run, *NAMES, *options)
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())
    assert not Path("out").exists()


def test_export_refuses_another_suites_name_and_findings(
    foreign_run: Path, invoke: Callable[..., Any], tmp_path: Path
) -> None:
    names = ("--agent-name", "theirs", "--suite-name", "stream-smoke-v1", "--seed", 0)
    answer = invoke("export", foreign_run, "--jsonl", tmp_path / "lines", *names)
    assert answer.exit_code == 2
    assert "has the contract hash" in " ".join(answer.stderr.split())
    set_event(3, reward=9.0)(foreign_run)
    answer = invoke("export", foreign_run, "--jsonl", tmp_path / "lines", *NAMES)
    assert answer.exit_code == 1
    assert "expected a valid run, found" in " ".join(answer.stderr.split())


# --- Beside longplay's ------------------------------------------------------------


@pytest.fixture
def their_run(finished_run: Path, tmp_path: Path) -> Path:
    """The rows of a longplay run, as another tool would have written them."""
    run = tmp_path / "theirs"
    run.mkdir()
    ours = read_json(finished_run / CONFIG)
    kept = set(make_config()) & set(ours)
    config = {name: ours[name] for name in kept}
    write_json(run / CONFIG, {**config, "delay": ours["delay"], "agent": "theirs"})
    for name in (EVENTS, EPISODES, SEGMENTS, SCORE):
        shutil.copy(finished_run / name, run / name)
    return run


def test_is_compared_with_ours_where_the_hash_agrees(
    their_run: Path, finished_run: Path
) -> None:
    found = RunReader().read([finished_run, their_run])
    assert found.left_out == ()
    ours, theirs = found.runs
    assert ours.conditions == theirs.conditions
    assert (ours.seed, theirs.seed) == (0, 0)
    assert (theirs.agent.name, theirs.has_evidence) == ("theirs", False)
    alone = RunReader().read([their_run]).runs[0]
    assert alone.conditions.suite.startswith("contract ")


def test_is_not_compared_with_a_score_of_other_windows(
    their_run: Path, finished_run: Path
) -> None:
    score = score_run(their_run, window_frames=50, revisit_frames=50)
    own_hash = read_json(their_run / CONFIG)["benchmark_contract_hash"]
    document = score.model_dump(mode="json")
    write_json(their_run / SCORE, {**document, "benchmark_contract_hash": own_hash})
    (left,) = RunReader().read([finished_run, their_run]).left_out
    assert "by the settings of config.json, found" in left.reason


@pytest.mark.exhaustive
def test_is_placed_in_the_matrix_beside_ours(
    tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    """A suite of the catalogue, by its contract hash, is the same column."""
    run = play_run("stream-smoke-v1", "repeat", seed=1, out=tmp_path / "ours").run_dir
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    ours = read_json(run / CONFIG)
    kept = set(make_config()) & set(ours)
    config = {name: ours[name] for name in kept} | {"delay": ours["delay"]}
    write_json(theirs / CONFIG, config)
    for name in (EVENTS, EPISODES, SEGMENTS):
        shutil.copy(run / name, theirs / name)
    names = ("--agent-name", "theirs", "--suite-name", "stream-smoke-v1", "--seed", 1)
    answer = invoke("export", theirs, "--jsonl", tmp_path / "theirs.jsonl", *names)
    assert answer.exit_code == 0, answer.stderr
    matrix = read_matrix([tmp_path / "ours", tmp_path / "theirs.jsonl"])
    assert len(matrix.tasks) == 1
    assert matrix.drift == {}
    assert len(set(matrix.reward.tolist())) == 1


def test_borrowed_suite_name_is_not_shown(foreign_run: Path, invoke: Callable) -> None:
    path = foreign_run / "config.json"
    claim = {"suite": "stream-8x3-v1", "seed": 0}
    path.write_text(json.dumps({**json.loads(path.read_text()), **claim}))
    assert invoke("score", foreign_run).exit_code == 0
    shown = invoke("show", foreign_run).stdout
    assert "stream-8x3-v1" not in shown
    assert "another tool" in shown


# --- Scored elsewhere -------------------------------------------------------------


def end_visit_truncated(run: Path) -> None:
    """Says `truncated` of the episodes that end with game over and the visit."""
    for index, row in enumerate(read_rows(run / EPISODES)):
        event = read_rows(run / EVENTS)[row["end_global_frame_idx"]]
        if event["terminated"] and event["truncated"]:
            set_span(EPISODES, index, ended_by="truncated")(run)


def test_scorer_and_validator_agree_on_game_over_at_a_visits_end(
    foreign_run: Path, invoke: Callable[..., Any]
) -> None:
    before = score_run(foreign_run).per_game_episode_counts
    end_visit_truncated(foreign_run)
    assert invoke("score", foreign_run).exit_code == 0
    after = read_json(foreign_run / SCORE)["per_game_episode_counts"]
    assert sum(after.values()) == sum(before.values()) - 2
    assert validate_run(foreign_run).is_valid


@pytest.mark.seed("000", "config-4")
@pytest.mark.parametrize(
    ("keys", "delay"),
    [
        ({"delay": DELAY, "delay_frames": None}, DELAY),
        ({"delay": None, "delay_frames": DELAY}, DELAY),
        ({"delay": 9, "delay_frames": DELAY}, DELAY),
        ({"delay": None, "delay_frames": None}, DELAY),  # of runner_config
    ],
)
def test_delay_that_is_null_is_read_from_another_key(
    foreign_run: Path, keys: dict[str, Any], delay: int
) -> None:
    on_json(CONFIG, lambda config: config.update(keys))(foreign_run)
    assert read_run(foreign_run).config.delay == delay
    assert validate_run(foreign_run).is_valid


OTHER_WINDOWS: list[dict[str, Any]] = [
    {"window_frames": 5000, "revisit_frames": 2000},
    {"window_frames": 7},
    {"revisit_frames": 5},
    {"bottom_k_frac": 1.0},
    {"final_score_weights": (0.5, 0.5), "window_frames": 5000},
    {"final_score_weights": (0.7, 0.3), "window_frames": 3},
]


@pytest.mark.parametrize("changes", OTHER_WINDOWS)
def test_score_of_other_windows_is_recognised(
    foreign_run: Path, changes: dict[str, Any]
) -> None:
    score = score_run(foreign_run, **changes).model_dump(mode="json")
    own_hash = read_json(foreign_run / CONFIG)["benchmark_contract_hash"]
    write_json(foreign_run / SCORE, {**score, "benchmark_contract_hash": own_hash})
    report = validate_run(foreign_run)
    assert dict(report.findings.counts) == {"score": 1}
    (finding,) = report.findings.shown
    assert "made with other windows or weights than those of config.json" in str(
        finding
    )
    for name, value in changes.items():
        assert f"{name} {value} instead of" in str(finding)


def test_number_that_no_windows_give_is_named(foreign_run: Path) -> None:
    score = score_run(foreign_run, window_frames=7).model_dump(mode="json")
    own_hash = read_json(foreign_run / CONFIG)["benchmark_contract_hash"]
    score |= {"benchmark_contract_hash": own_hash, "final_score": 99.0}
    write_json(foreign_run / SCORE, score)
    found = validate_run(foreign_run).findings
    assert "final_score" in {finding.field for finding in found.shown}


# --- The document's own tables of keys -----------------------------------------------

INT, STR, BOOL, NUMBER = int, str, bool, (int, float)
SPAN_KEYS = {
    "game_id": STR,
    "start_global_frame_idx": INT,
    "end_global_frame_idx": INT,
    "length": INT,
    "return": NUMBER,
    "ended_by": STR,
}
ROW_KEYS = {
    EVENTS: {
        "global_frame_idx": INT,
        "game_id": STR,
        "visit_idx": INT,
        "cycle_idx": INT,
        "visit_frame_idx": INT,
        "episode_id": INT,
        "segment_id": INT,
        "is_decision_frame": BOOL,
        "decided_action_idx": INT,
        "applied_action_idx": INT,
        "reward": NUMBER,
        "terminated": BOOL,
        "truncated": BOOL,
    },
    EPISODES: {"episode_id": INT, **SPAN_KEYS},
    SEGMENTS: {"segment_id": INT, **SPAN_KEYS},
}
CONFIG_KEYS = (
    "games",
    "schedule",
    "decision_interval",
    "sticky",
    "life_loss_termination",
    "full_action_space",
    "action_mapping_policy",
    "default_action_idx",
    "scoring_defaults",
    "benchmark_contract_version",
    "benchmark_contract_hash",
)
SCORING_KEYS = (
    "window_frames",
    "bottom_k_frac",
    "revisit_frames",
    "final_score_weights",
)
SCORE_KEYS = (
    "final_score",
    "mean_score",
    "bottom_k_score",
    "per_game_scores",
    "per_game_episode_counts",
    "per_game_visit_frames",
    "forgetting_index_mean",
    "forgetting_index_median",
    "per_game_forgetting",
    "plasticity_mean",
    "plasticity_median",
    "per_game_plasticity",
    "fps",
    "frames",
    "benchmark_contract_version",
    "benchmark_contract_hash",
)


def _drop_from_rows(file: str, key: str) -> Trick:
    def trick(run: Path) -> None:
        rows = read_rows(run / file)
        del rows[1][key]
        write_lines(run / file, rows)

    return trick


@pytest.mark.seed("000", "events-2..14")
@pytest.mark.parametrize("key", ROW_KEYS[EVENTS])
def test_key_of_an_event_is_required(foreign_run: Path, key: str) -> None:
    _check_row_key(foreign_run, EVENTS, key)


@pytest.mark.seed("000", "episodes-2..8")
@pytest.mark.parametrize("key", ROW_KEYS[EPISODES])
def test_key_of_an_episode_is_required(foreign_run: Path, key: str) -> None:
    _check_row_key(foreign_run, EPISODES, key)


@pytest.mark.seed("000", "segments-2..8")
@pytest.mark.parametrize("key", ROW_KEYS[SEGMENTS])
def test_key_of_a_segment_is_required(foreign_run: Path, key: str) -> None:
    _check_row_key(foreign_run, SEGMENTS, key)


def _check_row_key(run: Path, file: str, key: str) -> None:
    _drop_from_rows(file, key)(run)
    assert "unreadable line" in validate_run(run).findings.counts


@pytest.mark.seed("000", "events-2..14", "episodes-2..8", "segments-2..8")
@pytest.mark.parametrize("file", ROW_KEYS)
def test_rows_of_a_run_have_the_types_of_the_document(
    finished_run: Path, file: str
) -> None:
    for row in read_rows(finished_run / file):
        for key, kind in ROW_KEYS[file].items():
            assert isinstance(row[key], kind)
            assert kind is BOOL or not isinstance(row[key], bool)
        assert row.get("ended_by", "terminated") in ("terminated", "truncated")


@pytest.mark.seed(
    "000",
    "files-1",
    "config-1..3",
    "config-5..9",
    "config-14",
    "config-15",
    "versions-1",
)
@pytest.mark.parametrize("key", CONFIG_KEYS)
def test_key_of_the_config_is_required(foreign_run: Path, key: str) -> None:
    drop_key(CONFIG, key)(foreign_run)
    assert "unreadable document" in validate_run(foreign_run).findings.counts


@pytest.mark.seed("000", "config-10..13")
@pytest.mark.parametrize("key", SCORING_KEYS)
def test_scoring_default_is_required(foreign_run: Path, key: str) -> None:
    on_json(CONFIG, lambda config: config["scoring_defaults"].pop(key))(foreign_run)
    assert "unreadable document" in validate_run(foreign_run).findings.counts


@pytest.mark.seed("000", "score-1..16")
@pytest.mark.parametrize("key", SCORE_KEYS)
def test_key_of_the_score_is_required(
    foreign_run: Path, invoke: Callable[..., Any], key: str
) -> None:
    assert invoke("score", foreign_run).exit_code == 0
    assert key in read_json(foreign_run / SCORE)
    drop_key(SCORE, key)(foreign_run)
    assert "unreadable document" in validate_run(foreign_run).findings.counts
