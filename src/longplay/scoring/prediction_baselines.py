"""Errors of three simple predictors, shipped as data to compare with.

`data/prediction.json` is written by `make prediction-baselines` from runs of the
examples with `longplay run`, on the official seeds of every suite:

    suites.<suite>.reference_sha256, rollouts_sha256, seeds, contract_hashes, versions
    suites.<suite>.predictors.<name>.agent_id, errors, games.<game>
        errors and each game: {"mse": {"mean": …, "seeds": […]}, "nmse": …, …}
        with `value_nmse` where all runs have rollout values of the same digest
    suites.<suite>.network.errors, games.<game>
        `value_nmse` of the value network, where there are rollout values

Errors against other values, or on visits of another length, cannot be compared. So
figures are only given for the unchanged suite with the references of the measurement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from msgspec import convert

from longplay.scoring.metrics import mean_or_none

# Keys of the shipped data -> names for people, from weakest to strongest.
PREDICTORS = {"zero": "zero", "mean": "running mean", "td_lambda": "TD(λ)"}


@dataclass(frozen=True)
class MeasuredError:
    """One kind of error: per seed, with nulls, and the mean without them."""

    mean: float | None
    seeds: tuple[float | None, ...]

    @classmethod
    def over_seeds(cls, errors: Sequence[float | None]) -> MeasuredError:
        """From the errors of each seed."""
        known = [error for error in errors if error is not None]
        return cls(mean_or_none(known), tuple(errors))


@dataclass(frozen=True)
class MeasuredErrors:
    """The errors of a predictor, on a game or on all of them.

    `value_nmse` is None where there were no rollout values to compare with.
    """

    mse: MeasuredError
    nmse: MeasuredError
    return_mse: MeasuredError
    value_nmse: MeasuredError | None = None


@dataclass(frozen=True)
class PredictorBaseline:
    """A predictor on one suite.

    Attributes:
        name: One of `PREDICTORS`.
        suite_id: The measured suite.
        emulator: Version of ale-py.
        rollouts_sha256: Digest of the rollout values behind `value_nmse`, if any.
        seeds: The measured seeds.
        errors: Means over games.
        median_nmse: The median over games.
        games: Game -> its errors there.
    """

    name: str
    suite_id: str
    emulator: str
    rollouts_sha256: str | None
    seeds: tuple[int, ...]
    errors: MeasuredErrors
    median_nmse: MeasuredError
    games: dict[str, MeasuredErrors]

    def nmse_of(self, game: str) -> float | None:
        """Its error on one game, mean over seeds."""
        errors = self.games.get(game)
        return None if errors is None else errors.nmse.mean

    def value_nmse_of(self, game: str) -> float | None:
        """The same against rollout values; None where there are none."""
        errors = self.games.get(game)
        found = None if errors is None else errors.value_nmse
        return None if found is None else found.mean

    @property
    def label(self) -> str:
        """Its name for people."""
        return PREDICTORS[self.name]


@dataclass(frozen=True)
class PrivilegedNetwork:
    """The value network as a predictor: it sees the console's memory.

    Attributes:
        value_nmse: Its mean over games.
        games: Game -> its error there.
    """

    value_nmse: MeasuredError
    games: dict[str, MeasuredError]

    def nmse_of(self, game: str) -> float | None:
        """Its value_nmse on one game, mean over seeds."""
        errors = self.games.get(game)
        return None if errors is None else errors.mean


@cache
def read_data() -> dict[str, Any]:
    """The shipped document."""
    source = resources.files("longplay.scoring") / "data" / "prediction.json"
    data: dict[str, Any] = json.loads(source.read_bytes())
    return data


def prediction_baselines(
    suite_name: str | None, reference_sha256: str | None
) -> list[PredictorBaseline]:
    """The baselines of a run's suite; empty if suite or references differ."""
    entry = read_data()["suites"].get(suite_name)
    if suite_name is None or entry is None:
        return []
    if entry["reference_sha256"] != reference_sha256:
        return []
    return read_suite(suite_name, entry)


def privileged_network(
    suite_name: str | None, rollouts_sha256: str | None
) -> PrivilegedNetwork | None:
    """The value network on a suite; None if the rollout values differ."""
    entry = read_data()["suites"].get(suite_name) or {}
    if rollouts_sha256 is None or entry.get("rollouts_sha256") != rollouts_sha256:
        return None
    return read_network(entry)


def read_network(entry: Mapping[str, Any]) -> PrivilegedNetwork | None:
    """The value network in the figures of a suite, if they have it."""
    figures = entry.get("network")
    if figures is None:
        return None
    own = {game: row["value_nmse"] for game, row in figures["games"].items()}
    return convert(
        {"value_nmse": figures["errors"]["value_nmse"], "games": own},
        PrivilegedNetwork,
    )


def read_suite(suite_id: str, entry: Mapping[str, Any]) -> list[PredictorBaseline]:
    """The baselines in the figures of a suite."""
    return [
        PredictorBaseline(
            name=name,
            suite_id=suite_id,
            emulator=entry["versions"]["ale_py"],
            rollouts_sha256=entry.get("rollouts_sha256"),
            seeds=tuple(entry["seeds"]),
            errors=convert(figures["errors"], MeasuredErrors),
            median_nmse=convert(figures["errors"]["median_nmse"], MeasuredError),
            games=convert(figures["games"], dict[str, MeasuredErrors]),
        )
        for name, figures in entry["predictors"].items()
    ]
