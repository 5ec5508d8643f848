"""Suite + overrides + seed -> everything known before the first frame."""

from __future__ import annotations

import re

import pytest

from longplay.contract.fingerprint import contract_payload
from longplay.errors import ConfigError, UnknownNameError
from longplay.plan import name_benchmark, plan_again, plan_run
from longplay.suites import SUITES, get_suite


def test_same_request_gives_the_same_plan():
    overrides = {"delay": 1, "jitter_pct": 0.5}
    assert plan_run("stream-smoke-v1", 3, overrides) == plan_run(
        "stream-smoke-v1", 3, overrides
    )


def test_seed_reaches_schedule_and_emulators():
    zero, one = plan_run("stream-smoke-v1", 0), plan_run("stream-smoke-v1", 1)
    assert zero.config.schedule != one.config.schedule
    assert zero.config.emulator_seeds != one.config.emulator_seeds


def test_golden_emulator_seeds_are_in_the_config():
    assert plan_run("stream-smoke-v1", 0).config.emulator_seeds == (
        2044266242,
        1790637272,
        504456060,
        2011874460,
        191692056,
        440481839,
    )


@pytest.mark.parametrize("suite_id", SUITES)
def test_plain_suite_keeps_its_name(suite_id):
    plan = plan_run(suite_id, 4, reference_sha256=SUITES[suite_id].references)
    assert plan.suite_name == plan.config.suite == suite_id
    assert plan.task_id == f"{suite_id}/seed-4"
    assert plan.trajectory_id == f"{suite_id}_seed-4"


OVERRIDES = [
    {"delay": 3},
    {"games": ["qbert", "centipede", "ms_pacman"]},
    {"base_visit_frames": 2_001},
    {"sticky": 0},
    {"scoring_defaults.window_frames": 501},
    {"scoring_defaults": {"final_score_weights": [1, 0]}},
    # Changes no frame of this suite, but is still another setting.
    {"min_visit_frames": 2},
]


@pytest.mark.parametrize("overrides", OVERRIDES)
def test_changed_suite_is_named_after_its_settings(overrides):
    plan = plan_run("stream-smoke-v1", 0, overrides)
    assert re.fullmatch(r"stream-smoke-v1\+[0-9a-f]{8}", plan.suite_name)
    assert plan.suite_name == plan.config.suite == plan.benchmark_name
    assert name_benchmark(plan.config) == plan.suite_name
    assert plan.task_id == f"{plan.suite_name}/seed-0"
    assert plan.trajectory_id == f"{plan.suite_name}_seed-0"


def test_all_seeds_of_a_changed_suite_have_one_name():
    plans = [plan_run("stream-smoke-v1", seed, {"delay": 3}) for seed in range(3)]
    assert len({plan.config.benchmark_contract_hash for plan in plans}) == 3
    assert len({plan.suite_name for plan in plans}) == 1
    other = plan_run("stream-smoke-v1", 0, {"delay": 4})
    assert other.suite_name != plans[0].suite_name


def test_a_recorded_name_can_be_an_older_one():
    plan = plan_run("stream-smoke-v1", 0, {"delay": 3})
    older_name = f"stream-smoke-v1+{plan.config.benchmark_contract_hash[:8]}"
    older = plan_again(plan.given, 0, older_name)
    assert older.suite_name == older.config.suite == older_name
    assert older.benchmark_name == name_benchmark(older.config) == plan.suite_name
    for other in (None, plan.suite_name, "stream-smoke-v1+00000000"):
        assert plan_again(plan.given, 0, other).suite_name == plan.suite_name


def test_order_of_games_is_recorded_where_it_is_not_the_usual_one():
    usual = plan_run("control-smoke-v1").config.config_effective
    assert "shuffle_games" not in usual
    shuffled = plan_run("control-smoke-v1", 0, {"shuffle_games": True})
    assert shuffled.config.config_effective == {**usual, "shuffle_games": True}
    assert shuffled.suite_name.startswith("control-smoke-v1+")
    assert "shuffle_games" not in contract_payload(shuffled.config)
    kept = plan_run("stream-smoke-v1", 0, {"shuffle_games": False})
    assert kept.config.config_effective["shuffle_games"] is False
    same = plan_run("stream-smoke-v1", 0, {"shuffle_games": True})
    assert same.config == plan_run("stream-smoke-v1", 0).config.model_copy(
        update={"config_given": same.given}
    )


def test_predictions_keep_their_order():
    with pytest.raises(ConfigError, match="shuffle_games: cannot be changed"):
        plan_run("prediction-smoke-v1", 0, {"shuffle_games": True})


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"delay": 2},
        {"sticky": 0.25},
        {"games": ["centipede", "ms_pacman", "qbert"]},
        {"scoring_defaults": {"window_frames": 500}},
        get_suite("stream-smoke-v1").settings,
    ],
)
def test_override_equal_to_the_suite_keeps_its_name(overrides):
    plan = plan_run("stream-smoke-v1", 0, overrides)
    assert plan.suite_name == "stream-smoke-v1"
    own = plan_run("stream-smoke-v1", 0).config.benchmark_contract_hash
    assert plan.config.benchmark_contract_hash == own


def test_given_settings_are_kept_flat():
    plan = plan_run("stream-smoke-v1", 0, {"scoring_defaults": {"window_frames": 7}})
    assert plan.config.config_given.suite == "stream-smoke-v1"
    assert plan.config.config_given.overrides == {"scoring_defaults.window_frames": 7}
    assert plan.config.config_effective["scoring_defaults"]["window_frames"] == 7
    assert plan.config.config_effective["delay"] == 2


def test_plan_from_given_is_the_plan():
    plan = plan_run("stream-smoke-v1", 5, {"delay": 1, "games": ["pong", "qbert"]})
    given = plan.config.config_given
    assert plan_run(given.suite, 5, given.overrides).config == plan.config


def test_config_carries_suite_and_scoring():
    config = plan_run("stream-8x3-v1", 0).config
    assert (config.decision_interval, config.delay, config.sticky) == (4, 6, 0.25)
    assert config.action_mapping_policy.global_action_set == tuple(range(18))
    assert config.benchmark_contract_version == "v1"
    assert config.track == "streaming"
    assert config.scoring_defaults.window_frames == 5_000
    assert len(config.schedule) == len(config.emulator_seeds) == 24


def test_total_frames_are_the_sum_of_visits():
    config = plan_run("stream-8x3-1m-v1", 0).config
    assert config.total_frames == 24_000_000


def test_expected_bytes_grow_with_the_frames():
    short = plan_run("stream-smoke-v1").expected_bytes
    long = plan_run("stream-8x3-1m-v1").expected_bytes
    # A row of events.jsonl is about a quarter of a kilobyte.
    assert 2e6 < short < 6e6
    assert 5e9 < long < 8e9


@pytest.mark.parametrize("seed", [-1, 2**31, True, "0"])
def test_bad_seed_is_refused(seed):
    with pytest.raises(ConfigError, match="seed: expected"):
        plan_run("stream-smoke-v1", seed)


def test_unknown_suite_is_refused():
    with pytest.raises(UnknownNameError, match="unknown suite 'stream-8x3'"):
        plan_run("stream-8x3")


def test_bad_override_is_refused():
    with pytest.raises(ConfigError, match="delay: "):
        plan_run("stream-smoke-v1", 0, {"delay": -1})
