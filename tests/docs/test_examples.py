"""The examples, and the agents that the docs print, run as they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import longplay
from longplay.contract.config import RunConfig, ScoringDefaults
from longplay.scoring.metrics import Rewards
from longplay.scoring.play import Play, played_visits
from longplay.scoring.streaming import compute_score
from small_study import AGENT, STUDY

ROOT = Path(__file__).parents[2]
# Loops of their own are run below; what needs PyTorch is in `tests/learn`.
EXAMPLES = sorted(
    path
    for path in (ROOT / "examples").glob("*.py")
    if not path.stem.startswith("gym_") and not path.stem.endswith("_torch")
)
PREDICTORS = [path for path in EXAMPLES if path.stem.startswith("prediction")]
AGENTS = [path for path in EXAMPLES if path not in PREDICTORS]
SHORT = ("--set", "base_visit_frames=200", "--quiet", "--json")


@pytest.mark.few(1)
@pytest.mark.parametrize("suite", ["stream-smoke-v1", "control-smoke-v1"])
@pytest.mark.parametrize("example", AGENTS, ids=lambda path: path.stem)
def test_example_runs(
    suite: str, example: Path, invoke: Callable, tmp_path: Path
) -> None:
    assert invoke("check-agent", example).exit_code == 0
    answer = invoke("run", suite, "--agent", example, "--out", tmp_path / "e", *SHORT)
    assert answer.exit_code == 0
    assert answer.json["runs"][0]["validation"]["valid"]


@pytest.mark.few(2)
@pytest.mark.parametrize("example", PREDICTORS, ids=lambda path: path.stem)
def test_predictor_runs(
    example: Path, references: Path, invoke: Callable, tmp_path: Path
) -> None:
    assert invoke("check-agent", example).exit_code == 0
    out = ("--out", tmp_path / "e")
    answer = invoke("run", "prediction-smoke-v1", "--agent", example, *out, *SHORT)
    assert answer.exit_code == 0
    assert answer.json["runs"][0]["validation"]["valid"]


def test_smallest_example_has_twenty_lines() -> None:
    text = (ROOT / "examples" / "control_random.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 20


@pytest.mark.exhaustive
def test_gymnasium_example_runs_and_records(tmp_path: Path) -> None:
    script = ROOT / "examples" / "gym_loop.py"
    command = [sys.executable, "-W", "error", script, "--record", tmp_path, "--seed=3"]
    printed = subprocess.check_output(command, text=True)
    assert longplay.validate_run(tmp_path).is_valid
    score = longplay.read_run(tmp_path).score
    assert printed == f"collected {score.headline:g}\n"


def test_example_with_four_seeds_records_four_runs(tmp_path: Path) -> None:
    script = ROOT / "examples" / "gym_vector_loop.py"
    command = [sys.executable, "-W", "error", script, "--record", tmp_path]
    printed = subprocess.check_output(command, text=True)
    runs = longplay.read_experiment(tmp_path).runs
    assert sorted(runs) == [1000, 1001, 1002, 1003]
    scores = [runs[seed].score.headline for seed in sorted(runs)]
    assert printed.split() == ["collected", *(f"{score:g}" for score in scores)]
    for run in runs.values():
        assert longplay.validate_run(run.path).is_valid
        assert "mean_squared_error" in (run.path / "metrics.jsonl").read_text()
        assert run.config.agent.config["args"] == {"epsilon": 0.1, "step_size": 0.02}


def test_example_of_the_scoring_page() -> None:
    schedule = [("pong", 0, 10), ("qbert", 0, 8), ("pong", 1, 10), ("qbert", 1, 6)]
    config = RunConfig.model_validate_json(
        RunConfig.model_construct(
            games=["pong", "qbert"],
            schedule=[
                {"visit_idx": k, "cycle_idx": c, "game_id": g, "visit_frames": n}
                for k, (g, c, n) in enumerate(schedule)
            ],
            decision_interval=1,
            delay=0,
            sticky=0.0,
            life_loss_termination=False,
            full_action_space=True,
            action_mapping_policy={"global_action_set": list(range(18))},
            default_action_idx=0,
            scoring_defaults=ScoringDefaults(
                window_frames=5,
                bottom_k_frac=0.5,
                revisit_frames=4,
                final_score_weights=(0.5, 0.5),
            ),
            benchmark_contract_version="v1",
            benchmark_contract_hash="0" * 64,
        ).model_dump_json(warnings=False)
    )
    rewards = {2: 1, 7: 3, 9: 1, 12: 2, 16: 4, 19: 2, 25: 5, 31: 3, 33: 3}
    sparse = Rewards(
        np.array(list(rewards), np.int64), np.array(list(rewards.values()), np.float64)
    )
    score = compute_score(
        Play(
            config=config,
            visits=played_visits(config),
            rewards=sparse,
            game_rewards=sparse,
            terminated_ends=np.zeros(0, np.int64),
            fps=None,
        )
    )
    assert score.per_game_scores == {"pong": 1.0, "qbert": 1.2}
    assert (score.mean_score, score.bottom_k_score) == (1.1, 1.0)
    assert score.final_score == 1.05
    assert score.per_game_forgetting == {"pong": 0.5, "qbert": 0.25}
    assert score.forgetting_index_mean == score.forgetting_index_median == 0.375
    assert score.per_game_plasticity == {"pong": 0.75, "qbert": 0.5}
    assert score.plasticity_mean == 0.625


def test_printed_functions_run(invoke: Callable, tmp_path: Path) -> None:
    """README's first agent; its console block takes minutes, and is only planned."""
    readme = (ROOT / "README.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.S)
    agent = tmp_path / "my_functions.py"
    agent.write_text(next(block for block in blocks if "def init" in block))
    assert invoke("check-agent", agent).exit_code == 0
    answer = invoke(
        "run", "control-smoke-v1", "--agent", agent, "--out", tmp_path / "e", *SHORT
    )
    assert answer.exit_code == 0


# --- the job array --------------------------------------------------------------------


@pytest.fixture
def array_task(tmp_path: Path) -> Callable[[int], subprocess.Popen[bytes]]:
    """Starts the example script as SLURM starts a task of an array of two.

    Only the scheduler is a stand-in: its variables, and `scontrol`, which notes what it
    is asked to do. The study is a small one under the name that the script uses.
    """
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/study.toml").write_text(STUDY)
    (tmp_path / "examples/button.py").write_text(AGENT)
    scontrol = tmp_path / "bin/scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/scontrol.txt\n')
    scontrol.chmod(0o755)
    folders = (str(Path(sys.executable).parent), str(scontrol.parent))
    path = os.pathsep.join((*folders, os.environ["PATH"]))

    def start(task: int) -> subprocess.Popen[bytes]:
        slurm = {
            "SLURM_ARRAY_JOB_ID": "71",
            "SLURM_ARRAY_TASK_ID": str(task),
            "SLURM_ARRAY_TASK_COUNT": "2",
        }
        with (tmp_path / f"task-{task}.txt").open("ab") as output:
            return subprocess.Popen(
                ["bash", ROOT / "examples/study.sbatch"],
                cwd=tmp_path,
                env={**os.environ, **slurm, "PATH": path, "SCRATCH": str(tmp_path)},
                stdout=output,
                stderr=output,
            )

    return start


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("bash") is None, reason="the script is for bash")
def test_job_array_plays_a_study(array_task: Callable, tmp_path: Path) -> None:
    """Two arrays of two tasks each, as the script's first lines say."""
    for _ in range(2):
        tasks = [array_task(task) for task in (1, 2)]
        codes = [task.wait(120) for task in tasks]
        printed = [path.read_text() for path in sorted(tmp_path.glob("task-*.txt"))]
        assert set(codes) <= {0, 75}, (codes, *printed)
    assert codes == [0, 0]
    paths = list((tmp_path / "example").glob("*/*/episodes/*/status.json"))
    statuses = [json.loads(path.read_bytes()) for path in paths]
    assert [status["state"] for status in statuses] == ["COMPLETED"] * 4
    # The numbers of the runs alternate between the tasks.
    assert len({status["pid"] for status in statuses}) >= 2
    assert not (tmp_path / "scontrol.txt").exists()


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("bash") is None, reason="the script is for bash")
def test_task_near_its_time_limit_is_requeued(
    array_task: Callable, tmp_path: Path
) -> None:
    (tmp_path / "slow").touch()
    task = array_task(1)
    deadline = time.monotonic() + 60
    while not any(tmp_path.glob("example/tuning/*/episodes/*/events.jsonl")):
        assert time.monotonic() < deadline, (tmp_path / "task-1.txt").read_text()
        time.sleep(0.1)
    task.send_signal(signal.SIGUSR1)
    assert task.wait(60) == 75
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 71_1\n"
    (status,) = tmp_path.glob("example/tuning/*/episodes/*/status.json")
    assert json.loads(status.read_bytes())["state"] == "QUEUED"
    assert (status.parent / "checkpoint/current.json").exists()
    (tmp_path / "slow").unlink()
    assert array_task(1).wait(120) == 0
    assert json.loads(status.read_bytes())["state"] == "COMPLETED"
