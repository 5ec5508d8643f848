"""Measures the predictors of examples/ with `longplay run`; writes the shipped data.

    python tools/prediction_baselines.py [--folder runs/prediction-baselines]
        [--workers 2] [--suites prediction-smoke-v1,prediction-v1]

The official seeds of a suite, every predictor. A run in the folder is not played again,
so this can be stopped and restarted. Suites that are not requested keep their figures.
The table of docs/prediction.md is written with the data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from longplay.contract.documents import PredictionScore
from longplay.contract.files import read_json, write_document, write_file
from longplay.contract.rundir import RunDirectory
from longplay.reference.library import DATA as DATA_OF_REFERENCES
from longplay.reference.rollout_file import find_rollouts
from longplay.scoring import prediction_baselines as baselines
from longplay.scoring.metrics import mean_or_none
from longplay.suites import get_suite
from measured_runs import Job, measure_all
from references.reference_tables import fill_baselines
from references.rollout_table import read_rows

SUITE_IDS = ("prediction-smoke-v1", "prediction-v1")
ROOT = Path(__file__).resolve().parent.parent
DATA = Path(baselines.__file__).parent / "data" / "prediction.json"
PAGE = ROOT / "docs" / "prediction.md"


def summarise_network(games: Mapping[str, Sequence[float | None]]) -> dict[str, Any]:
    """Game -> value_nmse per seed -> its figures as they are shipped."""
    per_seed = zip(*games.values(), strict=True)
    means = [mean_or_none([e for e in own if e is not None]) for own in per_seed]
    return {
        "errors": {"value_nmse": _summarise(means)},
        "games": {game: {"value_nmse": _summarise(own)} for game, own in games.items()},
    }


def summarise_errors(scores: Sequence[PredictionScore]) -> dict[str, Any]:
    """Scores of one predictor, one per seed -> its figures as they are shipped."""
    names = ["mse", "nmse", "return_mse"]
    rollouts = {score.rollouts_sha256 for score in scores}
    if len(rollouts) == 1 and None not in rollouts:
        names.append("value_nmse")
    return {
        "errors": {
            name: _summarise([getattr(score, name) for score in scores])
            for name in (*names, "median_nmse")
        },
        "games": {
            game: _summarise_game(scores, game, names)
            for game in scores[0].per_game_mse
        },
    }


def _summarise_game(
    scores: Sequence[PredictionScore], game: str, names: Sequence[str]
) -> dict[str, Any]:
    """Not all games have rollout values."""
    figures = {}
    for name in names:
        per_seed = [getattr(score, f"per_game_{name}") for score in scores]
        if game in per_seed[0]:
            figures[name] = _summarise([errors[game] for errors in per_seed])
    return figures


def _summarise(errors: Sequence[float | None]) -> dict[str, Any]:
    measured = baselines.MeasuredError.over_seeds(errors)
    return {"mean": measured.mean, "seeds": list(measured.seeds)}


def measure_suite(suite_id: str, folder: Path, workers: int) -> dict[str, Any]:
    """The figures of one suite: every predictor, every official seed."""
    seeds = get_suite(suite_id).official_seeds
    jobs = [
        Job(
            suite_id,
            str(ROOT / "examples" / f"prediction_{name}.py"),
            seed,
            folder / f"{suite_id}_{name}_seed-{seed}",
        )
        for name, seed in product(baselines.PREDICTORS, seeds)
    ]
    runs = measure_all(jobs, workers)
    check_references(suite_id, runs)
    of_predictor = {
        name: runs[k * len(seeds) : (k + 1) * len(seeds)]
        for k, name in enumerate(baselines.PREDICTORS)
    }
    return {
        "reference_sha256": runs[0].config.reference_sha256,
        "rollouts_sha256": _rollouts_of(runs[0]),
        "seeds": list(seeds),
        "contract_hashes": [
            run.config.benchmark_contract_hash for run in runs[: len(seeds)]
        ],
        "versions": runs[0].config.versions,
        "predictors": {name: summarise(own) for name, own in of_predictor.items()},
        **_measure_network(runs[0]),
    }


def _measure_network(run: RunDirectory) -> dict[str, Any]:
    """The value network on the visits of a suite that have rollout values."""
    if find_rollouts(run.config) is None:
        return {}
    rows = {row.game: row.network_nmse for row in read_rows(DATA_OF_REFERENCES)}
    games = {game: rows[game] for game in run.config.games if game in rows}
    return {"network": summarise_network(games)}


def check_references(suite_id: str, runs: list[RunDirectory]) -> None:
    """Refuses runs that were left in the folder by other references or rollouts."""
    expected = get_suite(suite_id).references
    for run in runs:
        if run.config.reference_sha256 != expected:
            sys.exit(f"{run.path} has other references: remove it and start again")
        rollouts = find_rollouts(run.config)
        if _rollouts_of(run) != (None if rollouts is None else rollouts.sha256):
            sys.exit(f"{run.path} was scored with other rollouts: remove it")


def _rollouts_of(run: RunDirectory) -> str | None:
    assert isinstance(run.score, PredictionScore)
    return run.score.rollouts_sha256


def summarise(runs: list[RunDirectory]) -> dict[str, Any]:
    """The figures of one predictor over its seeds."""
    scores = [run.score for run in runs if isinstance(run.score, PredictionScore)]
    assert len(scores) == len(runs)
    agent = runs[0].config.agent
    assert agent is not None
    return {"agent_id": agent.agent_id, **summarise_errors(scores)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("runs/prediction-baselines")
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--suites", default=",".join(SUITE_IDS))
    options = parser.parse_args()
    data = read_json(DATA)
    for suite_id in options.suites.split(","):
        figures = measure_suite(suite_id, options.folder, options.workers)
        data["suites"][suite_id] = figures
    write_document(DATA, data)
    page = PAGE.read_text(encoding="utf-8")
    write_file(PAGE, fill_baselines(page, data).encode())
    print(f"wrote {DATA} and {PAGE}")


if __name__ == "__main__":
    main()
