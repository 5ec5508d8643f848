"""Gymnasium environments: the stream of a run, driven by the user's loop."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import longplay
import longplay.gym
from longplay.contract.rundir import ROW_FILES
from longplay.errors import (
    AgentError,
    AgentLoadError,
    ConfigError,
    OutputError,
    RecordingError,
    UnknownNameError,
)
from longplay.suites import SUITES
from playing import play_run
from rows import read_rows

ENV_IDS = tuple(longplay.gym.ENV_SUITES)
CONTROL, STREAM = "longplay/ControlSmoke-v1", "longplay/StreamSmoke-v1"
SHORT = {"base_visit_frames": 90, "games": ["breakout", "pong"]}
# Long enough for games to be lost.
WITH_GAME_OVERS = {
    CONTROL: {"base_visit_frames": 400, "games": ["asterix", "breakout"]},
    STREAM: {"base_visit_frames": 1600, "games": ["asterix"]},
}


class Driver:
    """A file agent whose actions are a function of the frame alone."""

    def __init__(self, num_actions: int, seed: int) -> None:
        self.calls: list[Any] = []

    def step(self, *args: Any) -> int:
        self.calls.append((args[0].copy(), *args[1:4]))
        return choose(len(self.calls) - 1)


def choose(frame: int) -> int:
    return frame // 2 * 7 % 18


Step = tuple[Any, float, bool, bool, dict[str, Any]]


def drive(env: gymnasium.Env[Any, Any], seed: int | None = 0) -> list[Step]:
    """The loop that everybody writes."""
    env.reset(seed=seed)
    steps: list[Step] = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        steps.append(env.step(choose(len(steps))))  # type: ignore[arg-type]
    return steps


def make(env_id: str = CONTROL, **options: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(env_id, **{"overrides": SHORT, **options})


@pytest.fixture(scope="module", params=[CONTROL, STREAM])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Step], Driver, Path, Path]:
    """The same stream driven by the environment and by `longplay.run`."""
    env_id, folder = request.param, tmp_path_factory.mktemp("both")
    settings = WITH_GAME_OVERS[env_id]
    with make(env_id, record=folder / "gym", overrides=settings) as env:
        steps = drive(env)
    drivers: list[Driver] = []

    def build(num_actions: int, seed: int) -> Driver:
        drivers.append(Driver(num_actions, seed))
        return drivers[-1]

    suite = longplay.gym.ENV_SUITES[env_id]
    result = play_run(suite, build, out=folder / "run", overrides=settings)
    (recorded,) = (folder / "gym/episodes").iterdir()
    return steps, drivers[0], recorded, result.run_dir


# --- the environments -----------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("env_id", ENV_IDS)
def test_passes_gymnasiums_own_checker(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(env_id, render_mode="rgb_array")
        check_env(env.unwrapped)
        env.close()


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_spaces(env_id: str) -> None:
    env = gymnasium.make(env_id)
    assert env.action_space == gymnasium.spaces.Discrete(18)
    box = gymnasium.spaces.Box(0, 255, (210, 160, 3), np.uint8)
    assert env.observation_space == box


def test_environment_is_made_by_its_module_name_too() -> None:
    code = (
        "import gymnasium; env = gymnasium.make('longplay.gym:longplay/ControlSmoke-v1'"
        "); env.reset(seed=0); print(env.step(0)[1:4])"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    assert subprocess.check_output(command, text=True) == "(0.0, False, False)\n"


def test_importing_longplay_imports_no_gymnasium() -> None:
    code = "import longplay, sys; print('gymnasium' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"False\n"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"suite": "control-v2"}, UnknownNameError),
        ({"overrides": {"delay": -1}}, ConfigError),
        ({"overrides": {"games": ["combat"]}}, ConfigError),
    ],
)
def test_bad_options_are_refused_when_it_is_made(
    options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        make(**options)


# --- the stream -----------------------------------------------------------------


def test_it_is_the_stream_of_a_run(both: Any) -> None:
    steps, driver, _, run_dir = both
    rows = longplay.read_run(run_dir).events.numpy("reward", "terminated", "truncated")
    assert [step[1] for step in steps] == rows["reward"].tolist()
    for name in ("terminated", "truncated"):
        assert [step[4][name] for step in steps] == rows[name].tolist()
    for step, call in zip(steps, driver.calls[1:], strict=False):
        np.testing.assert_array_equal(step[0], call[0])
    assert rows["terminated"].any()
    assert rows["truncated"].sum() > 1


def test_only_the_last_step_ends_the_episode(both: Any) -> None:
    steps = both[0]
    assert not any(step[2] for step in steps)
    assert [step[3] for step in steps] == [False] * (len(steps) - 1) + [True]
    assert {type(step[1]) for step in steps} == {float}


def test_last_observation_is_the_final_screen(both: Any) -> None:
    last, before = both[0][-1][0], both[0][-2][0]
    assert last.shape == (210, 160, 3)
    assert last.any()
    assert np.mean(last != before) < 0.2


def test_info_of_control_is_the_two_flags() -> None:
    with make() as env:
        _, info = env.reset(seed=0)
        assert info == {"terminated": False, "truncated": False}
        infos = [step[4] for step in drive(env)]
    assert {frozenset(info) for info in infos} == {frozenset(info)}


def test_info_of_streaming_is_that_of_the_contract_and_the_flags() -> None:
    with make(STREAM) as env:
        _, info = env.reset(seed=0)
    assert set(info) == {
        "terminated",
        "truncated",
        "lives",
        "action_space_n",
        "is_decision_frame",
        "global_frame_idx",
        "default_action_idx",
        "prev_applied_action_idx",
        "has_prev_applied_action",
    }
    assert not [value for value in info.values() if isinstance(value, str)]


def first_frames(env: gymnasium.Env[Any, Any], seed: int | None) -> bytes:
    env.reset(seed=seed)
    steps = [env.step(choose(i)) for i in range(60)]  # type: ignore[arg-type]
    return b"".join(step[0].tobytes() for step in steps)


def test_reset_starts_the_stream_of_the_seed() -> None:
    with make() as env, make() as other:
        first = first_frames(env, 0)
        assert first_frames(env, 0) == first
        assert first_frames(other, 0) == first
        assert first_frames(env, 1) != first


def test_reset_without_a_seed_starts_a_new_stream_that_the_last_seed_leads_to() -> None:
    with make() as env, make() as other:
        first = first_frames(env, 3)
        second = first_frames(env, None)
        assert second != first
        first_frames(other, 3)
        assert first_frames(other, None) == second


def test_observations_are_the_loops_own() -> None:
    with make() as env, make() as spoilt:
        env.reset(seed=0)
        spoilt.reset(seed=0)[0][:] = 0
        for i in range(50):
            expected = env.step(choose(i))  # type: ignore[arg-type]
            found = spoilt.step(choose(i))  # type: ignore[arg-type]
            np.testing.assert_array_equal(found[0], expected[0])
            found[0][:] = 255


@pytest.mark.parametrize(
    ("seed", "error"), [(-1, gymnasium.error.Error), (2**31, ConfigError)]
)
def test_seed_out_of_range_is_refused(seed: int, error: type[Exception]) -> None:
    with make() as env, pytest.raises(error):
        env.reset(seed=seed)


def test_step_without_a_stream_is_refused() -> None:
    env = make().unwrapped
    with pytest.raises(ResetNeeded):
        env.step(0)
    drive(env)
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(0)


@pytest.mark.parametrize("action", [18, -1, 1.5, True, None])
def test_bad_action_plays_nothing(action: Any) -> None:
    with make() as env, make() as other:
        env.reset(seed=0)
        other.reset(seed=0)
        with pytest.raises(AgentError, match="expected an int in 0 … 17"):
            env.step(action)
        np.testing.assert_array_equal(env.step(1)[0], other.step(1)[0])


def test_render_shows_the_last_observation() -> None:
    with make(render_mode="rgb_array") as env:
        first, _ = env.reset(seed=0)
        np.testing.assert_array_equal(env.render(), first)
        observation = env.step(1)[0]
        np.testing.assert_array_equal(env.render(), observation)
        assert env.render() is not observation


# --- recording ------------------------------------------------------------------


def test_recorded_rows_are_those_of_a_run(both: Any) -> None:
    _, _, recorded, run_dir = both
    for name in ROW_FILES:
        assert (recorded / name).read_bytes() == (run_dir / name).read_bytes()


def test_recorded_run_is_valid_and_scored(both: Any) -> None:
    _, _, recorded, run_dir = both
    assert recorded.name == run_dir.name
    assert longplay.validate_run(recorded).findings.shown == []
    run, other = longplay.read_run(recorded), longplay.read_run(run_dir)
    assert run.status is not None
    assert run.status.state == "COMPLETED"
    fields = {"fps"}
    assert run.score is not None
    assert other.score is not None
    assert run.score.model_dump(exclude=fields) == other.score.model_dump(
        exclude=fields
    )


@pytest.fixture
def unfinished(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Records some steps and closes the environment."""

    def record(count: int) -> Path:
        with make(record=tmp_path / "gym", agent="my-loop") as env:
            env.reset(seed=0)
            for i in range(count):
                env.step(choose(i))  # type: ignore[arg-type]
        (run_dir,) = (tmp_path / "gym/episodes").iterdir()
        return run_dir

    yield record


@pytest.mark.parametrize("count", [1, 89, 90, 91, 179])
def test_unfinished_recording_is_cancelled(
    count: int, unfinished: Callable[[int], Path]
) -> None:
    run_dir = unfinished(count)
    run = longplay.read_run(run_dir)
    assert run.status is not None
    assert (run.status.state, run.status.frame) == ("CANCELLED", count)
    assert len((run_dir / "events.jsonl").read_bytes().splitlines()) == count
    assert run.summary is not None
    assert run.summary.frames == count
    assert not (run_dir / "score.json").exists()
    assert longplay.validate_run(run_dir).findings.counts.keys() == {
        "missing frames",
        "missing file",
        "state",
    }


def test_recording_names_the_loop(unfinished: Callable[[int], Path]) -> None:
    config = json.loads((unfinished(1) / "config.json").read_text())
    assert config["agent"]["config"] == {"_type": "my-loop", "args": {}}
    assert config["suite"].startswith("control-smoke-v1+")


def test_nothing_is_recorded_before_the_first_step(tmp_path: Path) -> None:
    with make(record=tmp_path / "gym") as env:
        env.reset(seed=0)
        env.reset(seed=0)
    assert not (tmp_path / "gym").exists()


def test_reset_ends_a_recording_and_the_next_seed_begins_another(
    tmp_path: Path,
) -> None:
    with make(record=tmp_path) as env:
        for seed in (0, 1):
            env.reset(seed=seed)
            env.step(0)  # type: ignore[arg-type]
    runs = longplay.read_experiment(tmp_path).runs
    assert [run.status and run.status.state for run in runs.values()] == [
        "CANCELLED",
        "CANCELLED",
    ]
    assert list(runs) == [0, 1]


def test_existing_run_is_not_overwritten(tmp_path: Path) -> None:
    with make(record=tmp_path) as env:
        drive(env)
        (run_dir,) = (tmp_path / "episodes").iterdir()
        before = {path: path.read_bytes() for path in run_dir.iterdir()}
        env.reset(seed=0)
        with pytest.raises(OutputError, match="found a run of the same seed"):
            env.step(0)  # type: ignore[arg-type]
    assert {path: path.read_bytes() for path in run_dir.iterdir()} == before


@pytest.mark.parametrize("name", ["os_write", "os_replace"])
def test_full_disk_fails_the_recording_and_not_the_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    with make(record=tmp_path) as env:
        env.reset(seed=0)
        for i in range(179):
            env.step(choose(i))  # type: ignore[arg-type]
        with monkeypatch.context() as patch:
            patch.setattr(f"longplay.contract.files.{name}", fail)
            with pytest.raises(RecordingError, match="No space left"):
                env.step(0)  # type: ignore[arg-type]
    (run_dir,) = (tmp_path / "episodes").iterdir()
    assert not (run_dir / "score.json").exists()
    for file in ROW_FILES:
        content = (run_dir / file).read_bytes()
        assert content == b"" or content.endswith(b"\n")


def test_heartbeat_is_written_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longplay.gym.recording.HEARTBEAT_S", 0.0)
    with make(record=tmp_path) as env:
        env.reset(seed=0)
        for i in range(5):
            env.step(choose(i))  # type: ignore[arg-type]
        (run_dir,) = (tmp_path / "episodes").iterdir()
        status = longplay.read_run(run_dir).status
        assert status is not None
        assert (status.state, status.frame) == ("RUNNING", 1)
        assert len((run_dir / "events.jsonl").read_bytes().splitlines()) == 5


def test_a_prediction_suite_is_refused(references: Path) -> None:
    with pytest.raises(ConfigError, match="takes predictions"):
        gymnasium.make("longplay/Control-v1", suite="prediction-v1")


# --- an experiment like any other ---------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two streams of one loop."""
    folder = tmp_path_factory.mktemp("recorded") / "mine"
    with make(record=folder, agent="my-loop") as env:
        for seed in (0, 1):
            drive(env, seed=seed)
    return folder


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "command", ["show", "status", "validate", "score", "verify", "compare"]
)
def test_every_command_takes_a_recording(
    command: str, recorded: Path, invoke: Callable[..., Any]
) -> None:
    answer = invoke(command, recorded, "--json")
    assert answer.exit_code == 0, answer.stderr + answer.stdout


def test_a_recording_has_records(recorded: Path, invoke: Callable[..., Any]) -> None:
    lines = recorded.parent / "runs.jsonl"
    assert invoke("export", recorded, "--jsonl", lines).exit_code == 0
    records = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [(record["seed"], record["error_type"]) for record in records] == [
        (0, None),
        (1, None),
    ]
    config = json.loads((recorded / "experiment_config.json").read_text())
    assert (config["seeds"], config["n_tasks"]) == ([0, 1], 2)
    summary = json.loads((recorded / "experiment_summary.json").read_text())
    assert [run["state"] for run in summary["runs"]] == ["COMPLETED", "COMPLETED"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agent": "other-loop"}, "agent.config._type: "),
        ({"agent": "my-loop", "overrides": {}}, "config_given.overrides."),
    ],
)
def test_another_experiment_is_not_mixed_in(
    options: dict[str, Any], message: str, recorded: Path
) -> None:
    with make(record=recorded, **options) as env:
        env.reset(seed=7)
        with pytest.raises(ConfigError, match=re.escape(message)):
            env.step(0)  # type: ignore[arg-type]


# --- after the end of a recorded stream ---------------------------------------------


def test_a_recorded_stream_stays_at_its_end(tmp_path: Path) -> None:
    with make(record=tmp_path) as env:
        last = drive(env)[-1]
        with pytest.warns(UserWarning, match="the recorded stream has ended") as said:
            steps = [env.step(0) for _ in range(3)]  # type: ignore[arg-type]
            observation, info = env.reset()  # as vector environments do
            steps.append(env.step(0))  # type: ignore[arg-type]
        assert len(said) == 1
        np.testing.assert_array_equal(observation, last[0])
        assert info == {"terminated": False, "truncated": False}
        for step in steps:
            np.testing.assert_array_equal(step[0], last[0])
            assert step[1:4] == (0.0, False, True)
            assert step[4] == {"terminated": False, "truncated": True}
            step[0][:] = 0  # the loop's own
    (run,) = longplay.read_experiment(tmp_path).runs.values()
    assert run.status is not None
    assert run.status.state == "COMPLETED"
    assert len(run.events.numpy("reward")["reward"]) == 180


def test_only_a_seed_begins_another_recorded_stream(tmp_path: Path) -> None:
    with make(record=tmp_path) as env:
        drive(env)
        env.reset()
        env.reset(seed=5)
        assert not env.step(0)[3]  # type: ignore[arg-type]
    assert list(longplay.read_experiment(tmp_path).runs) == [0, 5]


def test_episodes_of_games_stay_at_the_end_too(tmp_path: Path) -> None:
    with longplay.gym.GameEpisodes(make(record=tmp_path)) as env:
        env.reset(seed=1000)
        is_over = [False]
        with pytest.warns(UserWarning, match="the recorded stream has ended"):
            for i in range(200):  # of 180
                if is_over[-1]:
                    env.reset()
                is_over.append(any(env.step(choose(i))[2:4]))
        assert is_over[-20:] == [True] * 20
    assert list(longplay.read_experiment(tmp_path).runs) == [1000]


@pytest.mark.parametrize("mode", list(gymnasium.vector.AutoresetMode)[:2])
def test_vector_environments_record_one_run_per_seed(mode: Any, tmp_path: Path) -> None:
    """They reset by themselves; streams of other lengths end earlier."""
    envs = gymnasium.make_vec(
        STREAM,
        num_envs=3,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        overrides=SHORT | {"jitter_pct": 0.2},
        record=tmp_path,
    )
    envs.reset(seed=1000)
    with pytest.warns(UserWarning, match="the recorded stream has ended"):
        for i in range(600):
            envs.step(np.full(3, choose(i)))
    envs.close()
    runs = longplay.read_experiment(tmp_path).runs
    assert sorted(runs) == [1000, 1001, 1002]
    assert len({run.config.total_frames for run in runs.values()}) > 1
    for run in runs.values():
        assert longplay.validate_run(run.path).is_valid


# --- what the loop says about itself ------------------------------------------------


def test_agent_has_arguments(tmp_path: Path) -> None:
    agent = {"name": "dqn-0.1", "args": {"step_size": 0.1, "sizes": [32, 64]}}
    with make(record=tmp_path, agent=agent) as env:
        drive(env)
    run = longplay.read_run(tmp_path)
    assert run.config.agent is not None
    assert run.config.agent.config == {"_type": "dqn-0.1", "args": agent["args"]}
    assert longplay.compare(tmp_path).suites[0].agents[0].label == "dqn-0.1"


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ({"args": {}}, 'expected a name or {"name"'),
        ({"name": "a", "arguments": {}}, "'arguments'"),
        ({"name": "a", "args": [1]}, "found {'name': 'a', 'args'"),
        ("", "expected a name"),
        ({"name": "a", "args": {"net": object}}, "JSON"),
        ({"name": "a", "args": {"api_key": "x"}}, "api_key"),
    ],
)
def test_bad_agents_are_refused(agent: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, AgentLoadError), match=re.escape(message)):
        make(record=tmp_path, agent=agent)


def test_metrics_of_a_loop_are_recorded(tmp_path: Path) -> None:
    """Means of the steps of a visit, as an agent's own."""
    with make(record=tmp_path) as env:
        stream_env: Any = env.unwrapped
        env.reset(seed=1000)
        stream_env.log({"loss": 100.0})  # before the first step: dropped
        for frame in range(180):
            env.step(choose(frame))  # type: ignore[arg-type]
            stream_env.log({"loss": float(frame), "best": float("nan")})
    rows = read_rows(longplay.read_run(tmp_path).path / "metrics.jsonl")
    assert [(row["global_frame_idx"], row["loss"]) for row in rows] == [
        (89, 44.0),  # 0 … 88; what is logged after a visit's last step is the next's
        (179, 133.5),  # 89 … 178
    ]
    assert {(row["best"], row["best.non_finite"]) for row in rows} == {
        (None, 89.0),
        (None, 90.0),
    }


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"loss": "low"}, "log['loss']: expected a number, found 'low'"),
        ({"visit_idx": 1.0}, "'visit_idx' is reserved"),
        (3.0, "log must be a dict"),
    ],
)
def test_bad_metrics_are_refused_and_nothing_of_them_is_kept(
    metrics: Any, message: str, tmp_path: Path
) -> None:
    with make(record=tmp_path) as env:
        stream_env: Any = env.unwrapped
        env.reset(seed=1000)
        env.step(0)  # type: ignore[arg-type]
        with pytest.raises(AgentError, match=re.escape(message)):
            stream_env.log(metrics)


def test_logging_without_a_record_does_nothing() -> None:
    with make() as env:
        env.reset(seed=1000)
        env.step(0)  # type: ignore[arg-type]
        env.unwrapped.log({"loss": 1.0})  # type: ignore[attr-defined]


def test_every_suite_with_actions_has_an_id() -> None:
    playable = {
        name
        for name, suite in SUITES.items()
        if suite.track in ("control", "streaming")
    }
    assert set(longplay.gym.ENV_SUITES.values()) == playable
    for env_id in longplay.gym.ENV_SUITES:
        assert gymnasium.spec(env_id).id == env_id


def test_actions_have_names() -> None:
    with make() as env:
        names = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
    assert names[:3] == ["NOOP", "FIRE", "UP"]
    assert len(names) == env.action_space.n == 18  # type: ignore[attr-defined]


def test_without_a_seed_the_first_stream_has_a_tuning_seed(capsys, tmp_path):
    env = gymnasium.make("longplay/ControlSmoke-v1", record=tmp_path / "e")
    env.reset()
    env.reset()
    env.step(0)
    env.close()
    assert capsys.readouterr().err.count("playing tuning seed 1000") == 1
    (run_dir,) = (tmp_path / "e" / "episodes").iterdir()
    drawn = int(run_dir.name.rpartition("-")[2])
    assert drawn > 1000
    first, again = (
        gymnasium.make("longplay/ControlSmoke-v1"),
        gymnasium.make("longplay/ControlSmoke-v1"),
    )
    assert np.array_equal(first.reset()[0], again.reset(seed=1000)[0])


def test_an_official_seed_says_so_once(capsys):
    env = gymnasium.make("longplay/ControlSmoke-v1")
    env.reset(seed=3)
    env.reset(seed=3)
    assert capsys.readouterr().err.count("3 is an official seed") == 1
