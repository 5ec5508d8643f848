"""`--set`, `--config` and seeds: what is refused, and what each of them says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from failing_runs import (
    SUITE,
)

pytestmark = pytest.mark.usefixtures("working_dir")


# --- Settings ---------------------------------------------------------------------

BAD_VALUES: dict[str, list[str]] = {
    "games": ["[]", '"qbert"', "[3]", "null", '[["qbert"]]', "{}"],
    "num_cycles": ["0", "-1", "1.5", '"2"', "true", "null"],
    "base_visit_frames": ["0", "-5", "100.0", '"100"', "true", "[100]"],
    "shuffle_games": ["1", '"yes"', "null"],
    "jitter_pct": ["-0.1", "1", "1.5", "NaN", "Infinity", '"0.1"', "true"],
    "min_visit_frames": ["0", "-1", "2.5", '"1"', "false"],
    "decision_interval": ["0", "-4", "4.0", '"4"', "true"],
    "delay": ["-1", "2.0", '"2"', "true", "null"],
    "sticky": ["-0.1", "1", "1.5", "NaN", "-Infinity", "1e999", '"0"', "true", "{}"],
    "full_action_space": ["1", "0", '"true"', "null"],
    "life_loss_termination": ["1", "0", '"false"', "null"],
    "default_action_idx": ["-1", "18", "0.0", '"NOOP"', "true"],
    "scoring_defaults.window_frames": ["0", "-1", "5.5", '"5"', "true"],
    "scoring_defaults.revisit_frames": ["0", "-1", "5.5", '"5"', "true"],
    "scoring_defaults.bottom_k_frac": ["0", "-0.1", "1.1", "NaN", '"1"', "true"],
    "scoring_defaults.final_score_weights": [
        "[0.5]",
        "[0.5, 0.5, 0.5]",
        "[-1, 1]",
        "[NaN, 1]",
        "[0.5, Infinity]",
        '["a", "b"]',
        "[true, false]",
        "0.5",
    ],
}


@pytest.mark.few(25)
@pytest.mark.parametrize(
    ("name", "text"),
    [(name, text) for name, texts in BAD_VALUES.items() for text in texts],
)
def test_setting_out_of_range(name: str, text: str, refuse: Callable[..., str]) -> None:
    message = refuse("run", SUITE, "--agent", "random", "--set", f"{name}={text}")
    assert name in message


def test_every_setting_has_bad_values() -> None:
    from longplay.suites import SUITES

    settings = SUITES[SUITE].settings
    scoring = settings.pop("scoring_defaults")
    names = [*settings, *(f"scoring_defaults.{name}" for name in scoring)]
    assert set(BAD_VALUES) == set(names)


def test_value_that_was_found_is_named(refuse: Callable[..., str]) -> None:
    message = refuse("run", SUITE, "--agent", "random", "--set", "delay=-7")
    assert "delay: " in message
    assert "at least 0, found -7" in message


BAD_SETTINGS = [
    ("delya=2", ("unknown setting 'delya'", "'delay'")),
    ("window_frames=5", ("unknown setting 'window_frames'", "scoring_defaults.")),
    ("seed=3", ("unknown setting 'seed'",)),
    ("suite_id=3", ("unknown setting 'suite_id'",)),
    ("scoring_defaults=3", ("unknown setting 'scoring_defaults'",)),
    ("scoring_defaults.x=3", ("unknown setting 'scoring_defaults.x'",)),
    ("games.x=3", ("unknown setting 'games.x'",)),
    ("delay", ("--set: expected key=value, found 'delay'",)),
    ("=3", ("--set: expected key=value, found '=3'",)),
    ("delay=", ("--set delay: expected a JSON value, found ''",)),
    ("delay=two", ("--set delay: expected a JSON value, found 'two'",)),
    ("games=qbert", ("--set games: expected a JSON value", 'games=["qbert"]')),
    ('games=["qbert"', ("--set games: expected a JSON value",)),
    ('games=["qbert","pong","qbert"]', ("no duplicates, found 'qbert' twice",)),
]


@pytest.mark.parametrize(("setting", "fragments"), BAD_SETTINGS)
def test_bad_setting(
    setting: str, fragments: tuple[str, ...], refuse: Callable[..., str]
) -> None:
    message = refuse("run", SUITE, "--agent", "random", "--set", setting)
    for fragment in fragments:
        assert fragment in message


def test_bad_setting_is_refused_in_a_dry_run_too(refuse: Callable[..., str]) -> None:
    assert "delay: " in refuse("run", SUITE, "--dry-run", "--set", "delay=-1")


@pytest.mark.parametrize("seed", [-1, 2**31, 2**64])
def test_seed_out_of_range(seed: int, refuse: Callable[..., str]) -> None:
    message = refuse("run", SUITE, "--agent", "random", "--seed", seed)
    assert f"seed: expected 0 … 2147483647, found {seed}" in message


@pytest.mark.parametrize("seed", ["1.5", "one", ""])
def test_seed_must_be_an_int(
    seed: str, invoke: Callable[..., Any], working_dir: Path
) -> None:
    answer = invoke("run", SUITE, "--agent", "random", "--seed", seed)
    assert answer.exit_code == 2
    assert "--seed" in answer.stderr
    assert list(working_dir.iterdir()) == []


# --- --config ---------------------------------------------------------------------


def dry_run(invoke: Callable[..., Any], *args: object) -> Any:
    answer = invoke("run", SUITE, "--dry-run", "--json", *args)
    assert answer.exit_code == 0, answer.stdout
    return answer.json


GOOD_CONFIGS = {
    "nested.toml": (
        'games = ["pong"]\nnum_cycles = 1\nbase_visit_frames = 77\njitter_pct = 0\n'
        "[scoring_defaults]\nwindow_frames = 9\n"
    ),
    "nested.json": (
        '{"games": ["pong"], "num_cycles": 1, "base_visit_frames": 77,'
        ' "jitter_pct": 0, "scoring_defaults": {"window_frames": 9}}'
    ),
    "dotted.json": (
        '{"games": ["pong"], "num_cycles": 1, "base_visit_frames": 77,'
        ' "jitter_pct": 0, "scoring_defaults.window_frames": 9}'
    ),
}
AS_SETTINGS = (
    *("--set", 'games=["pong"]', "--set", "num_cycles=1", "--set", "jitter_pct=0"),
    *("--set", "base_visit_frames=77", "--set", "scoring_defaults.window_frames=9"),
)
PONG_VISIT = {"visit_idx": 0, "cycle_idx": 0, "game_id": "pong", "visit_frames": 77}


@pytest.mark.parametrize("name", GOOD_CONFIGS)
def test_config_file_says_the_same_as_settings(
    name: str, invoke: Callable[..., Any], working_dir: Path
) -> None:
    path = working_dir / name
    path.write_text(GOOD_CONFIGS[name])
    plan = dry_run(invoke, "--config", path)
    assert plan["schedule"] == [PONG_VISIT]
    assert plan == dry_run(invoke, *AS_SETTINGS)


@pytest.mark.parametrize("name", GOOD_CONFIGS)
def test_set_wins_over_config(
    name: str, invoke: Callable[..., Any], working_dir: Path
) -> None:
    path = working_dir / name
    path.write_text(GOOD_CONFIGS[name])
    other = (
        "--set",
        "base_visit_frames=55",
        "--set",
        "scoring_defaults.window_frames=8",
    )
    plan = dry_run(invoke, "--config", path, *other)
    assert plan["schedule"] == [{**PONG_VISIT, "visit_frames": 55}]
    assert plan == dry_run(invoke, *AS_SETTINGS, *other)


BAD_CONFIGS = [
    ("bad.toml", "delay = ", "bad.toml"),
    ("bad.toml", "delay = 1\ndelay = 2\n", "bad.toml"),
    ("bad.toml", "delay = -1\n", "delay: "),
    ("bad.toml", "sticky = nan\n", "sticky"),
    ("bad.toml", "delay = 2020-01-01\n", "delay"),
    ("bad.toml", "delya = 2\n", "unknown setting 'delya'; did you mean 'delay'"),
    ("bad.toml", "[scoring]\nwindow_frames = 2\n", "'scoring.window_frames'"),
    ("bad.toml", b"delay = 2 # \xff\n", "bad.toml"),
    ("bad.json", '{"delay": 2', "bad.json"),
    ("bad.json", '{"delay": 1, "delay": 2}', "key 'delay' appears twice"),
    ("bad.json", '{"sticky": NaN}', "NaN is not JSON"),
    ("bad.json", "[1]", "bad.json: expected a JSON object at the top"),
    ("bad.json", "", "bad.json"),
    ("bad.json", '{"delay": "2"}', "delay: "),
    ("bad.json", '{"sticky": {}}', "sticky"),
    ("bad.yaml", "delay: 2", "expected a file ending in .toml or .json"),
    ("bad", "delay: 2", "expected a file ending in .toml or .json"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_CONFIGS)
def test_bad_config_file(
    name: str, content: str | bytes, message: str, refuse: Callable[..., str]
) -> None:
    raw = content if isinstance(content, bytes) else content.encode()
    Path(name).write_bytes(raw)
    found = refuse("run", SUITE, "--agent", "random", "--config", name)
    assert message in found


@pytest.mark.parametrize("name", ["missing.toml", "missing.json"])
def test_missing_config_file(name: str, refuse: Callable[..., str]) -> None:
    message = refuse("run", SUITE, "--agent", "random", "--config", name)
    assert f"--config {name}: " in message


# --- the list of settings -----------------------------------------------------------


def test_settings_of_a_suite_are_listed(invoke):
    rows = {
        row["setting"]: row for row in invoke("settings", "control-v1", "--json").json
    }
    assert len(rows) == 19
    assert rows["sticky"]["expected"] == "number ≥ 0, < 1"
    assert rows["base_visit_frames"]["value"] == 10_000
    assert rows["base_visit_frames"]["expected"] == "int ≥ 1"
    assert rows["games"]["expected"] == "list of text"
    assert rows["reward"]["expected"] == '"raw", "sign"'
    weights = rows["scoring_defaults.final_score_weights"]
    assert weights["expected"] == "2 × number ≥ 0"
    assert all(row["description"] for row in rows.values())
    assert "scoring_defaults.window_frames" in invoke("settings", "control-v1").stdout


def test_every_listed_setting_can_be_set(invoke):
    for row in invoke("settings", "stream-smoke-v1", "--json").json:
        pair = f"{row['setting']}={json.dumps(row['value'])}"
        assert (
            invoke("run", "stream-smoke-v1", "--dry-run", "--set", pair).exit_code == 0
        )


def test_settings_that_references_fix_are_marked(invoke):
    rows = invoke("settings", "prediction-v1", "--json").json
    free = {row["setting"] for row in rows if row["can_be_changed"]}
    assert free == {"games", "base_visit_frames"}
    assert "fixed" in invoke("settings", "prediction-v1").stdout


def test_order_of_games_can_be_drawn_with_the_seed(invoke):
    def plan(seed: int, *options: str) -> dict[str, Any]:
        words = ("run", "control-smoke-v1", "--dry-run", "--json", "--seed", seed)
        return invoke(*words, *options).json

    usual = plan(1000)
    shuffled = [plan(seed, "--shuffle-games") for seed in (1000, 1001, 1002)]
    orders = {tuple(v["game_id"] for v in drawn["schedule"]) for drawn in shuffled}
    assert len(orders) > 1
    assert {tuple(sorted(order)) for order in orders} == {tuple(sorted(usual["games"]))}
    assert shuffled[0]["suite"].startswith("control-smoke-v1+")
    assert len({drawn["suite"] for drawn in shuffled}) == 1
    kept = plan(1000, "--no-shuffle-games")
    assert (kept["suite"], kept["schedule"]) == (usual["suite"], usual["schedule"])
    assert plan(1000, "--set", "shuffle_games=true") == shuffled[0]


# --- config files of the first implementation of contract v1 --------------------

THEIR_CONFIG = {
    "games": "pong, qbert",
    "num_cycles": 2,
    "base_visit_frames": 300,
    "jitter_pct": 0.0,
    "min_visit_frames": 1,
    "seed": 3,
    "decision_interval": 2,
    "delay_frames": None,
    "sticky": 0.25,
    "full_action_space": True,
    "life_loss_termination": False,
    "agent": "theirs",
    "agent_config": {"lr": 0.1},
    "default_action_idx": 0,
    "timestamps": True,
    "logdir": "runs",
    "runner_config": {"delay_frames": 5, "include_timestamps": True},
    "scoring_defaults": {
        "window_frames": 50,
        "bottom_k_frac": 0.5,
        "revisit_frames": 20,
        "final_score_weights": [0.25, 0.75],
    },
}


def test_their_config_file_is_read_and_the_rest_is_listed(invoke, tmp_path):
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps(THEIR_CONFIG))
    answer = invoke("run", "stream-smoke-v1", "--config", path, "--dry-run", "--json")
    assert answer.exit_code == 0, answer.stderr
    words = " ".join(answer.stderr.split())
    ignored = "seed, agent, agent_config, timestamps, logdir, runner_config"
    assert f"--config: ignored {ignored}, which are not settings of a suite" in words
    plan = answer.json
    assert plan["games"] == ["pong", "qbert"]
    assert (plan["decision_interval"], plan["delay"]) == (2, 5)
    assert plan["scoring_defaults"]["final_score_weights"] == [0.25, 0.75]


def test_misspelt_key_of_their_config_file_is_refused(invoke, tmp_path):
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps({**THEIR_CONFIG, "num_cycle": 3}))
    answer = invoke("run", "stream-smoke-v1", "--config", path, "--dry-run")
    assert answer.exit_code == 2
    assert "num_cycle" in answer.stderr
