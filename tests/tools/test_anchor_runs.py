"""Runs of anchors -> anchors, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anchor_runs import measure_suite
from longplay.errors import ConfigError
from longplay.lab.analysis.runs import MeasuredRun, RunReader
from references.training.anchor_facts import AnchorFacts, AnchorVisit
from written_runs import SHORT, make_config, write_run

GOLDEN = Path(__file__).parents[1] / "golden"


def read(path: Path) -> tuple[MeasuredRun, ...]:
    return RunReader().read([path]).runs


@pytest.fixture
def randoms(tmp_path: Path) -> tuple[MeasuredRun, ...]:
    """Rate 1 in run 0 and 3 in run 2, but 0 in the first tenth of each visit."""
    for seed, reward in ((0, 1.0), (2, 3.0)):
        rewards = np.where(np.arange(360) % 60 < 6, 0.0, reward * 60 / 54)
        config = make_config(seed=seed, agent="random")
        write_run(tmp_path / "random" / str(seed), config, rewards)
    return read(tmp_path / "random")


def test_streaming_anchors_by_hand(tmp_path, randoms):
    """A specialist that gets 0, 0 and then 6 per frame in thirds of its run."""
    overrides = {**SHORT, "games": ["qbert"], "num_cycles": 1}
    for seed in (5, 6):
        config = make_config(seed=seed, overrides=overrides, agent="specialist")
        rewards = [0.0] * 40 + [6.0 + seed] * 20
        write_run(tmp_path / "special" / str(seed), config, rewards)
    found = measure_suite(randoms, read(tmp_path / "special"))
    assert (found.random_seeds, found.upper_seeds) == ((0, 2), (5, 6))
    assert found.versions == {"longplay": "0.1.0", "ale_py": "0.12.1"}
    qbert = found.games["qbert"]
    assert qbert.lower == pytest.approx(2.0)
    assert qbert.lower_error == pytest.approx(1.0)
    assert (qbert.upper, qbert.upper_source) == (11.5, "specialist")
    # The last tenth pays 60 / 54 of the rate, the first one nothing.
    losses = []
    for run, rate in zip(randoms, (1.0, 3.0), strict=True):
        first, second = (
            v.visit_idx for v in run.config.schedule if v.game_id == "qbert"
        )
        losses += [rate * 60 / 54] if second > first + 1 else []
    assert qbert.random_forgetting == pytest.approx(sum(losses) / len(losses))
    assert found.games["centipede"].upper is None


def test_control_anchors_take_the_policies_of_prediction_runs(tmp_path):
    """The golden prediction run: 23 and 15 points in 640 timesteps."""
    overrides = {"games": ["space_invaders", "breakout"], "base_visit_frames": 60}
    config = make_config("control-smoke-v1", 0, overrides, "random")
    write_run(tmp_path / "run", config, [0.01] * 120)
    found = measure_suite(read(tmp_path), read(GOLDEN / "prediction-v1"))
    assert found.games["space_invaders"].upper == pytest.approx(23 / 640)
    assert found.games["breakout"].upper == pytest.approx(15 / 640)
    assert found.games["breakout"].upper_source == "reference policy"
    assert found.games["breakout"].random_forgetting is None


def test_runs_that_do_not_fit_are_refused(randoms):
    with pytest.raises(ConfigError, match="expected runs of one suite, found none"):
        measure_suite((), ())
    with pytest.raises(ConfigError, match="expected a run of one game with its rows"):
        measure_suite(randoms, randoms)
    with pytest.raises(ConfigError, match="found 4 runs of random on 2 seeds"):
        measure_suite((*randoms, *randoms), ())
    with pytest.raises(ConfigError, match="expected one run per seed, found 2 of"):
        measure_suite(randoms, (*randoms[:1], *randoms[:1]))
    both = (*randoms, *read(GOLDEN / "prediction-v1"))
    with pytest.raises(ConfigError, match="or of specialists, found both"):
        measure_suite(randoms, both)


def test_upper_runs_under_other_rules_are_refused(tmp_path, randoms):
    alone = {**SHORT, "games": ["qbert"], "num_cycles": 1}
    changed = {"delay": 9, "sticky": 0.0, "full_action_space": False}
    for name, value in changed.items():
        config = make_config(overrides={**alone, name: value}, agent="specialist")
        write_run(tmp_path / name, config, [1.0] * 60)
        with pytest.raises(ConfigError, match=f"{name}: expected .*, as in the random"):
            measure_suite(randoms, read(tmp_path / name))
    with pytest.raises(ConfigError, match=r"frame_skip: expected None, .*, found 4"):
        measure_suite(randoms, read(GOLDEN / "prediction-v1"))


def test_upper_runs_of_two_agents_are_refused(tmp_path, randoms):
    alone = {**SHORT, "games": ["qbert"], "num_cycles": 1}
    for seed, agent in enumerate(("one", "two")):
        config = make_config(seed=seed, overrides=alone, agent=agent)
        write_run(tmp_path / "special" / agent, config, [1.0] * 60)
    with pytest.raises(ConfigError, match="expected runs of one agent, found one, two"):
        measure_suite(randoms, read(tmp_path / "special"))


def make_policy(rates: list[float], **changes: object) -> AnchorFacts:
    facts = {
        "game": "qbert",
        "suite": "stream-smoke-v1",
        "policy_sha256": "0" * 64,
        "actions": (0, 1),
        "exploration": 0.02,
        "recipe": {},
        "versions": {"longplay": "0.1.0", "ale_py": "0.12.1"},
        "visits": [
            AnchorVisit(seed=seed, frames=100, reward_sum=100 * rate)
            for seed, rate in enumerate(rates)
        ],
    }
    return AnchorFacts.model_validate(facts | changes, strict=False)


def test_anchor_policies_by_hand(randoms):
    """Three visits at 4, 5 and 6 per frame: 5, with a standard error of 1/√3."""
    found = measure_suite(randoms, (), [make_policy([4.0, 5.0, 6.0])])
    qbert = found.games["qbert"]
    assert (qbert.upper, qbert.upper_source) == (5.0, "anchor policy")
    assert qbert.upper_error == pytest.approx(1 / 3**0.5)
    assert found.upper_seeds == (0, 1, 2)
    assert found.games["centipede"].upper is None


def test_an_anchor_policy_under_other_rules_is_refused(randoms):
    other = make_policy([4.0], suite="control-3x3-v1")
    with pytest.raises(ConfigError, match=r"qbert: frame_skip: expected None, .* 4"):
        measure_suite(randoms, (), [other])
    other = make_policy([4.0], versions={"ale_py": "0.11.0"})
    with pytest.raises(ConfigError, match=r"ale_py: expected 0\.12\.1, .*0\.11\.0"):
        measure_suite(randoms, (), [other])


def test_explore_only_is_a_second_line(tmp_path, randoms):
    for seed, rate in ((0, 2.0), (2, 5.0)):
        config = make_config(seed=seed, agent="explore-only")
        write_run(tmp_path / "explore" / str(seed), config, [rate] * 360)
    found = measure_suite(randoms, (), (), read(tmp_path / "explore"))
    assert found.games["qbert"].explore_only == pytest.approx(3.5)
    assert found.games["qbert"].lower == pytest.approx(2.0)
    assert measure_suite(randoms, ()).games["qbert"].explore_only is None
    with pytest.raises(ConfigError, match="one run per seed of `explore-only`, found"):
        measure_suite(randoms, (), (), randoms)
