"""Suite + overrides + seed -> everything known about a run before its first frame.

The runner plays a plan; `--dry-run` prints it; validation derives it again and checks
the run directory against it, so that emulator seeds cannot be picked and suites cannot
be renamed. A new plan of a prediction run uses the installed references; a plan that is
derived again uses the recorded ones. Otherwise planning is a pure function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

from longplay.contract.config import (
    GLOBAL_ACTION_SET,
    ActionMappingPolicy,
    ConfigGiven,
    ProbeConfig,
    RunConfig,
    ScheduledVisit,
)
from longplay.contract.fingerprint import contract_hash, hash_payload
from longplay.errors import ConfigError, UnknownNameError
from longplay.reference.library import hash_references
from longplay.schedule import draw_visits, make_schedule
from longplay.seeds import branch_emulator_seed, check_seed, emulator_seed
from longplay.suites import Suite, flatten_settings, get_suite, override_suite
from longplay.tracks.catalogue import get_track

# Measured over runs of the suites: a row of events.jsonl and its share of other files.
BYTES_PER_FRAME = 275


def name_task(benchmark_name: str, seed: int) -> str:
    """Names a task in records: benchmark and seed."""
    return f"{benchmark_name}/seed-{seed}"


def name_trajectory(suite_name: str, seed: int) -> str:
    """Names a run, and its folder."""
    return f"{suite_name}_seed-{seed}"


def name_benchmark(config: RunConfig) -> str | None:
    """The name of a run's suite, which all seeds of the same settings share.

    It is `config.suite`, except in older runs of changed suites: their name contains
    the contract hash, which covers the schedule and so differs from seed to seed.

    Returns:
        The name; None for a run of another tool, which has no suite.
    """
    given = config.config_given
    if config.suite is None or given is None or config.suite == given.suite:
        return config.suite
    settings = config.config_effective or {}
    return _name_changed(given.suite, settings, config.reference_sha256)


def _name_changed(
    suite_id: str, settings: Mapping[str, Any], reference_sha256: str | None
) -> str:
    """Names a changed suite by the settings that its seeds share."""
    shared = {"settings": settings, "reference_sha256": reference_sha256}
    return f"{suite_id}+{hash_payload(shared)[:8]}"


@dataclass(frozen=True)
class RunPlan:
    """The plan of one run; its config is made when it is asked for.

    An experiment may plan 100,000 runs, of which most commands need names only.
    """

    suite: Suite
    seed: int
    given: ConfigGiven
    is_catalogued: bool
    # Before 0.2, a changed suite was named after its contract hash.
    has_older_name: bool = False
    # Of a probe: what it is a probe of, and the games that are asked for.
    probe: ProbeConfig | None = None
    probed_games: tuple[str, ...] = ()

    @cached_property
    def config(self) -> RunConfig:
        """config.json, without agent and provenance."""
        config = _make_config(self.suite, self.seed, self.given)
        name = self.benchmark_name
        if self.has_older_name:
            name = f"{self.given.suite}+{config.benchmark_contract_hash[:8]}"
        config = config.model_copy(update={"suite": name})
        if self.probe is None:
            return config
        return _branch_config(config, self.probe, self.probed_games)

    @property
    def suite_name(self) -> str:
        """The suite; in older runs of a changed suite a name of this seed alone."""
        return str(self.config.suite) if self.has_older_name else self.benchmark_name

    @property
    def total_frames(self) -> int:
        """Frames to be played."""
        is_drawn = self.given.stop_after is None and self.probe is None
        if "config" in self.__dict__ or not is_drawn:
            return self.config.total_frames
        return sum(frames for _, _, frames in draw_visits(self.suite, self.seed))

    @property
    def headline(self) -> str:
        """The number by which runs of the track are compared."""
        return get_track(self.suite.track).contract.score_type.HEADLINE

    @property
    def task_id(self) -> str:
        """Names the task in records: benchmark and seed."""
        return name_task(self.benchmark_name, self.seed)

    @property
    def benchmark_name(self) -> str:
        """The suite; one with changed settings is named after them."""
        suite_id, references = self.given.suite, self.given.reference_sha256
        if self.is_catalogued:
            return suite_id
        return _name_changed(suite_id, self.suite.recorded_settings, references)

    @property
    def trajectory_id(self) -> str:
        """Names the run, and its folder."""
        name = name_trajectory(self.suite_name, self.seed)
        return name if self.probe is None else f"{name}_{self.probe.state}"

    @property
    def expected_bytes(self) -> int:
        """Approximate size of the run directory."""
        return self.config.total_frames * BYTES_PER_FRAME + 64 * 1024

    def repeat(self, seeds: Sequence[int]) -> tuple[RunPlan, ...]:
        """The same plan for each of some seeds."""
        return tuple(replace(self, seed=check_seed(seed)) for seed in seeds)


def plan_run(
    suite_id: str,
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
    reference_sha256: str | None = None,
    stop_after: float | None = None,
) -> RunPlan:
    """Plans one run of a suite in the catalogue.

    Args:
        suite_id: Id in the catalogue.
        seed: The run seed.
        overrides: Settings to change.
        reference_sha256: References of a prediction run; the installed ones if None.
        stop_after: Fraction of the schedule that a tuning run plays.

    Raises:
        ConfigError: An unknown suite or setting, a value out of range, or a game
            without a reference.
    """
    catalogued = get_suite(suite_id)
    flat = flatten_settings(catalogued, overrides or {})
    suite = override_suite(catalogued, flat)
    references = reference_sha256
    if suite.references is not None and references is None:
        references = hash_references(suite.games)
    given = ConfigGiven(
        suite=suite_id,
        overrides=flat,
        reference_sha256=references,
        stop_after=_check_fraction(stop_after),
    )
    is_catalogued = suite == catalogued and references == catalogued.references
    return RunPlan(suite, check_seed(seed), given, is_catalogued)


def plan_probe(
    plan: RunPlan, probe: ProbeConfig, games: Sequence[str] | None = None
) -> RunPlan:
    """Plans a probe: branches of some games, all from one state of a run's agent.

    Args:
        plan: The run whose agent is probed.
        probe: The state, and how it is asked.
        games: The games, in the order in which they are played; all by default.

    Raises:
        ConfigError: A game is not one of the suite's, or is named twice.
    """
    games = plan.suite.games if games is None else tuple(games)
    for game in games:
        if game not in plan.suite.games:
            raise UnknownNameError("game of the suite", game, plan.suite.games)
    if not games or len(set(games)) < len(games):
        raise ConfigError(f"games: expected each game once, found {', '.join(games)}")
    return replace(plan, probe=probe, probed_games=games)


def plan_again(given: ConfigGiven, seed: int, name: str | None = None) -> RunPlan:
    """Derives the plan of recorded settings again.

    Args:
        given: The settings.
        seed: The run seed.
        name: The recorded name of the suite, which can be an older one.

    Raises:
        ConfigError: The settings are not valid.
    """
    plan = plan_run(
        given.suite, seed, given.overrides, given.reference_sha256, given.stop_after
    )
    if plan.is_catalogued or name in (None, plan.benchmark_name):
        return plan
    older = replace(plan, has_older_name=True)
    return older if older.suite_name == name else plan


def _check_fraction(stop_after: float | None) -> float | None:
    if stop_after is None or 0 < stop_after < 1:
        return stop_after
    raise ConfigError(
        f"stop_after: expected a fraction between 0 and 1, found {stop_after}"
    )


def _branch_config(
    config: RunConfig, probe: ProbeConfig, games: Sequence[str]
) -> RunConfig:
    """The config of a run -> that of a probe of its agent.

    A visit of the schedule is a branch; its cycle is the number of the branch.
    """
    assert config.seed is not None
    places = [(game, k) for game in games for k in range(probe.branches)]
    schedule = tuple(
        ScheduledVisit(
            visit_idx=idx, cycle_idx=k, game_id=game, visit_frames=probe.frames
        )
        for idx, (game, k) in enumerate(places)
    )
    seeds = tuple(
        branch_emulator_seed(config.seed, config.games.index(game), k)
        for game, k in places
    )
    config = config.model_copy(
        update={
            "schedule": schedule,
            "emulator_seeds": seeds,
            "stop_frame": None,
            "probe": probe,
        }
    )
    return config.model_copy(update={"benchmark_contract_hash": contract_hash(config)})


def _make_config(suite: Suite, seed: int, given: ConfigGiven) -> RunConfig:
    schedule = tuple(make_schedule(suite, seed))
    contract = get_track(suite.track).contract
    required = {
        name: getattr(given if name == "reference_sha256" else suite, name)
        for name in contract.settings
    }
    frames = sum(visit.visit_frames for visit in schedule)
    stop_frame = None if given.stop_after is None else ceil(given.stop_after * frames)
    config = RunConfig(
        games=suite.games,
        schedule=schedule,
        decision_interval=suite.decision_interval,
        delay=suite.delay,
        sticky=suite.sticky,
        life_loss_termination=suite.life_loss_termination,
        full_action_space=suite.full_action_space,
        action_mapping_policy=ActionMappingPolicy(global_action_set=GLOBAL_ACTION_SET),
        default_action_idx=suite.default_action_idx,
        scoring_defaults=suite.scoring_defaults,
        benchmark_contract_version=contract.name,
        benchmark_contract_hash="0" * 64,
        seed=seed,
        emulator_seeds=tuple(
            emulator_seed(seed, visit.visit_idx) for visit in schedule
        ),
        stop_frame=stop_frame,
        config_given=given,
        config_effective=suite.recorded_settings,
        **{"track": suite.track, **required},
    )
    return config.model_copy(update={"benchmark_contract_hash": contract_hash(config)})
