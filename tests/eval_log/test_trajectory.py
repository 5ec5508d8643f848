"""A view of a run directory: what it says, and what it does not read."""

from __future__ import annotations

import json

import pytest

import longplay
from generated_runs import (
    AGENT_ID,
    STARTED_S,
    edit,
    make_run,
    make_status,
    write,
)
from longplay.console.base import ACTION_NAMES
from longplay.errors import DocumentError
from longplay.eval_log.trajectory import Trajectory
from longplay.plan import name_benchmark


@pytest.fixture
def run_dir(tmp_path):
    return make_run(tmp_path / "stream-smoke-v1_seed-4", seed=4)


def test_opening_reads_nothing(tmp_path):
    assert Trajectory(tmp_path / "nowhere").run.path == tmp_path / "nowhere"


@pytest.mark.seed("001", "integration-1")
def test_metadata_says_task_agent_and_actions(run_dir):
    metadata = Trajectory(run_dir).metadata
    names = [schema["name"] for schema in metadata.pop("action_schemas")]
    assert names == ["NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN"]
    assert metadata == {
        "task_id": "stream-smoke-v1/seed-4",
        "seed": 4,
        "agent_id": AGENT_ID,
        "agent_name": "random",
        "tuning_frames": None,
    }


@pytest.mark.seed("001", "integration-1")
def test_action_schemas_have_names_and_descriptions(finished_run):
    schemas = Trajectory(finished_run).metadata["action_schemas"]
    assert [schema["name"] for schema in schemas] == list(ACTION_NAMES)
    assert {tuple(schema) for schema in schemas} == {("name", "description")}


def test_statistics_are_the_summary_s(run_dir):
    summary = json.loads((run_dir / "run_summary.json").read_text())
    trajectory = Trajectory(run_dir)
    assert trajectory.summary_stats == {
        "n_steps": summary["frames"],
        "n_agent_steps": summary["decision_frames"],
        "n_env_steps": summary["emulator_frames"],
        "wall_time_s": 3.0,
    }
    assert trajectory.start_time == STARTED_S


def test_usage_joins_the_statistics_and_cannot_replace_them(run_dir):
    edit(run_dir / "run_summary.json", usage={"n_llm_calls": 3, "n_steps": 1})
    stats = Trajectory(run_dir).summary_stats
    assert stats["n_llm_calls"] == 3
    assert stats["n_steps"] > 1


def test_reward_is_the_final_score(run_dir):
    trajectory = Trajectory(run_dir)
    assert trajectory.reward == 4.25
    assert trajectory.reward_info == {"reward": 4.25}
    assert trajectory.error_type is None


def test_ended_run_without_a_score_says_how_to_get_one(run_dir):
    (run_dir / "score.json").unlink()
    with pytest.raises(DocumentError, match=r"score\.json: missing .* `longplay score"):
        Trajectory(run_dir).reward  # noqa: B018


@pytest.mark.parametrize(
    ("state", "error", "error_type"),
    [
        ("FAILED", "AgentError", "AgentError"),
        ("CANCELLED", "RunCancelled", "RunCancelled"),
        ("STALE", None, "STALE"),
    ],
)
def test_run_that_broke_off_has_an_error_and_no_reward(
    run_dir, state, error, error_type
):
    write(run_dir / "status.json", make_status(state, error))
    trajectory = Trajectory(run_dir)
    assert (trajectory.state, trajectory.error_type) == (state, error_type)
    assert trajectory.reward == 0.0


def test_run_without_a_status_has_ended(run_dir):
    (run_dir / "status.json").unlink()
    trajectory = Trajectory(run_dir)
    assert (trajectory.state, trajectory.error_type) == ("COMPLETED", None)
    assert trajectory.reward == 4.25


def test_renamed_folder_is_the_same_run(copy_of, finished_run):
    copy = copy_of(finished_run)
    renamed = copy.rename(copy.with_name("renamed"))
    assert Trajectory(renamed).id == Trajectory(finished_run).id == finished_run.name


def test_visits_are_trajectories_too(finished_run):
    run = longplay.read_run(finished_run)
    suite = name_benchmark(run.config)
    visits = list(Trajectory(finished_run).visits())
    assert len(visits) == len(run.config.schedule) == 6
    for visit, planned, played in zip(
        visits, run.config.schedule, run.summary.visits, strict=True
    ):
        assert visit.id == f"{finished_run.name}/visit-{planned.visit_idx}"
        assert visit.metadata["task_id"] == (
            f"{suite}/{planned.game_id}/cycle-{planned.cycle_idx}/seed-0"
        )
        assert visit.reward_info == {"reward": played.reward_sum}
        assert visit.summary_stats["n_steps"] == planned.visit_frames


@pytest.mark.seed("001", "agent-18", "episode-29")
def test_names_of_a_small_action_set_are_the_game_s_own(life_loss_run):
    run = longplay.read_run(life_loss_run)
    counts = {}
    for visit, played in zip(
        Trajectory(life_loss_run).visits(), run.summary.visits, strict=True
    ):
        names = [schema["name"] for schema in visit.metadata["action_schemas"]]
        assert sorted(names) == sorted(played.action_names)
        counts[played.game_id] = len(names)
    assert counts == {"centipede": 18, "ms_pacman": 9, "qbert": 6}
