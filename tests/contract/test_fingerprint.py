"""The contract hash: what changes it, what does not, and the keys of the delay."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from longplay import read_run
from longplay.contract.config import RunConfig
from longplay.contract.fingerprint import contract_hash, contract_payload
from longplay.errors import DocumentError
from longplay.plan import plan_run

GOLDEN_PAYLOAD = (
    '{"decision_interval":1,"default_action_idx":0,"delay_frames":0,'
    '"full_action_space":false,"games":["breakout"],"global_action_set":[0,1,2,3],'
    '"life_loss_termination":false,"schedule":[{"cycle_idx":0,"game_id":"breakout",'
    '"visit_frames":4,"visit_idx":0}],"scoring_defaults":{"bottom_k_frac":0.25,'
    '"final_score_weights":[0.5,0.5],"revisit_frames":5,"window_frames":20},'
    '"sticky":0.0}'
)
GOLDEN_HASH = "939f458ac90d2a4bc3d7a940dd67880e266e424c1cbced452986526231f7d82c"

GOLDEN_CONFIG: dict[str, Any] = {
    "games": ["breakout"],
    "schedule": [
        {"visit_idx": 0, "cycle_idx": 0, "game_id": "breakout", "visit_frames": 4}
    ],
    "decision_interval": 1,
    "delay": 0,
    "sticky": 0,
    "life_loss_termination": False,
    "full_action_space": False,
    "action_mapping_policy": {"global_action_set": [0, 1, 2, 3]},
    "default_action_idx": 0,
    "scoring_defaults": {
        "window_frames": 20,
        "bottom_k_frac": 0.25,
        "revisit_frames": 5,
        "final_score_weights": [0.5, 0.5],
    },
    "benchmark_contract_version": "v1",
    "benchmark_contract_hash": GOLDEN_HASH,
}


def changed(path: str, value: Any) -> RunConfig:
    """The golden config with one value set: `schedule.0.game_id`, …"""
    given = copy.deepcopy(GOLDEN_CONFIG)
    *parents, leaf = path.split(".")
    target: Any = given
    for name in parents:
        target = target[int(name)] if name.isdigit() else target[name]
    target[leaf] = value
    return RunConfig.model_validate_json(json.dumps(given))


def golden() -> RunConfig:
    return changed("delay", 0)


def read_config(tmp_path: Path, **keys: Any) -> RunConfig:
    """Reads a config as another tool may have written it; None leaves a key out."""
    given = {k: v for k, v in (GOLDEN_CONFIG | keys).items() if v is not None}
    (tmp_path / "config.json").write_text(json.dumps(given))
    return read_run(tmp_path).config


@pytest.mark.seed("000", "config-15", "hash-1", "versions-5")
def test_golden_hash():
    assert contract_hash(golden()) == GOLDEN_HASH


@pytest.mark.seed("000", "hash-1", "versions-5")
def test_golden_payload():
    payload = contract_payload(golden())
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    assert text == GOLDEN_PAYLOAD


@pytest.mark.parametrize(
    ("path", "as_int", "as_float"),
    [
        ("sticky", 0, 0.0),
        ("scoring_defaults.bottom_k_frac", 1, 1.0),
        ("scoring_defaults.final_score_weights", [1, 0], [1.0, 0.0]),
    ],
)
def test_whole_numbers_are_hashed_as_floats(path, as_int, as_float):
    assert contract_hash(changed(path, as_int)) == contract_hash(
        changed(path, as_float)
    )


def test_zero_sticky_is_spelled_as_a_float():
    assert '"sticky": 0.0' in json.dumps(contract_payload(golden()))


@pytest.mark.seed("000", "hash-2..14")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("games", ["pong"]),
        ("games", ["breakout", "pong"]),
        ("schedule.0.visit_idx", 1),
        ("schedule.0.cycle_idx", 1),
        ("schedule.0.game_id", "pong"),
        ("schedule.0.visit_frames", 5),
        ("schedule", [*GOLDEN_CONFIG["schedule"], *GOLDEN_CONFIG["schedule"]]),
        ("decision_interval", 2),
        ("delay", 1),
        ("sticky", 0.25),
        ("life_loss_termination", True),
        ("full_action_space", True),
        ("action_mapping_policy.global_action_set", [0, 1, 2]),
        ("action_mapping_policy.global_action_set", [1, 0, 2, 3]),
        ("default_action_idx", 1),
        ("scoring_defaults.window_frames", 21),
        ("scoring_defaults.bottom_k_frac", 0.5),
        ("scoring_defaults.revisit_frames", 6),
        ("scoring_defaults.final_score_weights", [0.5, 0.25]),
        ("scoring_defaults.final_score_weights", [0.25, 0.5]),
    ],
)
def test_hashed_fields_change_the_hash(path, value):
    assert contract_hash(changed(path, value)) != contract_hash(golden())


@pytest.mark.seed("000", "config-1", "hash-2")
def test_order_of_games_changes_the_hash():
    assert contract_hash(changed("games", ["a", "b"])) != contract_hash(
        changed("games", ["b", "a"])
    )


@pytest.mark.seed("000", "hash-15..18")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("benchmark_contract_hash", "0" * 64),
        ("suite", "stream-smoke-v1"),
        ("track", "streaming"),
        ("seed", 7),
        ("emulator_seeds", [1]),
        ("rom_md5", {"breakout": "0" * 32}),
        ("rom_sha256", {"breakout": "0" * 64}),
        ("agent", {"config": {}, "agent_id": "x"}),
        ("versions", {"python": "3.11.0"}),
        ("git", {"commit": "0" * 40}),
        ("config_given", {"suite": "stream-smoke-v1", "overrides": {}}),
        ("config_effective", {"delay": 9}),
        ("run_dir", "/somewhere/else"),
        ("logdir", "/somewhere/else"),
        ("wallclock", 1.5),
        ("action_mapping_policy.note", "more"),
        ("scoring_defaults.note", "more"),
        # Additional keys do not change the contract, in schedule rows neither.
        ("schedule.0.start_frame", 0),
    ],
)
def test_other_fields_do_not_change_the_hash(path, value):
    assert contract_hash(changed(path, value)) == GOLDEN_HASH


# --- the control track ------------------------------------------------------------

CONTROL_HASH = "3b30a367da7b2b5ece4433961e860e78b0759b26b693be2873380deeb61e2b30"
CONTROL_KEYS: dict[str, Any] = {
    "games": ["pong"],
    "schedule": [
        {"visit_idx": 0, "cycle_idx": 0, "game_id": "pong", "visit_frames": 4}
    ],
    "sticky": 0.25,
    "full_action_space": True,
    "action_mapping_policy": {"global_action_set": list(range(18))},
    "benchmark_contract_version": "control-v1",
    "track": "control",
    "frame_skip": 4,
    "reward": "sign",
    "discount": 0.99,
}


def test_golden_control_hash(tmp_path):
    assert contract_hash(read_config(tmp_path, **CONTROL_KEYS)) == CONTROL_HASH


def test_control_suite_has_the_golden_hash():
    settings = {
        "games": ["pong"],
        "base_visit_frames": 4,
        "scoring_defaults": {"window_frames": 20, "revisit_frames": 5},
    }
    config = plan_run("control-v1", 0, settings).config
    assert config.benchmark_contract_hash == CONTROL_HASH


@pytest.mark.parametrize(
    ("key", "value"),
    [("frame_skip", 3), ("reward", "raw"), ("discount", 0.9), ("track", "streaming")],
)
def test_hash_of_a_control_run_covers_its_own_settings(tmp_path, key, value):
    config = read_config(tmp_path, **{**CONTROL_KEYS, key: value})
    assert contract_hash(config) != CONTROL_HASH


@pytest.mark.parametrize("key", ["track", "frame_skip", "reward", "discount"])
def test_control_run_without_its_own_settings_is_refused(tmp_path, key):
    expected = f"expected a {key}, which control-v1 requires"
    with pytest.raises(DocumentError, match=expected):
        read_config(tmp_path, **{**CONTROL_KEYS, key: None})


def test_whole_discount_is_hashed_as_a_float(tmp_path):
    config = read_config(tmp_path, **{**CONTROL_KEYS, "discount": 1})
    assert json.dumps(contract_payload(config)["discount"]) == "1.0"


def test_v1_run_of_another_tool_may_call_anything_a_reward(tmp_path):
    config = read_config(tmp_path, reward=[1, 2], frame_skip="four", discount=None)
    assert contract_hash(config) == GOLDEN_HASH


@pytest.mark.seed("000", "config-4")
@pytest.mark.parametrize(
    ("keys", "delay"),
    [
        ({"delay": 3}, 3),
        ({"delay": None, "delay_frames": 4}, 4),
        ({"delay": None, "runner_config": {"delay_frames": 5}}, 5),
        ({"delay": 3, "delay_frames": 4}, 4),
        ({"delay": 3, "runner_config": {"delay_frames": 5}}, 3),
        ({"delay": 3, "delay_frames": 4, "runner_config": {"delay_frames": 5}}, 4),
        ({"delay": None, "delay_frames": 0, "runner_config": {"delay_frames": 5}}, 0),
    ],
)
def test_delay_is_found_where_other_tools_put_it(tmp_path, keys, delay):
    config = read_config(tmp_path, **keys)
    assert config.delay == delay
    assert contract_payload(config)["delay_frames"] == delay


@pytest.mark.parametrize("runner_config", [None, {}, {"other": 1}, []])
def test_config_without_a_delay_is_refused(tmp_path, runner_config):
    with pytest.raises(DocumentError, match=r"config\.json delay"):
        read_config(tmp_path, delay=None, runner_config=runner_config)


def test_hash_survives_writing_and_reading(tmp_path):
    assert contract_hash(read_config(tmp_path)) == GOLDEN_HASH
