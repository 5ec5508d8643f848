"""The predictors' figures: of the suites and examples they name, or not shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import longplay
from longplay.agents.source.loading import load_agent
from longplay.contract.documents import PredictionScore
from longplay.plan import plan_run
from longplay.scoring import prediction_baselines as module
from longplay.scoring.prediction_baselines import (
    PREDICTORS,
    MeasuredError,
    prediction_baselines,
    read_data,
    read_network,
    read_suite,
)
from longplay.suites import get_suite
from playing import play_run
from prediction_baselines import summarise_errors, summarise_network
from references.reference_tables import fill_baselines, render_baselines

ROOT = Path(__file__).parent.parent.parent
SUITE = "prediction-smoke-v1"
SHORT = {"games": ["pong", "breakout"], "base_visit_frames": 40}
REFERENCES = "ab" * 32


def make_score(nmse: float, return_mse: float | None) -> PredictionScore:
    """A score of two games; `breakout` has no nmse, and may have no return."""
    return PredictionScore.model_construct(
        mse=2.0 * nmse,
        nmse=nmse,
        median_nmse=nmse + 0.5,
        return_mse=return_mse,
        per_game_mse={"pong": nmse, "breakout": 3.0 * nmse},
        per_game_nmse={"pong": nmse, "breakout": None},
        per_game_return_mse={"pong": None, "breakout": return_mse},
    )


def make_data(suite: str = SUITE, reference_sha256: str = REFERENCES) -> dict[str, Any]:
    """Three seeds; `zero` is ten times as wrong as `mean`, and `td_lambda` half."""
    figures = {
        name: summarise_errors(
            [
                make_score(scale * nmse, 4.0 if nmse == 2.0 else None)
                for nmse in (1, 2, 3)
            ]
        )
        for name, scale in zip(PREDICTORS, (10.0, 1.0, 0.5), strict=True)
    }
    entry: dict[str, Any] = {"reference_sha256": reference_sha256, "seeds": [0, 1, 2]}
    entry["versions"] = {"ale_py": "0.12.1"}
    return {"suites": {suite: {**entry, "predictors": figures}}}


@pytest.fixture
def ship(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], None]:
    """Puts other figures in the place of the shipped ones."""
    return lambda data: monkeypatch.setattr(module, "read_data", lambda: data)


# --- what is shipped ------------------------------------------------------------


def test_shipped_figures_are_of_the_suites_and_examples_as_they_are() -> None:
    for suite_id, entry in read_data()["suites"].items():
        configs = [plan_run(suite_id, seed).config for seed in entry["seeds"]]
        assert entry["seeds"] == list(get_suite(suite_id).official_seeds)
        hashes = [config.benchmark_contract_hash for config in configs]
        assert entry["contract_hashes"] == hashes
        assert entry["reference_sha256"] == configs[0].reference_sha256
        assert list(entry["predictors"]) == list(PREDICTORS)
        for name, figures in entry["predictors"].items():
            example = load_agent(str(ROOT / "examples" / f"prediction_{name}.py"))
            assert figures["agent_id"] == example.entry.agent_id
            assert set(figures["games"]) == set(configs[0].games)


def test_shipped_means_are_those_of_the_seeds() -> None:
    suites = read_data()["suites"].items()
    for baseline in (one for suite in suites for one in read_suite(*suite)):
        for error in (baseline.errors.nmse, baseline.median_nmse, baseline.errors.mse):
            assert error == MeasuredError.over_seeds(error.seeds)


def test_td_lambda_beats_zero() -> None:
    for suite_id, entry in read_data()["suites"].items():
        zero, *_, learner = prediction_baselines(suite_id, entry["reference_sha256"])
        for own, other in zip(
            learner.errors.nmse.seeds, zero.errors.nmse.seeds, strict=True
        ):
            assert own < other


def test_page_has_the_shipped_figures() -> None:
    page = (ROOT / "docs" / "prediction.md").read_text(encoding="utf-8")
    assert fill_baselines(page, read_data()) == page, "run `make prediction-baselines`"


# --- how they are read ----------------------------------------------------------


def test_errors_are_means_over_the_seeds_that_have_one(ship: Callable) -> None:
    ship(make_data())
    zero, mean, td = prediction_baselines(SUITE, REFERENCES)
    assert [b.label for b in (zero, mean, td)] == ["zero", "running mean", "TD(λ)"]
    assert zero.errors.nmse == MeasuredError(20.0, (10.0, 20.0, 30.0))
    assert zero.median_nmse.mean == 20.5
    assert mean.errors.return_mse == MeasuredError(4.0, (None, 4.0, None))
    assert td.games["breakout"].mse.mean == 3.0
    assert td.games["pong"].return_mse == MeasuredError(None, (None,) * 3)
    assert (td.nmse_of("pong"), td.nmse_of("breakout")) == (1.0, None)


@pytest.mark.parametrize(
    ("suite", "references"),
    [
        (SUITE, "cd" * 32),
        (SUITE, None),
        (f"{SUITE}+01234567", REFERENCES),
        ("stream-smoke-v1", None),
        (None, REFERENCES),
    ],
)
def test_other_suites_and_references_have_none(
    ship: Callable, suite: str | None, references: str | None
) -> None:
    ship(make_data())
    assert prediction_baselines(suite, references) == []


# --- how they are shown ---------------------------------------------------------


@pytest.fixture
def experiment(references: Path, tmp_path: Path) -> Path:
    agent, out = str(ROOT / "examples" / "prediction_zero.py"), tmp_path / "e"
    play_run(SUITE, agent, out=out, overrides=SHORT)
    return out


def test_show_has_the_baselines_beside_the_run(
    experiment: Path, ship: Callable, invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = longplay.read_run(experiment).config
    ship(make_data(config.suite, config.reference_sha256))
    monkeypatch.setenv("COLUMNS", "80")
    shown = invoke("show", experiment).stdout
    assert "\\n" not in shown  # headings are broken into lines, not escaped
    rows = [line.split() for line in shown.splitlines()]
    assert next(row for row in rows if row[:1] == ["pong"])[2:5] == ["20", "2", "1"]
    assert next(row for row in rows if row[:1] == ["mean"])[2:5] == ["20", "2", "1"]
    assert ["zero", "20", "40", "4"] in rows
    assert ["running", "mean", "2", "4", "4"] in rows
    machine = invoke("show", experiment, "--json").json["baselines"]
    assert machine["td_lambda"]["errors"]["nmse"] == {"mean": 1, "seeds": [0.5, 1, 1.5]}


def test_show_has_no_baselines_of_other_references(
    experiment: Path, ship: Callable, invoke: Callable
) -> None:
    ship(make_data(longplay.read_run(experiment).config.suite or ""))
    assert "of the baselines" not in invoke("show", experiment).stdout
    assert invoke("show", experiment, "--json").json["baselines"] is None


def test_show_of_several_seeds_names_the_baselines(
    references: Path, tmp_path: Path, ship: Callable, invoke: Callable
) -> None:
    agent, out = ROOT / "examples" / "prediction_zero.py", tmp_path / "e"
    options = ("--seeds", "0-1", "--out", out, "--set", "base_visit_frames=20")
    assert invoke("run", SUITE, "--agent", agent, *options).exit_code == 0
    (run_dir, _) = sorted((out / "episodes").iterdir())
    config = longplay.read_run(run_dir).config
    ship(make_data(config.suite, config.reference_sha256))
    shown = " ".join(invoke("show", out).stdout.split())
    assert (
        "nmse of the baselines: zero 20, running mean 2, TD(λ) 1; mean of 3 seeds"
        in shown
    )
    assert "nmse (lower is better): " in shown


# --- the page -------------------------------------------------------------------


def test_tables_of_the_page() -> None:
    *_, zero, mean, learner, _, head, _, pong, breakout = render_baselines(
        make_data()
    ).splitlines()
    assert zero.startswith("| zero | 20.000 (10.000 … 30.000) | 20.500 (10.500 … 30.5")
    assert mean.endswith("| 4.000 (2.000 … 6.000) | 4.000 (4.000 … 4.000) |")
    assert learner.startswith("| TD(λ) | 1.000 (0.500 … 1.500) |")
    assert head == "| nmse of | zero | running mean | TD(λ) |"
    assert pong == "| pong | 20.000 | 2.000 | 1.000 |"
    assert breakout == "| breakout | – | – | – |"


def test_errors_against_rollout_values_lead_where_all_runs_have_them() -> None:
    scores = [
        make_score(nmse, None).model_copy(
            update={
                "rollouts_sha256": "cd" * 32,
                "value_nmse": nmse / 2,
                "per_game_value_nmse": {"pong": nmse / 2},
            }
        )
        for nmse in (1.0, 2.0, 3.0)
    ]
    data = make_data()
    figures = data["suites"][SUITE]["predictors"]
    figures["zero"] = summarise_errors(scores)
    zero, mean, _ = read_suite(SUITE, data["suites"][SUITE])
    assert zero.errors.value_nmse == MeasuredError(1.0, (0.5, 1.0, 1.5))
    assert zero.games["pong"].value_nmse == MeasuredError(1.0, (0.5, 1.0, 1.5))
    assert zero.games["breakout"].value_nmse is None
    assert mean.errors.value_nmse is None
    table = render_baselines(data).splitlines()
    assert table[2].startswith("|  | value_nmse | nmse |")
    assert table[4].startswith("| zero | 1.000 (0.500 … 1.500) | 2.000 (1.000 … 3.000)")
    assert table[5].startswith("| running mean | – | 2.000")
    assert "| pong | 1.000 | – | – |" in table


def test_network_stands_beside_the_predictors() -> None:
    data = make_data()
    figures = data["suites"][SUITE]
    figures["network"] = summarise_network(
        {"pong": (0.1, None, 0.3), "qbert": (0.3,) * 3}
    )
    figures["rollouts_sha256"] = "cd" * 32
    network = read_network(figures)
    assert network is not None
    assert network.value_nmse.seeds == pytest.approx((0.2, 0.3, 0.3))
    assert network.nmse_of("pong") == pytest.approx(0.2)
    assert network.nmse_of("breakout") is None
    table = render_baselines(data).splitlines()
    assert table[7] == "| network (privileged) | 0.267 (0.200 … 0.300) | – | – | – |"


def test_runs_with_unlike_rollouts_have_no_common_error() -> None:
    digests = ("cd" * 32, None)
    scores = [
        make_score(1.0, None).model_copy(update={"rollouts_sha256": digest})
        for digest in digests
    ]
    assert "value_nmse" not in summarise_errors(scores)["errors"]


def test_filling_keeps_the_rest_of_the_page() -> None:
    page = "a\n<!-- baselines -->\nold\n<!-- end of baselines -->\nz\n"
    assert fill_baselines(page, {"suites": {}}) == page.replace(
        "old", "\nNot measured yet.\n"
    )
