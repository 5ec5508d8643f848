"""The catalogue, row by row, and which settings can be overridden."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from longplay.errors import ConfigError, UnknownNameError
from longplay.suites import SUITES, flatten_settings, get_suite, override_suite

THREE = ["centipede", "ms_pacman", "qbert"]
EIGHT = [
    "ms_pacman",
    "centipede",
    "qbert",
    "defender",
    "krull",
    "atlantis",
    "up_n_down",
    "battle_zone",
]
SMOKE = get_suite("stream-smoke-v1")
NAMES = (
    "games",
    "num_cycles",
    "base_visit_frames",
    "decision_interval",
    "delay",
    "jitter_pct",
    "min_visit_frames",
    "window_frames",
    "revisit_frames",
)
TABLE = {
    "stream-smoke-v1": (THREE, 2, 2_000, 4, 2, 0.05, 1, 500, 200),
    "stream-3x2-v1": (THREE, 2, 200_000, 4, 6, 0.07, 1, 5_000, 2_000),
    "stream-8x3-v1": (EIGHT, 3, 200_000, 4, 6, 0.07, 20_000, 5_000, 2_000),
    "stream-8x3-1m-v1": (EIGHT, 3, 1_000_000, 1, 0, 0.0, 1, 5_000, 2_000),
}
IN_ALL = {
    "sticky": 0.25,
    "full_action_space": True,
    "life_loss_termination": False,
    "default_action_idx": 0,
}


@pytest.mark.parametrize("suite_id", TABLE)
def test_suite_matches_the_table(suite_id):
    row = dict(zip(NAMES, TABLE[suite_id], strict=True))
    scoring = {
        "window_frames": row.pop("window_frames"),
        "bottom_k_frac": 0.25,
        "revisit_frames": row.pop("revisit_frames"),
        "final_score_weights": [0.5, 0.5],
    }
    assert get_suite(suite_id).settings == {
        "shuffle_games": True,
        **row,
        **IN_ALL,
        "scoring_defaults": scoring,
    }


TWENTY = (
    "pong breakout space_invaders ms_pacman asterix qbert seaquest beam_rider phoenix "
    "atlantis asteroids battle_zone centipede demon_attack enduro fishing_derby "
    "ice_hockey jamesbond kangaroo road_runner"
).split()
SIX = "breakout qbert road_runner ms_pacman seaquest asterix".split()
THREE_CONTROL = "qbert crazy_climber road_runner".split()
CONTROL_TABLE = {
    "control-3x3-v1": (THREE_CONTROL, 3, 15_000, 2_000, 1_000),
    "prediction-6x3-v1": (SIX, 3, 5_000, 2_000, 1_000),
    "control-v1": (TWENTY, 1, 10_000, 2_000, 1_000),
    "control-6x3-v1": (SIX, 3, 20_000, 2_000, 1_000),
    "control-smoke-v1": (TWENTY[:3], 1, 500, 200, 100),
}


@pytest.mark.seed("003", "intro-1", "intro-4", "intro-6")
@pytest.mark.parametrize("suite_id", CONTROL_TABLE)
def test_control_suite_matches_the_specification(suite_id):
    games, num_cycles, visit_frames, window_frames, revisit_frames = CONTROL_TABLE[
        suite_id
    ]
    suite = get_suite(suite_id)
    assert suite.track == suite_id.partition("-")[0]
    assert suite.official_seeds == (0, 1, 2, 3, 4)
    assert suite.settings == {
        "games": games,
        "num_cycles": num_cycles,
        "base_visit_frames": visit_frames,
        "decision_interval": 1,
        "delay": 0,
        "jitter_pct": 0.0,
        "min_visit_frames": 1,
        "shuffle_games": suite_id in ("control-3x3-v1", "prediction-6x3-v1"),
        **IN_ALL,
        "frame_skip": 4,
        "reward": "sign",
        "discount": 0.99,
        "scoring_defaults": {
            "window_frames": window_frames,
            "bottom_k_frac": 0.25,
            "revisit_frames": revisit_frames,
            "final_score_weights": [0.5, 0.5],
        },
    }


@pytest.mark.seed("003", "intro-1")
@pytest.mark.parametrize("shape", ["", "-smoke"])
def test_prediction_suites_have_the_settings_of_control_suites(shape):
    control, prediction = (
        get_suite(f"{track}{shape}-v1") for track in ("control", "prediction")
    )
    assert prediction.settings == control.settings
    assert (prediction.track, prediction.shuffle_games) == ("prediction", False)


def test_suites_know_their_ids():
    assert {suite_id: suite.suite_id for suite_id, suite in SUITES.items()} == {
        suite_id: suite_id for suite_id in SUITES
    }


def test_unknown_suite_names_close_ones():
    with pytest.raises(UnknownNameError, match="did you mean 'stream-smoke-v1'") as e:
        get_suite("stream-smok-v1")
    assert "stream-smoke-v1" in e.value.matches


# --- immutability ---------------------------------------------------------------


def test_suite_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        get_suite("stream-smoke-v1").delay = 0


def test_scoring_of_a_suite_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        get_suite("stream-smoke-v1").scoring_defaults.window_frames = 1


def test_settings_are_a_copy():
    settings = get_suite("stream-smoke-v1").settings
    settings["games"].append("pong")
    settings["scoring_defaults"]["window_frames"] = 1
    assert get_suite("stream-smoke-v1").settings["games"] == THREE
    assert get_suite("stream-smoke-v1").scoring_defaults.window_frames == 500


def test_overriding_does_not_change_the_catalogue():
    changed = override_suite(get_suite("stream-smoke-v1"), {"delay": 5})
    assert changed.delay == 5
    assert get_suite("stream-smoke-v1").delay == 2


# --- overrides ------------------------------------------------------------------


def test_flatten_makes_dotted_names():
    nested = {"delay": 1, "scoring_defaults": {"window_frames": 5}}
    assert flatten_settings(SMOKE, nested) == {
        "delay": 1,
        "scoring_defaults.window_frames": 5,
    }


def test_flatten_keeps_dotted_names():
    dotted = {"scoring_defaults.bottom_k_frac": 0.5}
    assert flatten_settings(SMOKE, dotted) == dotted


def test_dotted_and_nested_mean_the_same():
    suite = get_suite("stream-smoke-v1")
    dotted = override_suite(suite, {"scoring_defaults.window_frames": 9})
    nested = override_suite(suite, {"scoring_defaults": {"window_frames": 9}})
    assert dotted == nested
    assert dotted.scoring_defaults.window_frames == 9
    assert dotted.scoring_defaults.revisit_frames == 200


@pytest.mark.parametrize(
    ("setting", "close"),
    [
        ("dealy", "delay"),
        ("window_frames", "scoring_defaults.window_frames"),
        ("scoring_defaults.window_frame", "scoring_defaults.window_frames"),
    ],
)
def test_unknown_setting_names_close_ones(setting, close):
    with pytest.raises(UnknownNameError, match="unknown setting") as caught:
        flatten_settings(SMOKE, {setting: 1})
    assert close in caught.value.matches


@pytest.mark.parametrize("name", ["frame_skip", "reward", "discount"])
def test_streaming_suite_has_no_settings_of_the_control_track(name):
    with pytest.raises(UnknownNameError, match=f"unknown setting '{name}'"):
        override_suite(SMOKE, {name: 1})


CONTROL_REFUSED = [
    ("frame_skip", 0, "at least 1"),
    ("frame_skip", 4.0, "frame_skip: "),
    ("reward", "clipped", "'raw' or 'sign'"),
    ("reward", None, "reward: "),
    ("discount", 1.01, "at most 1"),
    ("discount", -0.1, "at least 0"),
]


@pytest.mark.parametrize(("name", "value", "message"), CONTROL_REFUSED)
def test_control_values_out_of_range_are_refused(name, value, message):
    with pytest.raises(ConfigError) as caught:
        override_suite(get_suite("control-v1"), {name: value})
    assert message in str(caught.value)


def test_control_values_can_be_overridden():
    suite = override_suite(get_suite("control-v1"), {"reward": "raw", "frame_skip": 1})
    assert (suite.track, suite.reward, suite.frame_skip) == ("control", "raw", 1)


@pytest.mark.parametrize("name", ["seed", "suite_id", "track", "purpose"])
def test_unknown_settings_cannot_be_overridden(name):
    with pytest.raises(UnknownNameError, match=f"unknown setting '{name}'"):
        override_suite(get_suite("stream-smoke-v1"), {name: "x"})


REFUSED = [
    ("games", [], "at least 1 item"),
    ("games", ["qbert", "qbert"], "'qbert' twice"),
    ("games", ["qbrt"], "did you mean 'qbert'"),
    ("games", ["joust"], "for two players only"),
    ("games", ["pooyan"], "220 lines high"),
    ("games", "qbert", "games: "),
    ("games", [1], "games.0: "),
    ("num_cycles", 0, "at least 1"),
    ("base_visit_frames", 0, "at least 1"),
    ("base_visit_frames", 1.0, "base_visit_frames: "),
    ("base_visit_frames", True, "base_visit_frames: "),
    ("base_visit_frames", "7", "found '7'"),
    ("min_visit_frames", 0, "at least 1"),
    ("jitter_pct", -0.01, "at least 0"),
    ("jitter_pct", 1.0, "less than 1"),
    ("jitter_pct", math.nan, "JSON"),
    ("decision_interval", 0, "at least 1"),
    ("delay", -1, "at least 0"),
    ("delay", None, "found None"),
    ("sticky", -0.1, "at least 0"),
    ("sticky", 1, "less than 1"),
    ("full_action_space", 1, "full_action_space: "),
    ("life_loss_termination", "yes", "life_loss_termination: "),
    ("default_action_idx", -1, "at least 0"),
    ("default_action_idx", 18, "less than 18"),
    ("scoring_defaults.window_frames", 0, "at least 1"),
    ("scoring_defaults.revisit_frames", 0, "at least 1"),
    ("scoring_defaults.bottom_k_frac", 0, "more than 0"),
    ("scoring_defaults.bottom_k_frac", 1.01, "at most 1"),
    ("scoring_defaults.final_score_weights", [1.0], "final_score_weights"),
    ("scoring_defaults.final_score_weights", [-0.5, 1], "at least 0"),
    ("scoring_defaults.final_score_weights", [math.inf, 1], "JSON"),
]


@pytest.mark.seed("000", "config-11")
@pytest.mark.parametrize(("name", "value", "message"), REFUSED)
def test_values_out_of_range_are_refused(name, value, message):
    with pytest.raises(ConfigError) as caught:
        override_suite(get_suite("stream-smoke-v1"), {name: value})
    assert message in str(caught.value)


ACCEPTED = [
    ("jitter_pct", 0.99),
    ("delay", 0),
    ("sticky", 0),
    ("default_action_idx", 17),
    ("min_visit_frames", 1_000_000),
    ("games", ["pong"]),
    ("scoring_defaults.bottom_k_frac", 1),
    ("scoring_defaults.final_score_weights", [0, 2.5]),
]


@pytest.mark.parametrize(("name", "value"), ACCEPTED)
def test_values_at_the_ends_of_their_range_are_accepted(name, value):
    suite = override_suite(get_suite("stream-smoke-v1"), {name: value})
    assert flatten_settings(SMOKE, suite.settings)[name] == value
