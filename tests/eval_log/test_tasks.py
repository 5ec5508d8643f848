"""Suite + seeds -> tasks: their ids, configs, hashes and subsets."""

from __future__ import annotations

import hashlib
import json

import pytest

from longplay.errors import ConfigError, UnknownNameError
from longplay.eval_log.records import BenchmarkSubset, hash_task_config
from longplay.eval_log.tasks import Benchmark, TaskConfig, TaskMetadata
from longplay.plan import plan_run

SUITE = "stream-smoke-v1"


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return Benchmark.from_suite(SUITE, [0, 1, 2, 10])


def test_tasks_are_the_seeds_planned(benchmark):
    assert list(benchmark.task_metadata) == [
        f"stream-smoke-v1/seed-{seed}" for seed in (0, 1, 2, 10)
    ]
    assert benchmark.task_metadata.keys() == benchmark.task_configs.keys()
    assert benchmark.benchmark_metadata.name == SUITE
    assert benchmark.benchmark_metadata.version == "v1"
    for task_id, metadata in benchmark.task_metadata.items():
        assert metadata.task_id == task_id == f"{SUITE}/seed-{metadata.seed}"
        assert metadata.split == ("test" if metadata.seed < 5 else None)
        assert "ms_pacman" in metadata.abstract_description


@pytest.mark.seed("001", "subset-4")
def test_subset_record_counts_the_tasks(benchmark):
    assert BenchmarkSubset.from_benchmark(benchmark) == BenchmarkSubset(
        name=SUITE, n_tasks=4, filter=None
    )


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ([], "seeds: expected at least one, found none"),
        ([3, 4, 3], "seeds: expected distinct seeds, found 3 twice"),
        ([-1], "seed: expected 0 … 2147483647, found -1"),
        (["1"], "seed: expected an int, found '1'"),
    ],
)
def test_bad_seeds_are_refused(seeds, message):
    with pytest.raises(ConfigError, match=message):
        Benchmark.from_suite(SUITE, seeds)


# --- task configs -------------------------------------------------------------------


def test_golden_task_version_hash():
    config = TaskConfig.from_plan(plan_run(SUITE, 0))
    assert config.type_ == "longplay.eval_log.TaskConfig"
    assert hash_task_config(config) == (
        "3027e2727861e941c29d0502a8eff6802944c25ad05f2aa7fefd05de8b8a52fe"
    )


def test_task_config_holds_all_that_defines_the_task():
    plan = plan_run(SUITE, 3, {"delay": 5})
    config = TaskConfig.from_plan(plan)
    assert config.suite == plan.suite_name
    assert (config.suite_id, config.track, config.seed) == (SUITE, "streaming", 3)
    assert config.overrides == {"delay": 5}
    assert config.config_effective == plan.suite.recorded_settings
    assert config.benchmark_contract_version == "v1"
    assert config.benchmark_contract_hash == plan.config.benchmark_contract_hash


@pytest.mark.seed("001", "episode-24")
def test_task_version_hash_by_hand():
    plan = plan_run(SUITE, 3)
    text = json.dumps(
        {
            "_type": "longplay.eval_log.TaskConfig",
            "schema_version": 1,
            "suite": "stream-smoke-v1",
            "suite_id": "stream-smoke-v1",
            "track": "streaming",
            "seed": 3,
            "overrides": {},
            "config_effective": {
                "base_visit_frames": 2000,
                "decision_interval": 4,
                "default_action_idx": 0,
                "delay": 2,
                "full_action_space": True,
                "games": ["centipede", "ms_pacman", "qbert"],
                "jitter_pct": 0.05,
                "life_loss_termination": False,
                "min_visit_frames": 1,
                "num_cycles": 2,
                "scoring_defaults": {
                    "bottom_k_frac": 0.25,
                    "final_score_weights": [0.5, 0.5],
                    "revisit_frames": 200,
                    "window_frames": 500,
                },
                "sticky": 0.25,
            },
            "benchmark_contract_version": "v1",
            "benchmark_contract_hash": plan.config.benchmark_contract_hash,
        },
        separators=(",", ":"),
    )
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert hash_task_config(TaskConfig.from_plan(plan)) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"delay": 2}),
        ({"delay": 5}, {"delay": 5, "sticky": 0.25}),
        ({"sticky": 0}, {"sticky": 0.0}),
        (
            {"scoring_defaults.window_frames": 9},
            {"scoring_defaults": {"window_frames": 9}},
        ),
    ],
)
def test_hash_does_not_depend_on_how_a_task_was_asked_for(one, other):
    hashes = [
        hash_task_config(TaskConfig.from_plan(plan_run(SUITE, 0, overrides)))
        for overrides in (one, other)
    ]
    assert hashes[0] == hashes[1]


@pytest.mark.seed("001", "episode-25", "invariant-5")
@pytest.mark.parametrize(
    "overrides",
    [{"delay": 3}, {"sticky": 0.5}, {"scoring_defaults.window_frames": 9}],
)
def test_any_setting_changes_the_hash(overrides):
    plain, changed = (
        TaskConfig.from_plan(plan_run(SUITE, 0, settings))
        for settings in (None, overrides)
    )
    assert hash_task_config(plain) != hash_task_config(changed)


def test_seed_changes_the_hash(benchmark):
    hashes = {hash_task_config(config) for config in benchmark.task_configs.values()}
    assert len(hashes) == 4


@pytest.mark.parametrize(
    "overrides",
    [{}, {"delay": 5, "games": ["qbert"]}, {"scoring_defaults.revisit_frames": 7}],
)
def test_task_config_is_planned_again(overrides):
    plan = plan_run(SUITE, 3, overrides)
    task = TaskConfig.from_plan(plan)
    again = plan_run(task.suite_id, task.seed, task.overrides)
    assert again.task_id == plan.task_id
    assert again.suite == plan.suite
    assert again.config.schedule == plan.config.schedule


def test_run_gives_the_task_config_of_its_plan(finished_run):
    import longplay

    config = longplay.read_run(finished_run).config
    given = config.config_given
    plan = plan_run(given.suite, config.seed, given.overrides)
    assert TaskConfig.from_config(config) == TaskConfig.from_plan(plan)
    assert TaskMetadata.from_config(config) == TaskMetadata.from_config(plan.config)


def test_run_of_another_tool_has_no_task():
    config = plan_run(SUITE, 0).config.model_copy(update={"suite": None})
    with pytest.raises(ConfigError, match=r"config\.json suite, seed: expected both"):
        TaskConfig.from_config(config)


def test_suite_outside_the_catalogue_keeps_the_given_settings():
    config = plan_run(SUITE, 0).config
    given = config.config_given.model_copy(
        update={"suite": "stream-9x9-v9", "overrides": {"delay": 1}}
    )
    config = config.model_copy(update={"suite": "stream-9x9-v9", "config_given": given})
    assert TaskConfig.from_config(config).overrides == {"delay": 1}


# --- names --------------------------------------------------------------------------


def test_custom_suite_has_one_name_for_one_seed_and_for_many():
    alone = Benchmark.from_suite(SUITE, [4], {"delay": 5})
    together = Benchmark.from_suite(SUITE, [3, 4], {"delay": 5})
    assert alone.benchmark_metadata.name == together.benchmark_metadata.name


def test_custom_runs_share_the_name_of_their_settings():
    names = [
        Benchmark.from_suite(SUITE, seeds, overrides).benchmark_metadata.name
        for seeds, overrides in (
            ([0, 1], {"delay": 5}),
            ([2, 3, 4], {"delay": 5, "sticky": 0.25}),
            ([0, 1], {"delay": 6}),
        )
    ]
    assert names[0] == names[1] != names[2]
    assert all(name.startswith(f"{SUITE}+") for name in names)


# --- subsets ------------------------------------------------------------------------


@pytest.mark.seed("001", "subset-6")
def test_subset_from_glob(benchmark):
    subset = benchmark.subset_from_glob("seed", "1*")
    assert list(subset.task_metadata) == [f"{SUITE}/seed-1", f"{SUITE}/seed-10"]
    assert subset.task_configs.keys() == subset.task_metadata.keys()
    assert subset.benchmark_metadata.name == "stream-smoke-v1_[seed=1*]"
    assert BenchmarkSubset.from_benchmark(subset) == BenchmarkSubset(
        name="stream-smoke-v1_[seed=1*]", n_tasks=2, filter=None
    )
    assert len(benchmark.task_metadata) == 4


def test_subset_of_a_subset(benchmark):
    subset = benchmark.subset_from_glob("split", "test")
    subset = subset.subset_from_glob("task_id", "*seed-[02]")
    assert [metadata.seed for metadata in subset.task_metadata.values()] == [0, 2]
    name = subset.benchmark_metadata.name
    assert name == f"{SUITE}_[split=test]_[task_id=*seed-[02]]"


@pytest.mark.seed("001", "subset-6")
def test_subset_from_list(benchmark):
    chosen = [f"{SUITE}/seed-10", f"{SUITE}/seed-0"]
    subset = benchmark.subset_from_list(chosen)
    assert list(subset.task_metadata) == chosen[::-1]
    text = "stream-smoke-v1/seed-0\nstream-smoke-v1/seed-10"
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    assert subset.benchmark_metadata.name == f"{SUITE}_[list=2-{digest}]"
    assert benchmark.subset_from_list(chosen[::-1]) == subset


def test_bad_subsets_are_refused(benchmark):
    with pytest.raises(UnknownNameError, match="unknown task field 'sed'; did you me"):
        benchmark.subset_from_glob("sed", "1")
    with pytest.raises(ConfigError, match=r"_\[seed=7\]: expected at least one task"):
        benchmark.subset_from_glob("seed", "7")
    with pytest.raises(UnknownNameError, match=f"unknown task '{SUITE}/seed-7'"):
        benchmark.subset_from_list([f"{SUITE}/seed-7"])
    with pytest.raises(ConfigError, match="expected at least one task, found none"):
        benchmark.subset_from_list([])
