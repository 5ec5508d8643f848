"""Rollout values of a recorded visit: measured, resumed, shipped, found again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save
from typer.testing import CliRunner

from longplay.contract.rundir import read_run
from longplay.errors import ConfigError, DocumentError
from longplay.reference.library import (
    DATA,
    REFERENCE_GAMES,
    load_reference,
    read_facts,
)
from longplay.reference.rollout_file import find_rollouts
from longplay.reference.streams import find_recorded_visit
from longplay.validation import validate_run
from made_up_references import write_references
from playing import play_run
from references import rollouts
from references.commands import reference_app
from references.rollouts import (
    MeasuredVisit,
    RolloutPlan,
    RolloutWork,
    StateMeasurer,
    audit_visits,
    measure_visit,
    summarise_visits,
)
from references.workspace import Workspace

TIMESTEPS = 60
PLAN = RolloutPlan(
    every_timesteps=4,
    continuations=2,
    horizon_timesteps=3,
    audit_continuations=2,
    audit_horizon_timesteps=5,
)
OPTIONS = ("--seeds", "0", "--every", 4, "--continuations", 2, "--horizon", 3)
RUN: dict[str, Any] = {"games": ["pong"], "base_visit_frames": TIMESTEPS}
ZERO = str(Path(__file__).parents[3] / "examples" / "prediction_zero.py")


def invoke_reference(*args: object) -> None:
    result = CliRunner().invoke(reference_app, [*map(str, args)])
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made-up references; a visit of pong is recorded and measured by the commands."""
    folder = tmp_path_factory.mktemp("references")
    write_references(folder, REFERENCE_GAMES)
    place = ("--game", "pong", "--data", folder)
    invoke_reference("record", *place, "--seeds", "0", "--timesteps", TIMESTEPS)
    work = tmp_path_factory.mktemp("work")
    invoke_reference("rollouts", *place, "--work", work, *OPTIONS)
    return folder


@pytest.fixture
def shipped(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, to be changed, and in use."""
    folder = Path(shutil.copytree(template, tmp_path / "references"))
    monkeypatch.setenv("LONGPLAY_REFERENCES", str(folder))
    return folder


def test_a_visit_is_measured_in_the_recorded_states(shipped: Path) -> None:
    visit = measure_visit("pong", 0, PLAN, shipped)
    stream = find_recorded_visit("pong", 0, 0, shipped)
    assert stream is not None
    assert visit.timesteps.tolist() == list(range(0, TIMESTEPS, 4))
    assert visit.returns.shape == (15, 2)
    np.testing.assert_array_equal(visit.network_values, stream.values[::4])
    # Every twelfth state, from the seventh on.
    assert visit.audit_timesteps.tolist() == [24]
    assert visit.audit_returns.shape == (1, 2)


def test_the_rest_of_a_return_is_the_value_network(shipped: Path) -> None:
    """At first nothing moves in Pong: whatever is done, the next state is the same."""
    plan = PLAN.model_copy(update={"horizon_timesteps": 1})
    visit = measure_visit("pong", 0, plan, shipped)
    stream = find_recorded_visit("pong", 0, 0, shipped)
    assert stream is not None
    assert stream.rewards[0] == 0
    assert visit.returns[0] == pytest.approx(0.99 * float(stream.values[1]))


def test_measuring_again_gives_the_same_bits(shipped: Path) -> None:
    once, again = (measure_visit("pong", 0, PLAN, shipped) for _ in range(2))
    assert once.returns.tobytes() == again.returns.tobytes()
    assert once.audit_returns.tobytes() == again.audit_returns.tobytes()


def test_more_continuations_begin_with_the_same_ones(shipped: Path) -> None:
    more = measure_visit(
        "pong", 0, PLAN.model_copy(update={"continuations": 4}), shipped
    )
    fewer = measure_visit("pong", 0, PLAN, shipped)
    np.testing.assert_array_equal(more.returns[:, :2], fewer.returns)


def test_what_was_measured_is_not_measured_again(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = RolloutWork(Workspace(tmp_path, "pong"), PLAN, shipped)
    once = work.measure(0)
    monkeypatch.delattr(rollouts, "measure_visit")
    again = work.measure(0)
    assert once.returns.tobytes() == again.returns.tobytes()


def test_measured_visits_of_another_reference_are_refused(
    shipped: Path, tmp_path: Path
) -> None:
    RolloutWork(Workspace(tmp_path, "pong"), PLAN, shipped).measure(0)
    path = shipped / "pong.json"
    facts = json.loads(path.read_text())
    facts["policy"]["exploration"] = 0.5
    path.write_text(json.dumps(facts))
    with pytest.raises(ConfigError, match=r"seed-0.*expected rollouts of .*, found"):
        RolloutWork(Workspace(tmp_path, "pong"), PLAN, shipped).measure(0)


def test_a_visit_that_was_not_recorded_is_named(shipped: Path) -> None:
    with pytest.raises(ConfigError, match="expected a recorded visit of seed 1"):
        measure_visit("pong", 1, PLAN, shipped)


@pytest.mark.exhaustive
def test_the_mean_of_other_continuations_has_only_its_own_error() -> None:
    """On Pong itself: its error is mean(s² / K') within its own sampling error."""
    recorded = find_recorded_visit("pong", 0, 0, DATA)
    assert recorded is not None
    measurer = StateMeasurer("pong", 0, load_reference("pong", DATA), recorded)
    returns, others = [], []
    for timestep in range(0, 6000, 40):
        measurer.move_to(timestep)
        returns.append(measurer.measure(range(8), 100, is_bootstrapped=True))
        others.append(measurer.measure(range(100, 104), 100, is_bootstrapped=True))
    m, said = np.mean(returns, axis=1), np.mean(others, axis=1)
    luck = np.var(others, axis=1, ddof=1) / 4
    excess = (said - m) ** 2 - np.var(returns, axis=1, ddof=1) / 8 - luck
    assert luck.mean() > 0.005
    assert abs(excess.mean()) < 3 * excess.std() / np.sqrt(len(excess))


def make_visit(returns: list[list[float]], audit: list[list[float]]) -> MeasuredVisit:
    count = len(returns)
    return MeasuredVisit(
        timesteps=np.arange(count, dtype=np.int32),
        network_values=np.zeros(count, np.float32),
        returns=np.array(returns, np.float64),
        audit_timesteps=np.arange(len(audit), dtype=np.int32),
        audit_returns=np.array(audit, np.float64),
    )


def test_means_and_variances_by_hand() -> None:
    values = summarise_visits({3: make_visit([[1, 3], [0, 0]], [])})[3]
    assert values.mean.tolist() == [2, 0]
    assert values.variance.tolist() == [2, 0]  # unbiased: (1 + 1) / (2 - 1)
    assert values.noise.tolist() == [1, 0]


def test_the_audit_by_hand() -> None:
    # Rollouts 1 and 3, network 0 and 0; audited 1 ± 0 and 5 ± 0: variance 4
    visit = make_visit([[1, 1], [2, 4]], [[1, 1], [5, 5]])
    audit = audit_visits({0: visit}, PLAN)
    assert audit.states == 2
    assert audit.r2 == pytest.approx(1 - 2 / 4)
    assert audit.bias == pytest.approx(-1)
    assert audit.network.r2 == pytest.approx(1 - 13 / 4)
    assert audit.low is not None
    assert audit.high is not None
    assert audit.low <= audit.r2 <= audit.high


def test_a_plan_that_audits_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected audited states in every visit"):
        audit_visits({0: make_visit([[1, 1]], [])}, PLAN)


def test_a_run_is_scored_with_the_rollouts_of_its_visit(
    shipped: Path, tmp_path: Path
) -> None:
    result = play_run("prediction-v1", ZERO, out=tmp_path / "run", overrides=RUN)
    values = find_rollouts(read_run(result.run_dir).config)
    assert values is not None
    means, noise = values.games["pong"].means, values.games["pong"].noise
    score = json.loads((result.run_dir / "score.json").read_text())
    assert score["value_mse"] == pytest.approx((means**2 - noise).mean())
    assert score["per_game_value_mse"] == {"pong": score["value_mse"]}
    # 15 states are less than two blocks of 25.
    assert score["per_game_value_nmse"] == {"pong": None}
    assert (score["value_nmse"], score["median_value_nmse"]) == (None, None)
    assert score["value_states"] == 15
    assert score["rollouts_sha256"] == values.sha256
    assert result.report.is_valid
    assert not result.report.findings.note_counts


def test_the_sums_behind_a_value_error_are_explained(
    shipped: Path, tmp_path: Path, invoke: Callable
) -> None:
    run = play_run("prediction-v1", ZERO, out=tmp_path / "run", overrides=RUN)
    answer = invoke("score", run.run_dir, "--explain", "pong", "--json").json
    rows = answer["explanation"]
    means = {row["differences"]: row["mean"] for row in rows[-3:]}
    assert [row["timesteps"] for row in rows[-3:]] == [15] * 3
    error = means["prediction - rollout value"] - means["sampling error of rollouts"]
    assert run.score.value_mse == pytest.approx(error)


@pytest.mark.parametrize(
    ("seed", "changes"),
    [
        pytest.param(1, {}, id="another seed"),
        pytest.param(0, {"base_visit_frames": 40}, id="another length"),
        pytest.param(0, {"games": ["breakout"]}, id="another game"),
        pytest.param(0, {"games": ["breakout", "pong"]}, id="another place"),
    ],
)
def test_other_runs_have_no_such_keys(
    shipped: Path, tmp_path: Path, seed: int, changes: dict[str, Any]
) -> None:
    result = play_run(
        "prediction-v1", ZERO, seed=seed, out=tmp_path / "run", overrides=RUN | changes
    )
    keys = json.loads((result.run_dir / "score.json").read_text()).keys()
    assert "nmse" in keys
    assert not [key for key in keys if "value_" in key or "rollouts" in key]


def test_games_without_rollouts_are_left_out(shipped: Path, tmp_path: Path) -> None:
    both = RUN | {"games": ["pong", "breakout"]}
    result = play_run("prediction-v1", ZERO, out=tmp_path / "run", overrides=both)
    assert list(result.score.per_game_value_mse) == ["pong"]
    assert result.score.value_states == 15


def rewrite(folder: Path, name: str, change: float) -> None:
    """Adds to all numbers of an array; the facts are then about the new file."""
    path = folder / "pong.rollouts.safetensors"
    arrays = load(path.read_bytes())
    arrays[f"seed-0.{name}"] += arrays[f"seed-0.{name}"].dtype.type(change)
    content = save(arrays)
    path.write_bytes(content)
    facts = json.loads((folder / "pong.json").read_text())
    facts["rollouts"]["rollouts_sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "pong.json").write_text(json.dumps(facts))


def change_values(folder: Path) -> None:
    rewrite(folder, "mean", 0.5)


def remove_rollouts(folder: Path) -> None:
    facts = json.loads((folder / "pong.json").read_text())
    del facts["rollouts"]
    (folder / "pong.json").write_text(json.dumps(facts))


@pytest.mark.parametrize("change", [change_values, remove_rollouts])
def test_a_score_with_other_rollouts_is_noted(
    shipped: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    run = play_run("prediction-v1", ZERO, out=tmp_path / "run", overrides=RUN)
    change(shipped)
    report = validate_run(run.run_dir)
    assert report.is_valid
    assert report.findings.note_counts == {"other rollouts": 1}
    assert "scored with other rollouts" in str(report.findings.notes[0])


def test_a_false_value_error_is_found(shipped: Path, tmp_path: Path) -> None:
    run = play_run("prediction-v1", ZERO, out=tmp_path / "run", overrides=RUN)
    path = run.run_dir / "score.json"
    score = json.loads(path.read_text())
    path.write_text(json.dumps(score | {"value_mse": score["value_mse"] - 0.1}))
    report = validate_run(run.run_dir)
    found = [finding.field for finding in report.findings.shown]
    assert found == ["value_mse", "score_sha256"]


def damage_file(folder: Path) -> None:
    path = folder / "pong.rollouts.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def move_states(folder: Path) -> None:
    rewrite(folder, "timesteps", 4)


def change_reference(folder: Path) -> None:
    facts = json.loads((folder / "pong.json").read_text())
    facts["rollouts"]["reference_sha256"] = "0" * 64
    (folder / "pong.json").write_text(json.dumps(facts))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_file, "expected SHA-256 .* found .*; it is damaged"),
        (move_states, "seed-0.timesteps: expected 0 … 59, found 4 … 60; measure again"),
        (
            change_reference,
            "rollouts.reference_sha256: expected the digest of the game",
        ),
    ],
)
def test_damaged_rollouts_are_refused(
    shipped: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    run = play_run("prediction-v1", ZERO, out=tmp_path / "run", overrides=RUN)
    damage(shipped)
    with pytest.raises(DocumentError, match=message):
        find_rollouts(read_run(run.run_dir).config)


def test_facts_say_what_was_measured(shipped: Path) -> None:
    facts = read_facts("pong", shipped).rollouts
    assert facts is not None
    assert (facts.seeds, facts.continuations, facts.horizon_timesteps) == ((0,), 2, 3)
    assert (facts.visit_idx, facts.visit_timesteps) == (0, TIMESTEPS)
    assert facts.audit.states == 1
    assert facts.audit.r2 is None  # one state does not differ from itself
