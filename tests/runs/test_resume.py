"""Resuming a stopped run: what is refused, what is replayed, what is counted.

`test_kill` checks that a resumed run ends with the same bytes; this checks the rest.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from scenarios import QUICK, REPLAYED, Reference, Scenario, Stopped

from killing import (
    Fault,
    find_run_dir,
    read_result,
    read_rows,
    read_status,
    read_tree,
    run_command,
)
from longplay.contract.rundir import ROW_FILES

Invoke = Callable[..., Any]


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def edit_json(path: Path, *keys: str, value: Any) -> None:
    document = place = read_json(path)
    for key in keys[:-1]:
        place = place[key]
    assert place[keys[-1]] != value
    place[keys[-1]] = value
    path.write_text(json.dumps(document))


def check_whole(run_dir: Path, reference: Reference) -> None:
    result = read_result(run_dir)
    for name, expected in reference.result.items():
        assert result[name] == expected, name
    assert read_status(run_dir)["state"] == "COMPLETED"
    assert not (run_dir / "checkpoint").exists()


# --- refusals --------------------------------------------------------------------


@pytest.fixture
def check_refused(invoke: Invoke) -> Callable[..., None]:
    def check_refused(out: Path, message: str, *options: object) -> None:
        """The run is not resumed, the error says why, and no file has changed."""
        before = read_tree(out)
        answer = invoke("resume", out, "--quiet", "--json", *options)
        assert answer.exit_code == 1, answer.stdout
        (run,) = answer.json["runs"]
        assert message in run["refused"]
        assert read_tree(out) == before
        shown = invoke("resume", out, "--quiet", *options)
        assert message[:30] in " ".join(shown.stderr.split())

    return check_refused


def line_at(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


@pytest.mark.few(5)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("file", ROW_FILES)
def test_damage_before_the_checkpoint_is_refused(
    file: str, share: float, stopped: Stopped, check_refused: Callable[..., None]
) -> None:
    path = stopped.run_dir / file
    data = bytearray(path.read_bytes())
    position = int(share * stopped.kept_bytes[file])
    data[position] ^= 1
    path.write_bytes(data)
    lines = read_damaged_lines(stopped, file, position)
    check_refused(stopped.out, f"{file}:{lines[0]}–{lines[1]}: these rows ")


def read_damaged_lines(stopped: Stopped, file: str, position: int) -> tuple[int, int]:
    """The lines of the hash or chain block that covers a byte."""
    kept = stopped.kept_bytes
    data = (stopped.reference.run_dir / file).read_bytes()
    last = data.count(b"\n", 0, kept[file])
    if file != "events.jsonl":
        return 1, last
    # A visit of 150 frames is one block, and the next one starts after it.
    first_of_block = (line_at(data, position) - 1) // 150 * 150 + 1
    return first_of_block, min(first_of_block + 149, last)


@pytest.mark.few(5)
@pytest.mark.parametrize("garbage", [b"?\n", b"\n", b"{}\n", b"\0" * 80 + b"\n"])
@pytest.mark.parametrize("file", ROW_FILES)
def test_garbage_among_valid_rows_is_refused(
    file: str, garbage: bytes, stopped: Stopped, check_refused: Callable[..., None]
) -> None:
    path = stopped.run_dir / file
    data, at = path.read_bytes(), stopped.kept_bytes[file]
    end_of_row = data.index(b"\n", at) + 1
    path.write_bytes(data[:end_of_row] + garbage + data[end_of_row:])
    line = line_at(data, end_of_row)
    check_refused(stopped.out, f"{file}:{line}: expected a row, found ")


def test_row_in_another_format_among_valid_rows_is_refused(
    stopped: Stopped, check_refused: Callable[..., None]
) -> None:
    path = stopped.run_dir / "events.jsonl"
    data, at = path.read_bytes(), stopped.kept_bytes["events.jsonl"]
    path.write_bytes(data[:at] + data[at:].replace(b":0.0,", b":0,", 1))
    line = line_at(data, at)
    check_refused(stopped.out, f"events.jsonl:{line}: expected a row, found ")


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("agent", "agent_id"), "0" * 64, "agent_id: the run was started with 000"),
        (("versions", "ale_py"), "0.99", "ale_py: the run was started with 0.99,"),
        (("versions", "numpy"), "0.99", "numpy: the run was started with 0.99, found"),
        (("rom_sha256", "berzerk"), "0" * 64, "ROM of berzerk: the run was started"),
        (("benchmark_contract_hash",), "0" * 64, "benchmark_contract_hash: the run"),
        (("benchmark_contract_version",), "v2", "found 'v2'; another version"),
        (("sticky",), "often", "config.json sticky: expected a number, found 'often'"),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_different_agent_emulator_or_contract_is_refused(
    keys: tuple[str, ...],
    value: str,
    message: str,
    stopped: Stopped,
    check_refused: Callable[..., None],
) -> None:
    edit_json(stopped.run_dir / "config.json", *keys, value=value)
    check_refused(stopped.out, message)


def test_changed_agent_file_is_refused(tmp_path: Path, invoke: Invoke) -> None:
    agent = Path(shutil.copy(REPLAYED, tmp_path))
    scenario = Scenario("", str(agent), QUICK)
    assert scenario.run(tmp_path / "out", fault=Fault("frame", 200)).exit_code < 0
    agent.write_text(agent.read_text() + "\n# another one\n")
    before = read_tree(tmp_path / "out")
    for options in ((), ("--agent", agent), ("--agent", "random")):
        answer = invoke("resume", tmp_path / "out", *options)
        assert answer.exit_code == 2
        assert "agent" in answer.stderr
    assert read_tree(tmp_path / "out") == before


def test_run_locked_by_another_process_is_refused(
    stopped: Stopped, invoke: Invoke
) -> None:
    before = read_tree(stopped.out)
    with FileLock(stopped.out / ".lock"):
        for directory in (stopped.out, stopped.run_dir):
            answer = invoke("resume", directory)
            assert answer.exit_code == 2
            assert "another longplay process runs this" in answer.stderr
    assert read_tree(stopped.out) == before


def test_refused_run_can_be_resumed_on_the_right_machine(
    stopped: Stopped, invoke: Invoke, check_refused: Callable[..., None]
) -> None:
    """A run refused because of the machine resumes on the machine it started on."""
    config = stopped.run_dir / "config.json"
    sound = config.read_bytes()
    edit_json(config, "versions", "ale_py", value="0.99")
    check_refused(stopped.out, "ale_py: the run was started with 0.99, found ")
    config.write_bytes(sound)
    assert invoke("resume", stopped.out, "--quiet").exit_code == 0
    check_whole(stopped.run_dir, stopped.reference)


# --- agents ----------------------------------------------------------------------

AGENT = """
import os
from pathlib import Path

FLAGS = Path(__file__).parent

class Agent:
    def __init__(self, num_actions, seed):
        self.frames = 0
    def step(self, *percept):
        self.frames += 1
        {step}
"""
SAVING = """
    def save(self, directory):
        (directory / "frames.txt").write_text(str(self.frames))
    def load(self, directory):
        if (FLAGS / "unloadable").exists():
            raise ValueError("no such state")
        self.frames = int((directory / "frames.txt").read_text())
"""


def stop_agent(folder: Path, step: str, more: str = "") -> Scenario:
    """A run of an agent of these lines, killed in its second visit."""
    agent = folder / "agent.py"
    agent.write_text(AGENT.format(step=step) + more)
    scenario = Scenario("", str(agent), QUICK)
    ended = scenario.run(folder / "out", fault=Fault("frame", 260))
    assert ended.exit_code == -signal.SIGKILL, ended.output
    return scenario


def test_non_deterministic_agent_is_refused(
    tmp_path: Path, check_refused: Callable[..., None]
) -> None:
    scenario = stop_agent(tmp_path, "return os.urandom(1)[0] % 18")
    message = "the agent is not deterministic: it decided "
    check_refused(tmp_path / "out", message, "--agent", scenario.agent)


def test_non_deterministic_agent_resumes_if_it_can_save(tmp_path: Path) -> None:
    scenario = stop_agent(tmp_path, "return os.urandom(1)[0] % 18", SAVING)
    run_dir = find_run_dir(tmp_path / "out")
    assert run_dir is not None
    kept = json.loads(next(run_dir.glob("checkpoint/*/checkpoint.json")).read_text())
    size = kept["recorder"]["sizes_bytes"]["events.jsonl"]
    before = (run_dir / "events.jsonl").read_bytes()
    ended = scenario.run(tmp_path / "out")
    assert ended.exit_code == 0, ended.output
    assert (run_dir / "events.jsonl").read_bytes()[:size] == before[:size]


def test_agent_whose_load_raises_is_refused(
    tmp_path: Path, check_refused: Callable[..., None]
) -> None:
    scenario = stop_agent(tmp_path, "return self.frames % 18", SAVING)
    (tmp_path / "unloadable").touch()
    message = "the agent's load raised ValueError: no such state (agent.py:"
    check_refused(tmp_path / "out", message, "--agent", scenario.agent)
    (tmp_path / "unloadable").unlink()
    assert scenario.run(tmp_path / "out").exit_code == 0


def test_agent_whose_save_raises_fails_the_run_and_loses_nothing(
    tmp_path: Path,
) -> None:
    agent = tmp_path / "agent.py"
    broken = SAVING.replace("write_text(str(self.frames))", "no_such_method()")
    agent.write_text(AGENT.format(step="return 3") + broken)
    ended = Scenario("", str(agent), QUICK).run(tmp_path / "out")
    assert ended.exit_code == 1
    assert "the agent raised AttributeError" in ended.words
    run_dir = find_run_dir(tmp_path / "out")
    assert run_dir is not None
    status = read_status(run_dir)
    assert (status["state"], status["error"]["type"]) == ("FAILED", "AttributeError")
    rows = (run_dir / "events.jsonl").read_text().splitlines()
    assert len(rows) == status["frame"] > 0


# Writes to its observations, depends on all of them, and reports metrics.
FUNCTIONAL = """
from zlib import crc32

def init(observation_shape, num_actions, seed):
    return [num_actions, seed]

def step(state, previous_observation, observation, reward, info):
    num_actions, memory = state
    flags = bytes((info["terminated"], info["truncated"]))
    memory = crc32(flags + str(reward).encode(), memory)
    memory = crc32(previous_observation[::8, ::8].tobytes(), memory)
    observation[::8, ::8, 0] = memory % 251
    return [num_actions, memory], memory % num_actions, {"memory": memory % 1000}

def save(state, directory):
    (directory / "state.txt").write_text(" ".join(map(str, state)))

def load(directory):
    return [int(word) for word in (directory / "state.txt").read_text().split()]
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("suite", "settings"),
    [
        ("control-smoke-v1", {"base_visit_frames": 60}),
        ("stream-smoke-v1", {**QUICK, "decision_interval": 5, "delay": 3}),
    ],
)
def test_functional_agent_resumes_in_the_middle_of_a_transition(
    suite: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    agent = tmp_path / "functional.py"
    agent.write_text(FUNCTIONAL)
    scenario = Scenario("", str(agent), settings, suite)
    reference = Reference.play(scenario, tmp_path)
    assert reference.result["summary"]["visits"][0]["metrics"]["memory"] > 0
    for _ in range(3):
        fault = Fault("frame", 50, signal.SIGTERM)
        assert scenario.run(tmp_path / "out", fault=fault).exit_code == 75
    ended = scenario.run(tmp_path / "out")
    assert ended.exit_code == 0, ended.output
    assert 0 < ended.counts["frame"] < reference.counts["frame"]
    run_dir = find_run_dir(tmp_path / "out")
    assert run_dir is not None
    check_whole(run_dir, reference)


# --- replay from the start -------------------------------------------------------


def break_json(stopped: Stopped) -> None:
    stopped.checkpoint.write_text(stopped.checkpoint.read_text()[:-40])


def change_a_number(stopped: Stopped) -> None:
    """Still a valid document; only its hash differs."""
    edit_json(stopped.checkpoint, "stream", "decided", value=17)


def lose_the_pointer(stopped: Stopped) -> None:
    (stopped.run_dir / "checkpoint/current.json").unlink()


def lose_the_document(stopped: Stopped) -> None:
    stopped.checkpoint.unlink()


def lose_the_folder(stopped: Stopped) -> None:
    shutil.rmtree(stopped.run_dir / "checkpoint")


def lose_the_agent(stopped: Stopped) -> None:
    shutil.rmtree(stopped.checkpoint.parent / "agent")


def add_to_the_agent(stopped: Stopped) -> None:
    (stopped.checkpoint.parent / "agent/more").touch()


def lose_all_rows(stopped: Stopped) -> None:
    for name in ROW_FILES:
        (stopped.run_dir / name).unlink()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "damage",
    [
        break_json,
        change_a_number,
        lose_the_pointer,
        lose_the_document,
        lose_the_folder,
        lose_the_agent,
        add_to_the_agent,
        lose_all_rows,
    ],
)
def test_run_without_a_valid_checkpoint_is_replayed(
    damage: Callable[[Stopped], None], stopped: Stopped
) -> None:
    damage(stopped)
    ended = stopped.reference.scenario.run(stopped.out)
    assert ended.exit_code == 0, ended.output
    assert ended.counts["frame"] == stopped.reference.counts["frame"]
    check_whole(stopped.run_dir, stopped.reference)


def test_agent_is_not_loaded_from_a_changed_file(
    tmp_path: Path, reference_of: Callable[[str], Reference]
) -> None:
    reference, out = reference_of("random"), tmp_path / "out"
    fault = Fault("frame", 300, signal.SIGTERM)
    assert reference.scenario.run(out, fault=fault).exit_code == 75
    (saved,) = out.glob("**/checkpoint/*/agent/*")
    edit_json(saved, "drawn", value=[])  # it would load, and draw other actions
    ended = reference.scenario.run(out)
    assert ended.exit_code == 0, ended.output
    assert ended.counts["frame"] == reference.counts["frame"]
    run_dir = find_run_dir(out)
    assert run_dir is not None
    check_whole(run_dir, reference)


@pytest.mark.few(2)
@pytest.mark.parametrize("file", ROW_FILES)
def test_row_that_does_not_reproduce_is_refused(
    file: str, stopped: Stopped, check_refused: Callable[..., None]
) -> None:
    lose_the_folder(stopped)
    path = stopped.run_dir / file
    lines = path.read_bytes().splitlines(keepends=True)
    field = b"applied_action_idx" if file == "events.jsonl" else b"game_id"
    field = b"ram_crc32" if file == "digests.jsonl" else field
    lines[1] = lines[1].replace(b'"' + field + b'":', b'"' + field + b'": ')
    path.write_bytes(b"".join(lines))
    check_refused(stopped.out, f"{file}:2 row: logged ")


@pytest.mark.parametrize("file", ROW_FILES[1:])
def test_garbage_that_would_be_cut_off_is_refused(
    file: str, stopped: Stopped, check_refused: Callable[..., None]
) -> None:
    """events.jsonl ends before it, so that the replay never reaches it."""
    os.truncate(stopped.run_dir / "events.jsonl", 1000)
    path = stopped.run_dir / file
    path.write_bytes(path.read_bytes() + b"?\n")
    check_refused(stopped.out, f"{file}:3: expected a row, found ")


def test_kill_before_the_first_checkpoint(
    reference_of: Callable[[str], Reference], tmp_path: Path
) -> None:
    reference, out = reference_of("every frame"), tmp_path / "out"
    assert reference.scenario.run(out, fault=Fault("frame", 10)).exit_code < 0
    run_dir = find_run_dir(out)
    assert run_dir is not None
    assert not (run_dir / "checkpoint").exists()
    assert reference.scenario.run(out).exit_code == 0
    check_whole(run_dir, reference)


# The last renames: run_summary.json, score.json, run_summary.json with its hash,
# status.json, then the agent's state, the experiment's summary and the records.
@pytest.mark.few(2)
@pytest.mark.parametrize("renames_left", [8, 7, 6, 5])
def test_kill_after_the_last_frame(
    renames_left: int, reference_of: Callable[[str], Reference], tmp_path: Path
) -> None:
    reference, out = reference_of("every frame"), tmp_path / "out"
    n = reference.counts["os_replace"] - renames_left + 1
    assert reference.scenario.run(out, fault=Fault("os_replace", n)).exit_code < 0
    run_dir = find_run_dir(out)
    assert run_dir is not None
    assert read_rows(run_dir) == read_rows(reference.run_dir)
    assert read_status(run_dir)["state"] == "RUNNING"
    ended = reference.scenario.run(out)
    assert ended.exit_code == 0, ended.output
    assert "frame" not in ended.counts
    check_whole(run_dir, reference)


@pytest.mark.few(2)
@pytest.mark.parametrize("renames_left", [4, 3, 2, 1])
def test_kill_after_completion_leaves_records_to_write(
    renames_left: int, reference_of: Callable[[str], Reference], tmp_path: Path
) -> None:
    reference, out = reference_of("every frame"), tmp_path / "out"
    n = reference.counts["os_replace"] - renames_left + 1
    assert reference.scenario.run(out, fault=Fault("os_replace", n)).exit_code < 0
    ended = run_command(tmp_path / "process", "resume", out)
    assert ended.exit_code == 0, ended.output
    run_dir = find_run_dir(out)
    assert run_dir is not None
    check_whole(run_dir, reference)
    for path in (
        out / "experiment_summary.json",
        out / "experiment_record.json",
        run_dir / "episode_record.json",
    ):
        assert path.exists(), path


# --- counters --------------------------------------------------------------------


def test_tries_are_counted_and_wall_time_adds_up(
    reference_of: Callable[[str], Reference], tmp_path: Path
) -> None:
    reference, out = reference_of("every frame"), tmp_path / "out"
    scenario = reference.scenario
    # The last stop is near the end, so the frames after it take almost no time.
    for n in (300, 290):
        ended = scenario.run(out, fault=Fault("frame", n, signal.SIGTERM))
        assert ended.exit_code == 75, ended.output
    run_dir = find_run_dir(out)
    assert run_dir is not None
    before = read_json(run_dir / "run_summary.json")
    assert scenario.run(out).exit_code == 0
    after = read_json(run_dir / "run_summary.json")
    assert (before["tries"], after["tries"]) == (2, 3)
    assert read_status(run_dir)["retries"] == 2
    assert after["started_utc"] == before["started_utc"]
    assert after["wall_time_s"] > before["visits"][0]["wall_time_s"]
    for old, new in zip(before["visits"][:3], after["visits"], strict=False):
        assert new["wall_time_s"] == old["wall_time_s"]
    assert after["visits"][3]["wall_time_s"] > 0.5 * before["visits"][3]["wall_time_s"]
    assert json.loads((run_dir / "score.json").read_text())["fps"] == after["fps"]


# --- commands --------------------------------------------------------------------


def test_resume_of_a_complete_run_shows_it(
    finished_run: Path, copy_of: Callable[[Path], Path], invoke: Invoke
) -> None:
    out = copy_of(finished_run.parent.parent)
    before = read_rows(out / "episodes" / finished_run.name)
    for directory in (out, out / "episodes" / finished_run.name):
        answer = invoke("resume", directory)
        assert answer.exit_code == 0, answer.stdout
        assert "final score" in answer.stdout
    assert read_rows(out / "episodes" / finished_run.name) == before


def test_resume_of_a_complete_run_needs_no_agent(
    reference_of: Callable[[str], Reference], invoke: Invoke
) -> None:
    run_dir = reference_of("replayed").run_dir
    before = read_tree(run_dir)
    answer = invoke("resume", run_dir, "--json")
    assert answer.exit_code == 0, answer.stderr
    assert [run["state"] for run in answer.json["runs"]] == ["COMPLETED"]
    assert read_tree(run_dir) == before


SEEDS = ('--set=games=["breakout"]', "--set=base_visit_frames=60")


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """Seed 0 is complete, seed 1 was stopped, seed 2 was never started."""
    out = tmp_path / "several"
    command = ("run", "stream-smoke-v1", "--agent", "random", "--seeds", "0-2", *SEEDS)
    fault = Fault("frame", 180, signal.SIGTERM)
    ended = run_command(tmp_path, *command, "--out", out, "--quiet", fault=fault)
    assert ended.exit_code == 75, ended.output
    return out


def states_of(out: Path, invoke: Invoke) -> list[str]:
    return [run["state"] for run in invoke("status", out, "--json").json]


def check_seeds(out: Path, seeds: range, tmp_path: Path) -> None:
    command = ("run", "stream-smoke-v1", "--agent", "random", "--seeds", "0-2", *SEEDS)
    whole = tmp_path / "whole"
    assert run_command(tmp_path, *command, "--out", whole, "--quiet").exit_code == 0
    for seed in seeds:
        (one,) = (whole / "episodes").glob(f"*_seed-{seed}")
        assert read_result(out / "episodes" / one.name) == read_result(one)


def test_resume_of_an_experiment_plays_all_incomplete_runs(
    several: Path, invoke: Invoke, tmp_path: Path
) -> None:
    assert states_of(several, invoke) == ["COMPLETED", "QUEUED", "QUEUED"]
    answer = invoke("resume", several, "--quiet")
    assert answer.exit_code == 0, answer.stdout
    assert states_of(several, invoke) == ["COMPLETED"] * 3
    check_seeds(several, range(3), tmp_path)


@pytest.mark.exhaustive
def test_resume_of_one_run_leaves_the_others(
    several: Path, invoke: Invoke, tmp_path: Path
) -> None:
    (run_dir,) = (several / "episodes").glob("*_seed-1")
    answer = invoke("resume", run_dir, "--quiet")
    assert answer.exit_code == 0, answer.stdout
    assert states_of(several, invoke) == ["COMPLETED", "COMPLETED", "QUEUED"]
    check_seeds(several, range(2), tmp_path)


def test_stop_request_between_two_runs_is_not_lost(
    tmp_path: Path, invoke: Invoke
) -> None:
    command = ("run", "stream-smoke-v1", "--agent", "random", "--quiet", *SEEDS)
    alone = run_command(tmp_path, *command, "--out", tmp_path / "alone")
    # Three more renames follow the one that marks the run as COMPLETED.
    fault = Fault("os_replace", alone.counts["os_replace"] - 3, signal.SIGTERM)
    out = tmp_path / "out"
    ended = run_command(tmp_path, *command, "--seeds=0-1", "--out", out, fault=fault)
    assert ended.exit_code == 75, ended.output
    assert states_of(out, invoke) == ["COMPLETED", "QUEUED"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--set=delay=5",),
            "config_given.overrides.delay: {out} was started with none",
        ),
        (("--set=base_visit_frames=61",), "config_given.overrides.base_visit_frames:"),
        (("--seed=1",), "seeds: {out} was started with [1000], found [1]"),
        (("--agent=noop",), "agent.config._type: {out} was started with"),
    ],
)
def test_run_with_a_different_config_names_the_first_key_that_differs(
    options: tuple[str, ...], message: str, tmp_path: Path, invoke: Invoke
) -> None:
    out = tmp_path / "out"
    command = ("run", "stream-smoke-v1", "--agent=random", *SEEDS, "--quiet")
    command = (*command, "--resume", "--out", out)
    assert invoke(*command).exit_code == 0
    before = read_tree(out)
    answer = invoke(*command, *options)
    assert answer.exit_code == 2
    assert message.format(out=out) in answer.stderr
    assert read_tree(out) == before
    assert invoke(*command).exit_code == 0


def test_run_that_resumes_needs_a_folder(invoke: Invoke) -> None:
    answer = invoke("run", "stream-smoke-v1", "--agent", "random", "--resume")
    assert answer.exit_code == 2
    assert "--out" in answer.stderr


# --- retries ---------------------------------------------------------------------


def test_retry_resumes_from_a_valid_checkpoint(stopped: Stopped) -> None:
    process = stopped.out.with_suffix(".process")
    ended = run_command(process, "retry", stopped.out, "--quiet")
    assert ended.exit_code == 0, ended.output
    assert ended.counts["frame"] < stopped.reference.counts["frame"]
    assert "seed 1000 resumed from the checkpoint at frame" in ended.output
    assert not (stopped.out / "archive").exists()
    check_whole(stopped.run_dir, stopped.reference)
    assert read_status(stopped.run_dir)["retries"] == 1


def damage_a_row(stopped: Stopped) -> None:
    path = stopped.run_dir / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b"0.0", b"1.0", 1))


@pytest.mark.parametrize("damage", [lose_the_folder, damage_a_row])
def test_retry_archives_a_run_that_cannot_resume_and_restarts_it(
    damage: Callable[[Stopped], None], stopped: Stopped
) -> None:
    damage(stopped)
    left = read_rows(stopped.run_dir)
    process = stopped.out.with_suffix(".process")
    ended = run_command(process, "retry", stopped.out, "--quiet")
    assert ended.exit_code == 0, ended.output
    assert ended.counts["frame"] == stopped.reference.counts["frame"]
    (archived,) = (stopped.out / "archive" / stopped.run_dir.name).iterdir()
    assert read_rows(archived) == left
    check_whole(stopped.run_dir, stopped.reference)
