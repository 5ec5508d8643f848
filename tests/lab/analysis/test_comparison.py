"""Comparisons: by hand, against a slow implementation, and on luck alone."""

from __future__ import annotations

import json
import shutil
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generated_runs import edit, make_score, make_status, write
from longplay.contract.documents import Score
from longplay.contract.files import read_document, write_document
from longplay.contract.fingerprint import agent_id
from longplay.errors import UnknownNameError
from longplay.lab.analysis import baselines
from longplay.lab.analysis.agent_arrays import AgentArrays
from longplay.lab.analysis.comparison import Request, compare
from longplay.lab.analysis.intervals import t_quantile
from longplay.lab.analysis.measures import VisitTotals
from longplay.lab.analysis.records import Comparison, SuiteComparison
from longplay.lab.analysis.results import Results
from longplay.lab.analysis.runs import (
    AgentKey,
    Conditions,
    FoundRuns,
    MeasuredRun,
    RunReader,
)
from longplay.scoring.anchors import Anchors
from longplay.scoring.prediction_baselines import (
    MeasuredError,
    MeasuredErrors,
    PredictorBaseline,
)
from made_up_anchors import NO_ANCHORS, make_anchors, make_game
from results import record_result
from written_runs import (
    SHORT,
    VERSIONS,
    make_config,
    name_short_suite,
    write_run,
)

GOLDEN = Path(__file__).parents[2] / "golden"
SUITE = name_short_suite()
ANCHORS = make_anchors(
    SUITE, centipede=make_game(), ms_pacman=make_game(), qbert=make_game()
)


def write_agent(
    folder: Path, name: str, rewards: dict[int, Any], **config: Any
) -> Path:
    """Runs of an agent: seed -> reward per frame, one number or one per frame."""
    for seed, given_rewards in rewards.items():
        run_config = make_config(seed=seed, agent=name, **config)
        per_frame = np.broadcast_to(given_rewards, run_config.total_frames)
        write_run(folder / name / str(seed), run_config, per_frame)
    return folder / name


def compare_all(path: Path, anchors: Anchors = ANCHORS, **request: Any) -> Comparison:
    return compare(RunReader().read([path]), Request(anchors, **request))


def compare_one(path: Path, *args: Any, **request: Any) -> SuiteComparison:
    (suite,) = compare_all(path, *args, **request).suites
    return suite


def test_two_agents_by_hand(tmp_path):
    """z of alpha: 0.5, 1, 1.5; of beta: 0, 0.5, 1. Beta is always ½ behind."""
    write_agent(tmp_path, "alpha", {0: 2.0, 1: 3.0, 2: 4.0})
    write_agent(tmp_path, "beta", {0: 1.0, 1: 2.0, 2: 3.0})
    suite = compare_one(tmp_path)
    alpha, beta = suite.agents
    assert (suite.suite, suite.lead, suite.versus) == (SUITE, "average", "alpha")
    assert suite.games_without_z == {}
    for name in ("average", "median", "final"):
        assert alpha.numbers[name].mean == pytest.approx(1.0)
        assert beta.numbers[name].mean == pytest.approx(0.5)
    half_width = t_quantile(2) * 0.5 / 3**0.5
    assert alpha.numbers["average"].half_width == pytest.approx(half_width)
    # max(0, 1 - z): ½, 0, 0.
    assert alpha.numbers["optimality_gap"].mean == pytest.approx(0.5 / 3)
    assert alpha.per_run["average"] == pytest.approx((0.5, 1.0, 1.5))
    assert alpha.numbers["retention"].mean == 0.0
    # Nothing is lost, and random loses 0.2 by resets alone: -0.2 / 2.
    assert alpha.numbers["change_at_revisit"].mean == pytest.approx(-0.1)
    assert alpha.numbers["recovery"].mean == pytest.approx(0.2)
    assert (alpha.difference, alpha.improvement) == (None, None)
    assert beta.difference is not None
    assert beta.difference.mean == pytest.approx(-0.5)
    assert (beta.difference.n, beta.difference.method) == (3, "paired t")
    assert beta.difference.excludes_zero
    # Of 9 pairs beta wins 1, and 2 are ties.
    assert beta.improvement is not None
    assert beta.improvement.mean == pytest.approx(2 / 9)
    assert alpha.games["qbert"]["rate"].mean == pytest.approx(3.0)
    assert alpha.games["qbert"]["average"].mean == pytest.approx(1.0)


def test_profile_by_hand(tmp_path):
    write_agent(tmp_path, "alpha", {0: 2.0, 1: 3.0, 2: 4.0})
    profile = compare_one(tmp_path).agents[0].profile
    assert profile is not None
    share = dict(zip(profile.thresholds, profile.shares, strict=True))
    assert share[0.5].mean == 1.0
    assert share[0.55].mean == pytest.approx(2 / 3)
    assert share[1.5].mean == pytest.approx(1 / 3)
    assert all(0 <= s.low <= s.mean <= s.high <= 1 for s in profile.shares)


def test_without_anchors_numbers_are_absent_with_a_reason(tmp_path):
    write_agent(tmp_path, "alpha", {0: 2.0, 1: 3.0, 2: 4.0})
    write_agent(tmp_path, "beta", {0: 1.0, 1: 2.0, 2: 3.0})
    suite = compare_one(tmp_path, NO_ANCHORS)
    alpha, beta = suite.agents
    assert set(alpha.numbers) == {"headline"}
    assert alpha.absent["average"] == "no game of this suite has z"
    assert alpha.profile is None
    assert suite.lead == "headline"
    assert suite.games_without_z["qbert"] == (f"anchors-1 has no anchors for {SUITE}")
    assert beta.difference is not None
    assert beta.difference.mean == pytest.approx(-1.0)
    # Ranks need no anchors.
    assert beta.improvement is not None
    assert beta.improvement.mean == pytest.approx(2 / 9)


def test_games_without_z_are_left_out_of_aggregates(tmp_path):
    write_agent(tmp_path, "alpha", {0: 3.0})
    anchors = make_anchors(SUITE, qbert=make_game(), centipede=make_game(upper=1.5))
    suite = compare_one(tmp_path, anchors)
    assert set(suite.games_without_z) == {"centipede", "ms_pacman"}
    assert suite.agents[0].numbers["average"].mean == 1.0
    assert "average" not in suite.agents[0].games["centipede"]
    assert suite.agents[0].games["centipede"]["rate"].mean == 3.0


def test_other_agent_can_be_the_measure(tmp_path):
    write_agent(tmp_path, "alpha", {0: 2.0, 1: 3.0, 2: 4.0})
    write_agent(tmp_path, "beta", {0: 1.0, 1: 2.0, 2: 3.0})
    suite = compare_one(tmp_path, versus="beta")
    assert suite.versus == "beta"
    assert suite.agents[0].difference is not None
    assert suite.agents[0].difference.mean == pytest.approx(0.5)
    assert suite.agents[1].difference is None
    with pytest.raises(UnknownNameError, match="did you mean 'beta'"):
        compare_all(tmp_path, versus="betta")


def test_suites_get_tables_of_their_own(tmp_path):
    write_agent(tmp_path / "a", "alpha", {0: 2.0})
    write_agent(
        tmp_path / "b",
        "alpha",
        {0: 2.0},
        suite="stream-smoke-v1",
        overrides={**SHORT, "delay": 3},
    )
    found = compare_all(tmp_path)
    assert len(found.suites) == 2
    assert compare_one(tmp_path, suite=SUITE).suite == SUITE
    with pytest.raises(UnknownNameError, match="unknown suite among the runs 'pong'"):
        compare_all(tmp_path, suite="pong")


def test_different_seeds_are_noted(tmp_path):
    write_agent(tmp_path, "alpha", {0: 2.0, 1: 3.0, 2: 4.0, 3: 3.0})
    write_agent(tmp_path, "beta", {1: 2.0, 2: 3.0, 3: 2.0, 9: 2.0})
    suite = compare_one(tmp_path)
    changes, note = suite.notes
    assert changes == "stream-smoke-v1 with base_visit_frames = 60, jitter_pct = 0.0"
    assert note == (
        "different seeds (alpha: 0–3; beta: 1–3, 9): a difference uses the seeds that "
        "both agents have, and all seeds if there are none"
    )
    assert suite.agents[1].difference is not None
    assert suite.agents[1].difference.n == 3


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        (
            {"agent_isolation": {"level": "sandbox"}},
            "different isolation (alpha (isolation",
        ),
        (
            {"versions": {"longplay": "0", "ale_py": "9"}},
            "other runs of this suite used another emulator",
        ),
        (
            {"rom_md5": {"qbert": "0" * 32}},
            "other runs of this suite used another emulator",
        ),
    ],
)
def test_runs_under_different_conditions_are_not_averaged(tmp_path, changes, note):
    write_agent(tmp_path, "alpha", {0: 2.0})
    write_agent(tmp_path / "other", "alpha", {1: 4.0})
    edit(tmp_path / "other/alpha/1/config.json", **changes)
    suites = compare_all(tmp_path).suites
    agents = [agent for suite in suites for agent in suite.agents]
    assert [agent.seeds for agent in agents] == [(0,), (1,)]
    for suite in suites:
        assert any(found.startswith(note) for found in suite.notes)


def test_agents_with_one_name_get_distinct_labels(tmp_path):
    for seed, step_size in enumerate((0.1, 0.2)):
        write_agent(tmp_path / str(seed), "alpha", {0: 2.0 + seed})
        path = tmp_path / str(seed) / "alpha/0/config.json"
        config = {"_type": "agents.alpha", "args": {"lr": step_size, "n": 1}}
        edit(path, agent={"config": config, "agent_id": str(seed) * 64})
    labels = [agent.label for agent in compare_one(tmp_path).agents]
    assert labels == ["alpha (lr=0.1)", "alpha (lr=0.2)"]


def test_runs_that_do_not_count_are_counted(tmp_path):
    write_agent(tmp_path, "alpha", {0: 2.0, 1: 3.0, 2: 3.0})
    write(tmp_path / "alpha/1/status.json", make_status("FAILED", "Oops"))
    write(tmp_path / "alpha/2/status.json", make_status("RUNNING"))
    write_agent(tmp_path, "beta", {0: 2.0})
    write(tmp_path / "beta/0/status.json", make_status("FAILED", "Oops"))
    found = compare_all(tmp_path)
    alpha, beta = found.suites[0].agents
    assert alpha.seeds == (0,)
    assert alpha.left_out == {"errored": (1,), "unfinished": (2,)}
    assert (beta.label, beta.seeds, beta.numbers) == ("beta", (), {})
    assert beta.left_out == {"errored": (0,)}
    assert [left.kind for left in found.left_out] == [
        "errored",
        "unfinished",
        "errored",
    ]


def test_documents_alone_give_whole_visit_numbers(tmp_path):
    write_agent(tmp_path, "alpha", {0: 2.0})
    (tmp_path / "alpha/0/events.jsonl").unlink()
    (alpha,) = compare_one(tmp_path).agents
    assert alpha.numbers["average"].mean == 0.5
    for name in ("final", "retention", "change_at_revisit", "recovery"):
        assert name not in alpha.numbers
        assert "`longplay unpack`" in alpha.absent[name]


def test_suite_without_revisits_has_a_reason(tmp_path):
    overrides = {**SHORT, "num_cycles": 1}
    write_agent(tmp_path, "alpha", {0: 2.0}, overrides=overrides)
    name = compare_one(tmp_path).suite
    anchors = make_anchors(name, qbert=make_game())
    (alpha,) = compare_one(tmp_path, anchors).agents
    assert alpha.absent["retention"] == "this suite has no revisits"


def test_anchors_without_random_forgetting_say_so(tmp_path):
    write_agent(tmp_path, "alpha", {0: 2.0})
    anchors = make_anchors(SUITE, qbert=make_game(random_forgetting=None))
    (alpha,) = compare_one(tmp_path, anchors).agents
    assert (
        alpha.absent["change_at_revisit"]
        == "the anchors lack the random agent's change at revisit"
    )
    assert "recovery" in alpha.numbers


def test_forward_transfer_by_hand(tmp_path):
    """Rate 3 in the stream; alone 2 on the second game and 5 on the first."""
    write_agent(tmp_path, "alpha", {0: 3.0})
    games = [v.game_id for v in make_config(agent="alpha").schedule]
    for game, rate in ((games[0], 5.0), (games[1], 2.0)):
        overrides = {**SHORT, "games": [game], "num_cycles": 1}
        write_agent(tmp_path / game, "alpha", {7: rate}, overrides=overrides)
    stream = next(s for s in compare_all(tmp_path).suites if s.suite == SUITE)
    (alpha,) = stream.agents
    assert alpha.numbers["transfer"].mean == pytest.approx((3 - 2) / 2)
    assert list(alpha.games[games[1]])[-1] == "transfer"
    assert "transfer" not in alpha.games[games[0]]


def test_transfer_needs_the_same_rules_and_enough_frames(tmp_path):
    write_agent(tmp_path, "alpha", {0: 3.0})
    game = make_config().schedule[1].game_id
    single = {"games": [game], "num_cycles": 1, "jitter_pct": 0.0}
    for changes in ({"base_visit_frames": 59}, {"base_visit_frames": 60, "delay": 0}):
        folder = tmp_path / str(len(changes))
        write_agent(folder, "alpha", {0: 2.0}, overrides={**single, **changes})
    stream = next(s for s in compare_all(tmp_path).suites if s.suite == SUITE)
    assert stream.agents[0].absent["transfer"] == (
        "no run of this agent on a single game was given"
    )


def test_comparison_is_a_document(tmp_path):
    write_agent(tmp_path, "alpha", {0: 2.0, 1: 3.0, 2: 4.0})
    write_agent(tmp_path, "beta", {0: 1.0, 1: 2.0, 2: 3.0})
    found = compare_all(tmp_path)
    write_document(tmp_path / "analysis.json", found)
    assert read_document(tmp_path / "analysis.json", Comparison) == found


# --- shipped baselines ----------------------------------------------------------


def test_random_stands_beside_an_unchanged_suite(tmp_path):
    config = make_config("control-smoke-v1", 1, {}, "alpha")
    write_run(tmp_path / "1", config, [1.0] * config.total_frames)
    alpha, random = compare_one(tmp_path, NO_ANCHORS, with_baselines=True).agents
    assert random.label == "random (shipped)"
    assert random.per_run["headline"] == (2.0, 10.0, 1.0)
    assert random.difference is not None
    assert random.difference.mean == pytest.approx(10 - 1500)  # on seed 1
    assert random.games["pong"]["rate"].mean == pytest.approx(-0.0206666667)
    assert random.improvement is None
    assert random.absent["improvement"] == ("the shipped figures have no per-run rates")
    assert alpha.numbers["headline"].mean == 1500.0


def test_runs_without_a_seed_are_paired_with_none():
    arrays = AgentArrays((None, 3), {"x": np.array([1.0, 2.0])}, {}, np.empty((2, 0)))
    shared = arrays.by_seed("x").keys() & arrays.by_seed("x").keys()
    assert shared == {3}
    assert arrays.by_seed("y") == {}


def test_changed_suite_has_no_shipped_baseline(tmp_path):
    write_agent(tmp_path, "alpha", {0: 2.0})
    assert len(compare_one(tmp_path, with_baselines=True).agents) == 1


def test_shipped_results_give_the_numbers_of_their_runs(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    frames = make_config(seed=0).total_frames
    write_agent(tmp_path, "alpha", {s: rng.random(frames) for s in (0, 1, 2)})
    found = RunReader().read([tmp_path])
    runs = tuple(record_result(run, "", "") for run in reversed(found.runs))
    monkeypatch.setattr(baselines, "shipped_results", lambda: Results(runs=runs))
    alpha, shipped = compare_one(tmp_path, with_baselines=True).agents
    assert shipped.label == "alpha (shipped)"
    assert "retention" in alpha.per_run
    assert shipped.per_run == alpha.per_run
    assert shipped.games == alpha.games
    assert shipped.difference is not None
    assert shipped.difference.mean == 0


def test_results_of_another_emulator_do_not_stand_beside_a_run(tmp_path, monkeypatch):
    write_agent(tmp_path, "alpha", {0: 2.0})
    (run,) = RunReader().read([tmp_path]).runs
    result = record_result(run, "", "").model_copy(update={"emulator": "0.0.1"})
    monkeypatch.setattr(baselines, "shipped_results", lambda: Results(runs=(result,)))
    assert len(compare_one(tmp_path, with_baselines=True).agents) == 1


# --- predictions ----------------------------------------------------------------


def write_prediction(
    run_dir: Path, name: str, factor: float = 1.0, rollouts: str | None = None
) -> None:
    """The golden prediction run under another name, its errors scaled."""
    shutil.copytree(GOLDEN / "prediction-v1", run_dir)
    config = {"_type": f"agents.{name}", "args": {}}
    entry = {"config": config, "agent_id": agent_id(config)}
    edit(run_dir / "config.json", agent=entry)
    errors = {"space_invaders": 10.0 * factor, "breakout": 30.0 * factor}
    changes: dict[str, Any] = {"nmse": 20.0 * factor, "per_game_nmse": errors}
    if rollouts is not None:
        halves = {game: error / 2 for game, error in errors.items()}
        changes |= {"per_game_value_nmse": halves, "rollouts_sha256": rollouts * 64}
    edit(run_dir / "score.json", **changes)
    edit(run_dir / "run_summary.json", chain_head=agent_id(changes))


def test_predictors_are_compared_by_their_median_error(tmp_path):
    write_prediction(tmp_path / "a", "alpha")
    write_prediction(tmp_path / "b", "beta", factor=0.5)
    suite = compare_one(tmp_path, NO_ANCHORS)
    alpha, beta = suite.agents
    assert (suite.error, suite.lead, suite.lead_is_better) == ("nmse", "error", "less")
    assert (alpha.numbers["error"].mean, beta.numbers["error"].mean) == (20.0, 10.0)
    assert beta.difference is not None
    assert beta.difference.mean == -10.0
    # Less is better: beta has the smaller error in both games.
    assert beta.improvement is not None
    assert beta.improvement.mean == 1.0
    assert alpha.absent["average"] == "predictions have no z"
    assert suite.games_without_z == {}


def test_rollout_values_are_used_if_all_runs_have_the_same(tmp_path):
    write_prediction(tmp_path / "a", "alpha", rollouts="a")
    write_prediction(tmp_path / "b", "beta", factor=0.5, rollouts="a")
    suite = compare_one(tmp_path, NO_ANCHORS)
    assert suite.error == "value_nmse"
    assert [agent.numbers["error"].mean for agent in suite.agents] == [10.0, 5.0]


@pytest.mark.parametrize("other", [None, "b"])
def test_different_rollouts_are_not_mixed(tmp_path, other):
    write_prediction(tmp_path / "a", "alpha", rollouts="a")
    write_prediction(tmp_path / "b", "beta", factor=0.5, rollouts=other)
    suite = compare_one(tmp_path, NO_ANCHORS)
    assert suite.error == "nmse"
    assert [agent.numbers["error"].mean for agent in suite.agents] == [20.0, 10.0]
    assert suite.notes[-1] == (
        "runs were scored with different rollout values, or none: all are compared "
        "by nmse"
    )


@pytest.mark.parametrize(("digest", "error"), [("a", "value_nmse"), ("b", "nmse")])
def test_shipped_errors_are_used_if_their_rollouts_are_the_same(
    tmp_path, monkeypatch, digest, error
):
    write_prediction(tmp_path / "a", "alpha", rollouts="a")
    measured = MeasuredError.over_seeds([4.0])
    errors = MeasuredErrors(measured, measured, measured, MeasuredError(2.0, (2.0,)))
    unmeasured = MeasuredErrors(measured, measured, measured)  # without rollouts
    games = {"space_invaders": errors, "breakout": unmeasured}
    shipped = PredictorBaseline(
        "zero", SUITE, "0.12.1", digest * 64, (0,), errors, measured, games
    )
    monkeypatch.setattr(baselines, "prediction_baselines", lambda *_: [shipped])
    suite = compare_one(tmp_path, NO_ANCHORS, with_baselines=True)
    assert suite.error == error
    zero = suite.agents[1]
    assert zero.numbers["error"].mean == (2.0 if error == "value_nmse" else 4.0)
    assert zero.numbers["headline"].mean == 4.0


def test_games_without_an_error_are_counted(tmp_path):
    write_prediction(tmp_path / "a", "alpha", rollouts="a")
    write_prediction(tmp_path / "b", "beta", rollouts="a")
    values = {"space_invaders": None, "breakout": 1.0}
    edit(tmp_path / "b/score.json", per_game_value_nmse=values)
    suite = compare_one(tmp_path, NO_ANCHORS)
    assert suite.notes[-1] == (
        "games without value_nmse, by number of runs: space_invaders in 1"
    )


def test_result_of_a_run_without_rollout_values(tmp_path):
    write_prediction(tmp_path / "a", "alpha")
    (run,) = RunReader().read([tmp_path / "a"]).runs
    assert set(record_result(run, "pack", "0" * 64).errors) == {"nmse"}


# --- against an independent implementation ---------------------------------------


CHANGES = ("retention", "change_at_revisit", "recovery")
GAMES = [
    *("ms_pacman", "centipede", "qbert", "pong", "breakout"),
    *("seaquest", "asterix", "phoenix", "enduro"),
]


def slow_numbers(run_dir: Path, lower: float, upper: float) -> dict[str, float]:
    """§ by §, from the rows alone: plain Python, no windows."""
    rows = [
        msgspec.json.decode(line)
        for line in (run_dir / "events.jsonl").read_bytes().splitlines()
    ]
    visits: dict[int, list[float]] = {}
    games: dict[int, str] = {}
    for row in rows:
        visits.setdefault(row["visit_idx"], []).append(row["reward"])
        games[row["visit_idx"]] = row["game_id"]

    def z(rewards: list[float]) -> float:
        return (statistics.fmean(rewards) - lower) / (upper - lower)

    def first(rewards: list[float], share: float) -> list[float]:
        return [r for i, r in enumerate(rewards) if i < share * len(rewards)]

    def last(rewards: list[float], share: float) -> list[float]:
        cut = (1 - share) * len(rewards)
        return [r for i, r in enumerate(rewards) if i >= round(cut, 9)]

    average, final, kept, lost, cost = [], [], [], [], []
    for game in set(games.values()):
        mine = [v for v, g in games.items() if g == game]
        average.append(z([r for v in mine for r in visits[v]]))
        final.append(z(last(visits[mine[-1]], 0.5)))
        pairs = [(a, b) for a, b in pairwise(mine) if b > a + 1]
        if not pairs:
            continue
        start = z(first(visits[mine[0]], 0.1))
        kept.append(
            statistics.fmean(z(first(visits[b], 0.1)) - start for _, b in pairs)
        )
        drops = [z(last(visits[a], 0.1)) - z(first(visits[b], 0.1)) for a, b in pairs]
        lost.append(statistics.fmean(drops) - 0.2 / (upper - lower))
        costs = [z(last(visits[a], 0.1)) - z(first(visits[b], 0.5)) for a, b in pairs]
        cost.append(statistics.fmean(costs) + 0.4 / (upper - lower))
    means = {"retention": kept, "change_at_revisit": lost, "recovery": cost}
    found = {name: statistics.fmean(values) for name, values in means.items() if values}
    found["average"], found["final"] = middle(average), middle(final)
    found["median"] = statistics.median(average)
    found["optimality_gap"] = statistics.fmean(max(0.0, 1 - value) for value in average)
    return found


def middle(values: list[float]) -> float:
    """The mean; of 8 or more values without the lowest and the highest quarter."""
    cut = len(values) // 4 if len(values) >= 8 else 0
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(0, 1000),
    frames=st.integers(20, 90),
    cycles=st.integers(1, 4),
    jitter=st.sampled_from([0.0, 0.4]),
    games=st.sampled_from([GAMES[:3], GAMES[:8], GAMES]),
)
def test_numbers_are_those_of_a_slow_implementation(
    tmp_path_factory, seed, frames, cycles, jitter, games
):
    """Two agents, the second with two seeds, one of them shared."""
    folder = tmp_path_factory.mktemp("generated")
    overrides = {
        "games": games,
        "base_visit_frames": frames,
        "num_cycles": cycles,
        "jitter_pct": jitter,
        "min_visit_frames": 10,
    }
    rng = np.random.default_rng(seed)
    slow, rates = {}, {}
    for name, own in (("alpha", seed), ("beta", seed), ("beta", seed + 1)):
        config = make_config(seed=own, agent=name, overrides=overrides)
        rewards = rng.choice([0.0, 0.0, 1.0, -2.5, 7.0], config.total_frames)
        run_dir = write_run(folder / name / str(own), config, rewards)
        slow[name, own] = slow_numbers(run_dir, 1.0, 3.0)
        rates[name, own] = slow_rates(run_dir)
    suite = compare_one(folder, NO_ANCHORS).suite
    anchors = make_anchors(suite, **dict.fromkeys(games, make_game()))
    alpha, beta = compare_one(folder, anchors).agents
    (ours, shared, other) = slow.values()
    for metric in ("average", "median", "optimality_gap", "final", *CHANGES):
        if metric in ours:
            assert alpha.numbers[metric].mean == pytest.approx(ours[metric]), metric
        else:
            assert metric in alpha.absent
        if metric in shared and metric in other:
            mean = (shared[metric] + other[metric]) / 2
            assert beta.numbers[metric].mean == pytest.approx(mean), metric
    assert beta.difference is not None
    assert beta.difference.mean == pytest.approx(shared["average"] - ours["average"])
    first, *others = rates.values()
    wins = [
        (mine[game] > first[game]) + 0.5 * (mine[game] == first[game])
        for mine in others
        for game in games
    ]
    assert beta.improvement is not None
    assert beta.improvement.mean == pytest.approx(statistics.fmean(wins))


def slow_rates(run_dir: Path) -> dict[str, float]:
    rewards: dict[str, list[float]] = {}
    for line in (run_dir / "events.jsonl").read_bytes().splitlines():
        row = msgspec.json.decode(line)
        rewards.setdefault(row["game_id"], []).append(row["reward"])
    return {game: statistics.fmean(own) for game, own in rewards.items()}


# --- luck alone ------------------------------------------------------------------


LUCKY_ANCHORS = make_anchors(
    SUITE,
    centipede=make_game(lower=2.0, upper=4.0),
    ms_pacman=make_game(lower=0.2, upper=1.4),
    qbert=make_game(lower=20.0, upper=30.0),
)
LUCKY = {
    (name, seed): make_config(seed=seed, agent=name)
    for name in ("one", "two")
    for seed in range(5)
}


def lucky_run(name: str, seed: int, rng: np.random.Generator) -> MeasuredRun:
    """A run whose visits pay what chance says; one game pays far more."""
    config = LUCKY[name, seed]
    scale = {"centipede": 1.0, "ms_pacman": 0.1, "qbert": 10.0}
    frames = np.array([visit.visit_frames for visit in config.schedule])
    luck = [scale[visit.game_id] * rng.gamma(2.0) for visit in config.schedule]
    games = tuple(visit.game_id for visit in config.schedule)
    return MeasuredRun(
        path=Path(name),
        agent=AgentKey(name, name),
        conditions=Conditions(SUITE),
        seed=seed,
        config=config,
        score=Score.model_validate(make_score(float(np.mean(luck)))),
        totals=VisitTotals(games, frames, frames * luck),
        curves=None,
        identity=f"{name} {seed}",
        has_evidence=True,
    )


@pytest.mark.parametrize("anchors", [NO_ANCHORS, LUCKY_ANCHORS])
def test_same_agent_under_two_names_is_rarely_called_different(anchors):
    """Of 200 pairs of five runs each at most 8 % are; 5 % is what 95 % means."""
    rng = np.random.default_rng(0)
    called_different = 0
    for _ in range(200):
        runs = tuple(lucky_run(name, seed, rng) for name, seed in LUCKY)
        (suite,) = compare(FoundRuns(runs, ()), Request(anchors)).suites
        assert suite.lead == ("average" if anchors.suites else "headline")
        difference = suite.agents[1].difference
        called_different += difference is not None and difference.excludes_zero
    assert 1 <= called_different <= 16


def test_json_has_only_the_paths_of_left_out_runs(tmp_path):
    write_agent(tmp_path, "alpha", {0: 2.0})
    text = json.dumps(compare_all(tmp_path).model_dump(mode="json"))
    assert str(tmp_path) not in text


def test_other_emulator_is_another_table_with_its_own_title(tmp_path):
    write_agent(tmp_path, "alpha", {0: 2.0, 1: 3.0, 2: 4.0})
    for path in write_agent(tmp_path, "beta", {0: 2.0, 1: 3.0}).iterdir():
        edit(path / "config.json", versions={"longplay": "0.1", "ale_py": "0.13.0"})
    anchored = ANCHORS.suites[SUITE].model_copy(update={"versions": VERSIONS})
    anchors = ANCHORS.model_copy(update={"suites": {SUITE: anchored}})
    here, there = compare_all(tmp_path, anchors).suites
    assert here.title == f"{SUITE} (ale-py 0.12.1)"
    assert there.title == f"{SUITE} (ale-py 0.13.0)"
    # The anchors were measured on the first emulator.
    assert (here.lead, there.lead) == ("average", "headline")
    assert set(there.games_without_z.values()) == {
        "anchors-1 was measured with ale-py 0.12.1, found 0.13.0"
    }
    assert "average" not in there.agents[0].numbers
    (chosen,) = compare_all(tmp_path, anchors, suite=there.title).suites
    assert chosen == there


def test_no_baselines_for_another_emulator(tmp_path):
    config = make_config("control-smoke-v1", 1, {}, "alpha")
    run_dir = write_run(tmp_path / "1", config, [1.0] * config.total_frames)
    edit(run_dir / "config.json", versions={"longplay": "0.1", "ale_py": "0.13.0"})
    suite = compare_one(tmp_path, NO_ANCHORS, with_baselines=True)
    assert len(suite.agents) == 1
    assert "there are no baselines for this suite and emulator" in suite.notes


def test_runs_that_are_left_out_count_for_their_own_isolation(tmp_path):
    """One agent twice, in its process and isolated; only isolated runs fail."""
    write_agent(tmp_path / "in", "alpha", {0: 1.0, 1: 1.0, 2: 1.0})
    isolated = write_agent(tmp_path / "out", "alpha", {0: 1.0, 3: 1.0, 4: 1.0})
    for path in isolated.iterdir():
        edit(path / "config.json", agent_isolation={"level": "process"})
    write(isolated / "3/status.json", make_status("FAILED", "Oops"))
    inside, outside = compare_one(tmp_path).agents
    assert (inside.label, inside.left_out) == ("alpha (isolation none)", {})
    assert outside.left_out == {"errored": (3,)}


def test_unknown_tuning_is_not_a_budget_of_nothing(tmp_path):
    for name, frames in (("a", None), ("b", 0)):
        folder = write_agent(tmp_path / name, "alpha", {0: 1.0})
        if frames is not None:
            write(folder / "0/episode_record.json", {"tuning_frames": frames})
    suite = compare_one(tmp_path)
    assert [agent.label for agent in suite.agents] == [
        "alpha (tuned unknown)",
        "alpha (tuned 0)",
    ]
    assert suite.notes[-1] == (
        "different tuning frames (alpha (tuned unknown): unknown, alpha (tuned 0): 0)"
    )


def test_tables_of_changed_suites_are_last(tmp_path):
    write_agent(tmp_path, "alpha", {0: 2.0})
    write_agent(tmp_path, "beta", {0: 2.0}, suite="control-smoke-v1", overrides={})
    suites = [suite.suite for suite in compare_all(tmp_path).suites]
    assert suites == ["control-smoke-v1", SUITE]
