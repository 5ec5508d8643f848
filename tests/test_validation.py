"""Validation finds every tampering of the table, with its place, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tampering
from control_tampering import CONTROL_TAMPERINGS
from generated_runs import edit
from longplay.contract import columns
from longplay.errors import NotARunError
from longplay.validation import Report, validate_run
from playing import play_run
from rows import rehash
from tampering import (
    CONFIG,
    EPISODES,
    EVENTS,
    FILES,
    SCORE,
    SUMMARY,
    Row,
    Tampering,
    Trick,
    add_to,
    both,
    flip_at,
    on_bytes,
    on_line,
    on_row,
    on_rows,
    put,
    read_json,
    read_rows,
    respell,
    write_json,
    write_rows,
)

SOURCES = (
    "finished_run",
    "life_loss_run",
    "game_over_run",
    "game_over_life_loss_run",
    "control_run",
)
TAMPERINGS = [*tampering.TAMPERINGS, *CONTROL_TAMPERINGS]
BY_NAME = {one.name: one for one in TAMPERINGS}


def _run_with_game_overs(out: Path, *, life_loss: bool) -> Path:
    """Games of Breakout and Asterix end within a short visit."""
    settings = {
        "games": ["breakout", "asterix"],
        "base_visit_frames": 1500,
        "life_loss_termination": life_loss,
    }
    return play_run(
        "stream-smoke-v1", "random", seed=1, out=out, overrides=settings
    ).run_dir


@pytest.fixture(scope="module")
def game_over_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with resets in the middle of visits."""
    out = tmp_path_factory.mktemp("game-over") / "experiment"
    return _run_with_game_overs(out, life_loss=False)


@pytest.fixture(scope="module")
def game_over_life_loss_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with lost lives and resets in the middle of visits."""
    out = tmp_path_factory.mktemp("game-over-life-loss") / "experiment"
    return _run_with_game_overs(out, life_loss=True)


@pytest.fixture
def play_trick(
    request: pytest.FixtureRequest, copy_of: Callable[[Path], Path]
) -> Callable[..., Path]:
    """Copies a run, tampers with it, and updates the hashes in its summary."""

    def play_trick(trick: Trick, source: str = "finished_run") -> Path:
        run = copy_of(request.getfixturevalue(source))
        trick(run)
        rehash(run)
        return run

    return play_trick


def places(report: Report) -> list[str]:
    return [
        f"{f.file}:{f.line} {f.field}" if f.line else f"{f.file} {f.field}"
        for f in report.findings.shown
    ]


# --- What is found ----------------------------------------------------------------


def test_names_in_the_table_are_unique() -> None:
    assert len(BY_NAME) == len(TAMPERINGS) > 75


@pytest.mark.few(50)
@pytest.mark.parametrize("one", TAMPERINGS, ids=str)
def test_finds_tampering(one: Tampering, play_trick: Callable[..., Path]) -> None:
    report = validate_run(play_trick(one.trick, one.source))
    assert not report.is_valid
    assert set(one.kinds) <= set(report.findings.counts)


@pytest.mark.parametrize("source", SOURCES)
def test_untouched_run_is_valid(
    source: str, request: pytest.FixtureRequest, invoke: Callable[..., Any]
) -> None:
    run = request.getfixturevalue(source)
    assert validate_run(run).to_json() == {
        "run_dir": str(run),
        "valid": True,
        "foreign": False,
        "frames": len(read_rows(run / EVENTS)),
        "counts": {},
        "findings": [],
        "note_counts": {},
        "notes": [],
    }
    assert invoke("validate", run).exit_code == 0


@pytest.mark.parametrize("source", SOURCES)
def test_editing_without_a_change_stays_valid(
    source: str, play_trick: Callable[..., Path]
) -> None:
    """The findings come from the tampering, not from rewriting the files."""

    def rewrite(run: Path) -> None:
        for file in FILES:
            path = run / file
            if path.suffix == ".jsonl":
                write_rows(path, read_rows(path))
            else:
                write_json(path, read_json(path))

    assert validate_run(play_trick(rewrite, source)).is_valid


def test_runs_have_the_boundaries_that_tricks_need(
    game_over_run: Path, game_over_life_loss_run: Path
) -> None:
    for run in (game_over_run, game_over_life_loss_run):
        ends = {row["ended_by"] for row in read_rows(run / "segments.jsonl")}
        assert ends == {"terminated", "truncated"}


COMMAND_LINE = (
    "a frame dropped",
    "a line that looks like markup",
    "a byte that is not UTF-8",
    "config a list",
    "a visit added to the schedule",
    "final_score of the score edited",
    "events.jsonl missing",
    "config.json missing",
)


@pytest.mark.parametrize("name", COMMAND_LINE)
def test_command_exits_with_1(
    name: str, play_trick: Callable[..., Path], invoke: Callable[..., Any]
) -> None:
    run = play_trick(BY_NAME[name].trick)
    answer = invoke("validate", run)
    assert answer.exit_code == 1
    assert BY_NAME[name].kinds[0] in answer.stdout

    answer = invoke("validate", run, "--json")
    assert answer.exit_code == 1
    report = answer.json
    assert report["valid"] is False
    assert BY_NAME[name].kinds[0] in report["counts"]


def test_command_takes_an_experiment(
    finished_run: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    experiment = tmp_path / "experiment"
    for name in ("sound", "tampered"):
        shutil.copytree(finished_run, experiment / "episodes" / name)
    on_rows(EVENTS, lambda rows: rows.pop())(experiment / "episodes" / "tampered")

    answer = invoke("validate", experiment, "--json")
    assert answer.exit_code == 1
    assert [report["valid"] for report in answer.json] == [True, False]
    with pytest.raises(NotARunError, match="2 runs"):
        validate_run(experiment)


# --- Where it is found ------------------------------------------------------------

PLACES: list[tuple[str, Trick, list[str]]] = [
    ("length", on_row(EPISODES, 2, length=743), ["episodes.jsonl:3 length"]),
    ("return", on_row(EPISODES, 0, return_=76.0), ["episodes.jsonl:1 return"]),
    (
        "ended_by",
        on_row("segments.jsonl", 5, ended_by="terminated"),
        ["segments.jsonl:6 ended_by"],
    ),
    (
        "cycle",
        on_row(EVENTS, 99, cycle_idx=1),
        ["events.jsonl:100 cycle_idx"],
    ),
    (
        "hash",
        put(SCORE, "benchmark_contract_hash", "0" * 64),
        ["score.json benchmark_contract_hash"],
    ),
    (
        "two places of a score",
        both(add_to(SCORE, "frames", 1), add_to(SCORE, "mean_score", 1)),
        ["score.json mean_score", "score.json frames"],
    ),
    (
        "summary",
        add_to(SUMMARY, "visits.3.reward_sum", 1),
        ["run_summary.json visits.3.reward_sum"],
    ),
    ("seeds", put(CONFIG, "emulator_seeds.0", 0), ["config.json emulator_seeds"]),
    ("no line", lambda run: (run / EPISODES).unlink(), ["episodes.jsonl None"]),
]


@pytest.mark.parametrize(
    ("trick", "expected"), [pytest.param(t, e, id=i) for i, t, e in PLACES]
)
def test_names_file_line_and_field(
    trick: Trick, expected: list[str], play_trick: Callable[..., Path]
) -> None:
    assert places(validate_run(play_trick(trick))) == expected


def test_names_the_last_line(play_trick: Callable[..., Path]) -> None:
    cleared = flip_at(lambda rows: -1, "truncated")
    report = validate_run(play_trick(cleared))
    assert places(report)[0] == f"events.jsonl:{report.frames} truncated"


def test_names_the_field_that_is_unreadable(play_trick: Callable[..., Path]) -> None:
    null = respell(EVENTS, 49, b'"lives":4', b'"lives":null')
    assert places(validate_run(play_trick(null)))[0] == "events.jsonl:50 lives"


def test_message_has_expected_and_found_values(play_trick: Callable[..., Path]) -> None:
    report = validate_run(play_trick(on_row(EPISODES, 2, length=743)))
    (finding,) = report.findings.shown
    assert str(finding) == (
        "episodes.jsonl:3 length: expected 744 from the events, found 743"
    )


def test_finding_on_the_command_line_names_its_place(
    play_trick: Callable[..., Path], invoke: Callable[..., Any]
) -> None:
    run = play_trick(on_row(EPISODES, 2, length=743))
    report = invoke("validate", run, "--json").json
    assert report["findings"] == [
        {
            "kind": "episode row",
            "file": "episodes.jsonl",
            "line": 3,
            "field": "length",
            "message": "expected 744 from the events, found 743",
        }
    ]


def test_broken_lines_do_not_shift_line_numbers(
    play_trick: Callable[..., Path],
) -> None:
    def trick(run: Path) -> None:
        on_row(EVENTS, 199, cycle_idx=1)(run)
        respell(EVENTS, 99, b"{", b"[")(run)
        on_line(EVENTS, 9, lambda line: b"\n" + line)(run)

    report = validate_run(play_trick(trick))
    assert "events.jsonl:10 None" in places(report)
    assert "events.jsonl:101 None" in places(report)
    assert "events.jsonl:201 cycle_idx" in places(report)
    assert report.findings.counts["unreadable line"] == 2


def test_carriage_return_does_not_end_a_line(play_trick: Callable[..., Path]) -> None:
    def trick(run: Path) -> None:
        on_row(EVENTS, 199, cycle_idx=1)(run)
        respell(EVENTS, 9, b",", b",\r")(run)

    report = validate_run(play_trick(trick))
    assert places(report) == ["events.jsonl:10 None", "events.jsonl:200 cycle_idx"]


def test_one_lost_frame_is_one_finding_in_events(
    play_trick: Callable[..., Path],
) -> None:
    report = validate_run(play_trick(on_rows(EVENTS, lambda rows: rows.pop(501))))
    in_events = [f for f in report.findings.shown if f.file == EVENTS]
    assert [(f.kind, f.line, f.field) for f in in_events] == [
        ("frame order", 502, "global_frame_idx")
    ]


def put_digest(file: str, key: str, value: object) -> Trick:
    def trick(run: Path) -> None:
        summary = read_json(run / SUMMARY)
        summary["rows"][file][key] = value
        write_json(run / SUMMARY, summary)

    return trick


HASHES: list[tuple[Trick, str]] = [
    (put_digest(EVENTS, "bytes", 1), "rows.events.jsonl.bytes"),
    (put_digest(EPISODES, "sha256", "0" * 64), "rows.episodes.jsonl.sha256"),
    (put(SUMMARY, "score_sha256", "0" * 64), "score_sha256"),
    (on_bytes(SCORE, lambda data: data + b"\n"), "score_sha256"),
]


@pytest.mark.parametrize(("trick", "field"), HASHES)
def test_files_have_the_lengths_and_hashes_of_the_summary(
    trick: Trick, field: str, finished_run: Path, copy_of: Callable[[Path], Path]
) -> None:
    run = copy_of(finished_run)
    trick(run)
    assert places(validate_run(run)) == [f"run_summary.json {field}"]


@pytest.mark.parametrize("key", ["rows", "score_sha256", "chain_head"])
def test_run_without_evidence_is_valid_with_a_note(
    key: str, finished_run: Path, copy_of: Callable[[Path], Path]
) -> None:
    run = copy_of(finished_run)
    edit(run / SUMMARY, **{key: None})
    if key == "chain_head":
        (run / "digests.jsonl").unlink()
        write_json(run / SUMMARY, {**read_json(run / SUMMARY), "chain_head": None})
    report = validate_run(run)
    assert report.is_valid
    assert report.findings.note_counts == {"no evidence": 1}


@pytest.mark.parametrize(
    ("file", "field"),
    [("status.json", "heartbeat_utc"), (SUMMARY, "ended_utc"), (SUMMARY, "visits.0")],
)
def test_dates_are_dates(
    file: str, field: str, play_trick: Callable[..., Path]
) -> None:
    key = f"{field}.started_utc" if field == "visits.0" else field
    report = validate_run(play_trick(put(file, key, "2026-99-01T00:00:00.000Z")))
    (found,) = [f for f in report.findings.shown if f.kind == "unreadable document"]
    assert f"{key}: " in found.message
    assert "expected a valid date and time, found '2026-99-01" in found.message


# --- How often it is found --------------------------------------------------------


def _in_first(count: int, **values: object) -> Trick:
    def edit(rows: list[Row]) -> None:
        for row in rows[:count]:
            row.update(values)

    return on_rows(EVENTS, edit)


def test_counts_every_bad_row_and_shows_five(play_trick: Callable[..., Path]) -> None:
    report = validate_run(play_trick(_in_first(100, cycle_idx=1)))
    assert report.findings.counts == {"schedule": 100}
    assert places(report) == [f"events.jsonl:{n} cycle_idx" for n in range(1, 6)]


def test_counts_every_unreadable_line_and_shows_five(
    play_trick: Callable[..., Path],
) -> None:
    report = validate_run(play_trick(_in_first(100, lives="4")))
    assert report.findings.counts["unreadable line"] == 100
    unreadable = [f for f in report.findings.shown if f.kind == "unreadable line"]
    assert [(f.line, f.field) for f in unreadable] == [
        (n, "lives") for n in range(1, 6)
    ]


def test_counts_every_line_in_another_spelling(
    play_trick: Callable[..., Path],
) -> None:
    crlf = on_bytes(EVENTS, lambda data: data.replace(b"\n", b"\r\n"))
    report = validate_run(play_trick(crlf))
    assert report.findings.counts == {"not canonical": report.frames}


# --- However the file is cut for reading ------------------------------------------

# Few findings of each kind: more are shown in the order in which chunks meet them.
CUT_ANYWHERE = (
    "a frame dropped",
    "a frame doubled",
    "two frames swapped",
    "terminated set on the last frame of a visit",
    "a life-loss end where no life was lost",
    "lives raised where an episode ended by a lost life",
    "a game over hidden",
    "the cadence not started again after a reset",
    "applied one frame late",
    "applied one frame late, delay 6",
    "not the default action after a reset with life loss",
    "fewer frames left than the delay",
    "a reward raised by 1",
    "a segment split at a lost life",
    "the last line cut",
    "the last newline cut",
    "a blank line",
    "a blank line at the end",
    "two rows on one line",
    "a carriage return between two keys",
    "empty events",
    "empty episodes",
)


def _verdict(run: Path, workers: int = 1) -> tuple[object, ...]:
    report = validate_run(run, workers=workers)
    found = report.findings
    shown = sorted((f for f in found.shown if found.counts[f.kind] <= 5), key=str)
    return report.frames, found.counts, shown


@pytest.fixture(params=[1_000, 3_000, 65_537])
def range_bytes(request: pytest.FixtureRequest) -> int:
    """A row has about 260 bytes."""
    return int(request.param)


@pytest.mark.few(5)
@pytest.mark.parametrize("source", SOURCES)
def test_valid_for_any_chunk_size(
    source: str,
    range_bytes: int,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns, "_PART_BYTES", range_bytes)
    assert validate_run(request.getfixturevalue(source), workers=1).is_valid


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CUT_ANYWHERE)
def test_same_findings_for_any_chunk_size(
    name: str,
    play_trick: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = play_trick(BY_NAME[name].trick, BY_NAME[name].source)
    whole = _verdict(run)
    for size in (1_000, 3_000, 65_537):
        monkeypatch.setattr(columns, "_PART_BYTES", size)
        assert _verdict(run) == whole


@pytest.mark.parametrize(
    ("trick", "source"),
    [
        pytest.param(lambda run: None, "life_loss_run", id="valid"),
        pytest.param(
            BY_NAME["applied one frame late"].trick, "finished_run", id="tampered"
        ),
        pytest.param(
            BY_NAME["a line of binary garbage"].trick, "finished_run", id="unreadable"
        ),
    ],
)
def test_several_processes_find_the_same(
    trick: Trick,
    source: str,
    play_trick: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = play_trick(trick, source)
    one = _verdict(run)
    pools = []

    def start_pool(*args: Any) -> ProcessPoolExecutor:
        pools.append(ProcessPoolExecutor(*args))
        return pools[-1]

    monkeypatch.setattr(columns, "ProcessPoolExecutor", start_pool)
    monkeypatch.setattr(columns, "_PARALLEL_FROM_BYTES", 100_000)
    monkeypatch.setattr(columns, "_PART_BYTES", 200_000)
    assert _verdict(run, workers=2) == one
    assert len(pools) == 1  # for the events; the other files are small


# --- Not a run --------------------------------------------------------------------


def _empty(path: Path) -> None:
    path.mkdir()


def _with_other_files(path: Path) -> None:
    path.mkdir()
    (path / "score.json").write_text("{}")


def _with_no_runs(path: Path) -> None:
    (path / "episodes" / "run").mkdir(parents=True)


def _a_file(path: Path) -> None:
    path.write_text("{}")


@pytest.mark.parametrize(
    "make", [lambda path: None, _empty, _with_other_files, _with_no_runs, _a_file]
)
def test_rejects_folders_without_a_run(
    make: Callable[[Path], None], tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    directory = tmp_path / "place"
    make(directory)
    with pytest.raises(NotARunError, match="expected a run directory"):
        validate_run(directory)
    assert invoke("validate", directory).exit_code == 2
    answer = invoke("validate", directory, "--json")
    assert answer.exit_code == 2
    assert json.loads(answer.stdout)["error"]["type"] == "NotARunError"
