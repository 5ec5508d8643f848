"""One seed and many take the same road: planned once, named once, told alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import longplay
from generated_runs import iter_records
from longplay import plan
from longplay.experiments.experiment import Experiment
from planning import plan_experiment

SUITE = "stream-smoke-v1"
SHORT = {"games": ["qbert"], "num_cycles": 1, "base_visit_frames": 40}
EXAMPLES = Path(__file__).parents[2] / "examples"
PREDICTION = {"games": ["pong", "breakout"], "base_visit_frames": 120}


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.few(1)
@pytest.mark.parametrize("seeds", [[0], [0, 1, 2, 3]])
def test_a_run_is_planned_once_and_derived_again_by_the_validator(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, invoke: Callable, seeds: list[int]
):
    planned: list[int] = []
    make_config = plan._make_config

    def count(suite: Any, seed: int, given: Any) -> Any:
        planned.append(seed)
        return make_config(suite, seed, given)

    monkeypatch.setattr(plan, "_make_config", count)
    names = ",".join(map(str, seeds))
    answer = invoke(
        *("run", SUITE, "--agent", "random", "--seeds", names, "--quiet"),
        *("--set", "base_visit_frames=40", "--out", tmp_path / "out"),
    )
    assert answer.exit_code == 0, answer.stderr
    assert sorted(planned) == sorted(seeds * 2)


def test_every_seed_is_played_before_an_error_is_raised(tmp_path: Path):
    class Failing:
        def __init__(self, num_actions: int, seed: int) -> None:
            self.raises = seed == 336614359  # the agent seed of run seed 0

        def step(self, obs_rgb, reward, terminated, truncated, info) -> int:
            if self.raises:
                raise ValueError("no more")
            return 0

    out = tmp_path / "out"
    with pytest.raises(longplay.AgentError, match="no more") as raised:
        longplay.run(SUITE, Failing, seeds=[0, 1], out=out, overrides=SHORT)
    assert isinstance(raised.value.__cause__, ValueError)
    experiment = longplay.read_experiment(out)
    assert list(experiment.runs) == [0, 1]
    assert list(experiment.scores) == [1]


def test_an_agent_that_cannot_be_built_leaves_nothing_behind(tmp_path: Path):
    class Broken:
        def __init__(self, num_actions: int, seed: int) -> None:
            raise ValueError("no weights")

    for seeds in ([0], [0, 1]):
        with pytest.raises(longplay.AgentLoadError, match="no weights"):
            longplay.run(SUITE, Broken, seeds=seeds, out=tmp_path / "out")
        assert list(tmp_path.iterdir()) == []


# --- names ------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [[5], [5, 6, 7, 8]])
def test_a_custom_suite_has_one_name_in_all_records(tmp_path: Path, seeds: list[int]):
    out = tmp_path / "out"
    result = longplay.run(SUITE, "random", seeds=seeds, out=out, overrides=SHORT)
    name = read(out / "experiment_config.json")["suite"]
    assert name == f"{SUITE}+{name[-8:]}"
    record = read(out / "experiment_record.json")
    assert record["benchmark_name"] == record["benchmark_subset"]["name"] == name
    assert read(out / "experiment_summary.json")["suite"] == name
    records = list(iter_records(out))
    assert {r.task_id for r in records} == {f"{name}/seed-{seed}" for seed in seeds}
    visits = list(iter_records(out, "visit"))
    assert {r.task_id.split("/")[0] for r in visits} == {name}
    runs = [longplay.read_run(run.run_dir) for run in result.runs]
    assert {run.config.suite for run in runs} == {name}
    assert {run.path.name for run in runs} == {f"{name}_seed-{s}" for s in seeds}


def test_the_name_depends_on_the_settings_alone(tmp_path: Path):
    def name(seed: int, **settings: Any) -> str:
        overrides = {**SHORT, **settings}
        return plan.plan_run(SUITE, seed, overrides).benchmark_name

    assert name(0) == name(1) == name(0, games=["qbert"])
    assert name(0) != name(0, delay=3)
    assert plan.plan_run(SUITE, 3).benchmark_name == SUITE


def test_an_experiment_keeps_its_references_when_it_is_opened_elsewhere(
    references: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    agent = str(EXAMPLES / "prediction_zero.py")
    out = tmp_path / "e"
    longplay.run("prediction-smoke-v1", agent, out=out, overrides=PREDICTION)
    name = read(out / "experiment_record.json")["benchmark_name"]
    monkeypatch.delenv("LONGPLAY_REFERENCES")
    opened = Experiment.resume(out, agent)
    assert opened.benchmark.benchmark_metadata.name == name
    assert name != "prediction-smoke-v1"
    opened.run_sequentially()
    assert read(out / "experiment_summary.json")["suite"] == name


def test_other_references_alone_make_another_name(references: Path):
    own = plan.plan_run("prediction-smoke-v1", 0)
    assert own.benchmark_name.startswith("prediction-smoke-v1+")


# --- headlines --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suite", "settings", "headline"),
    [
        (SUITE, SHORT, "final_score"),
        ("control-smoke-v1", {"base_visit_frames": 60}, "cumulative_reward"),
        ("prediction-smoke-v1", PREDICTION, "nmse"),
    ],
)
def test_summaries_hold_the_headline_of_the_track(
    references: Path, tmp_path: Path, suite: str, settings: Any, headline: str
):
    is_prediction = headline == "nmse"
    agent = str(EXAMPLES / "prediction_mean.py") if is_prediction else "random"
    out = tmp_path / "out"
    result = longplay.run(suite, agent, out=out, overrides=settings)
    (run,) = read(out / "experiment_summary.json")["runs"]
    assert run["headline"] == headline
    assert run["headline_value"] == getattr(result.runs[0].score, headline)
    assert "final_score" not in run


def test_visit_records_tell_two_predictors_apart(references: Path, tmp_path: Path):
    rewards = {}
    for name in ("zero", "td_lambda"):
        out = tmp_path / name
        agent = str(EXAMPLES / f"prediction_{name}.py")
        result = longplay.run(
            "prediction-smoke-v1", agent, out=out, overrides=PREDICTION
        )
        nmse = result.runs[0].score.per_game_nmse
        rewards[name] = [record.reward for record in iter_records(out, "visit")]
        expected = [nmse[game] for game in PREDICTION["games"]]
        assert rewards[name] == [0.0 if e is None else 1 - e for e in expected]
    assert rewards["zero"] != rewards["td_lambda"]


# --- folders ------------------------------------------------------------------------


def test_only_a_new_folder_is_created_unless_it_may_exist(tmp_path: Path):
    out = tmp_path / "out"
    planned = plan_experiment(SUITE, "random", out=out, overrides=SHORT)
    out.mkdir()
    with pytest.raises(longplay.OutputError, match="exists already"):
        planned.run_sequentially()
    (result,) = planned.open_or_create().run_sequentially()
    assert result.state == "COMPLETED"
    assert not planned.open_or_create().may_restart
    assert not Experiment.resume(out).may_restart
    assert Experiment.open(out).may_restart
