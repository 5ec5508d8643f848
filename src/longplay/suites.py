"""The catalogue of suites.

One declaration per suite; `plugins` has those of other packages. A suite is immutable:
a change that can affect a score gets a new id with a new version. A run can override
settings; its suite is then called `<suite>+<first 8 hex of the hash of its settings>`,
the same for all seeds, so that it is never mistaken for the original.

    suite id := <track>[-<shape>]-v<version>      stream-8x3-v1: 8 games, 3 cycles
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, ValidationError

from longplay import plugins
from longplay.console.machines import machine_of
from longplay.contract.config import (
    ActionIdx,
    Count,
    Delay,
    Discount,
    FrameSkip,
    RewardRule,
    ScoringDefaults,
    Sticky,
)
from longplay.contract.documents import Document
from longplay.contract.files import describe_invalid
from longplay.errors import ConfigError, UnknownNameError

# Results use a suite's official seeds; tuning uses seeds from here on. Without a seed
# this one is played, so that official seeds are spent on purpose.
FIRST_TUNING_SEED = 1000

# The whole schedule is drawn and written before the first frame.
MAX_VISITS = 10_000
MAX_VISIT_FRAMES = 2**39


NumCycles = Annotated[Count, Field(description="How often each game is visited.")]
Jitter = Annotated[
    float, Field(ge=0, lt=1, description="Largest random change of a visit's length.")
]
ShuffleGames = Annotated[
    bool, Field(description="Whether the seed draws the order of games of each cycle.")
]


class Suite(Document):
    """All settings of a benchmark except for the seed."""

    model_config = ConfigDict(extra="forbid")

    # Name of an entry in `TRACKS`.
    track: ClassVar[str] = "streaming"

    suite_id: str = Field(exclude=True)
    purpose: str = Field(exclude=True)
    official_seeds: tuple[int, ...] = Field(default=(0, 1, 2, 3, 4), exclude=True)
    # Its Gymnasium environment; None for a suite whose actions are not the agent's.
    env_id: str | None = Field(default=None, exclude=True)

    games: Annotated[tuple[str, ...], Field(min_length=1)]
    num_cycles: NumCycles
    base_visit_frames: Count = Field(description="Frames of a visit, before jitter.")
    jitter_pct: Jitter
    min_visit_frames: Count = Field(default=1, description="Shortest visit.")
    shuffle_games: ShuffleGames = True

    decision_interval: Count
    delay: Delay
    sticky: Sticky = 0.25
    full_action_space: bool = True
    life_loss_termination: bool = False
    default_action_idx: ActionIdx = 0

    scoring_defaults: ScoringDefaults

    @property
    def references(self) -> str | None:
        """Digest of the suite's references; None if it has none."""
        return None

    def check_change(self, name: str) -> None:
        """Rejects overrides of settings that the suite depends on."""

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that can be overridden, as plain JSON values."""
        return self.model_dump(mode="json")

    @property
    def recorded_settings(self) -> dict[str, Any]:
        """The settings in config.json, of which the name of a changed suite is made.

        The order of games is left out where it is the track's usual one: older runs
        do not have it.
        """
        usual = type(self).model_fields["shuffle_games"].default
        return {
            name: value
            for name, value in self.settings.items()
            if name != "shuffle_games" or value != usual
        }

    def _repr_html_(self) -> str:
        """The suite as a notebook shows it."""
        from longplay.tables import TextTable, render_html

        facts = {
            "purpose": self.purpose,
            "official seeds": ", ".join(map(str, self.official_seeds)),
            "Gymnasium": self.env_id,
            **{name: json.dumps(value) for name, value in self.settings.items()},
        }
        return render_html(
            TextTable.of(self.suite_id, ("", ""), facts.items(), texts=[1])
        )


class ControlSuite(Suite):
    """A suite of the control track: timesteps of several emulator frames."""

    track: ClassVar[str] = "control"

    num_cycles: NumCycles = 1
    jitter_pct: Jitter = 0.0
    shuffle_games: ShuffleGames = False
    decision_interval: Count = 1
    delay: Delay = 0

    frame_skip: FrameSkip = 4
    reward: RewardRule = "sign"
    discount: Discount = 0.99


class PredictionSuite(ControlSuite):
    """A suite of the prediction track: fixed policies play, the agent predicts."""

    track: ClassVar[str] = "prediction"
    # Changing anything else would make the reference values wrong.
    _OVERRIDABLE: ClassVar[tuple[str, ...]] = ("games", "base_visit_frames")

    def check_change(self, name: str) -> None:
        """Rejects settings that the references were not made for."""
        if name not in self._OVERRIDABLE:
            raise ConfigError(
                f"{name}: cannot be changed in {self.suite_id}, because its reference "
                f"values would be wrong; expected one of {', '.join(self._OVERRIDABLE)}"
            )

    @property
    def references(self) -> str | None:
        """Digest of the references; with others it is another suite."""
        return _REFERENCES[self.suite_id]


def _scoring(window_frames: int, revisit_frames: int) -> ScoringDefaults:
    return ScoringDefaults(
        window_frames=window_frames,
        bottom_k_frac=0.25,
        revisit_frames=revisit_frames,
        final_score_weights=(0.5, 0.5),
    )


_THREE_GAMES = ("centipede", "ms_pacman", "qbert")
_EIGHT_GAMES = tuple(
    "ms_pacman centipede qbert defender krull atlantis up_n_down battle_zone".split()
)

_THREE_CONTROL_GAMES = ("qbert", "crazy_climber", "road_runner")

_SIX_GAMES = tuple("breakout qbert road_runner ms_pacman seaquest asterix".split())

_TWENTY_GAMES = tuple(
    """
    pong breakout space_invaders ms_pacman asterix qbert seaquest beam_rider phoenix
    atlantis asteroids battle_zone centipede demon_attack enduro fishing_derby
    ice_hockey jamesbond kangaroo road_runner
    """.split()
)

# Suite -> `reference_sha256` of the references it is played with.
_REFERENCES: Mapping[str, str] = {
    "prediction-smoke-v1": (
        "daab233960c4df02a39fb0f01ea773b4966f17cfdf57a5cbb8d8ec94812318db"
    ),
    "prediction-6x3-v1": (
        "c39646dac4a9ea55221bfaaa6c1e08fa0884c66501517ffe9a92cea96d751c41"
    ),
    "prediction-v1": (
        "dd0cb2dafba6b10afe0d008993d2163597086ad28bc997c42e36e009b83a953b"
    ),
}

SUITES: dict[str, Suite] = {
    suite.suite_id: suite
    for suite in (
        Suite(
            suite_id="stream-smoke-v1",
            purpose="smoke test",
            env_id="longplay/StreamSmoke-v1",
            games=_THREE_GAMES,
            num_cycles=2,
            base_visit_frames=2_000,
            jitter_pct=0.05,
            decision_interval=4,
            delay=2,
            scoring_defaults=_scoring(500, 200),
        ),
        Suite(
            suite_id="stream-3x2-v1",
            purpose="a first result",
            env_id="longplay/Stream3x2-v1",
            games=_THREE_GAMES,
            num_cycles=2,
            base_visit_frames=200_000,
            jitter_pct=0.07,
            decision_interval=4,
            delay=6,
            scoring_defaults=_scoring(5_000, 2_000),
        ),
        Suite(
            suite_id="stream-8x3-v1",
            purpose="the benchmark",
            env_id="longplay/Stream-v1",
            official_seeds=(0, 1, 2),
            games=_EIGHT_GAMES,
            num_cycles=3,
            base_visit_frames=200_000,
            jitter_pct=0.07,
            min_visit_frames=20_000,
            decision_interval=4,
            delay=6,
            scoring_defaults=_scoring(5_000, 2_000),
        ),
        Suite(
            suite_id="stream-8x3-1m-v1",
            purpose="the long benchmark",
            env_id="longplay/Stream8x3-1m-v1",
            official_seeds=(0, 1, 2),
            games=_EIGHT_GAMES,
            num_cycles=3,
            base_visit_frames=1_000_000,
            jitter_pct=0.0,
            decision_interval=1,
            delay=0,
            scoring_defaults=_scoring(5_000, 2_000),
        ),
        ControlSuite(
            suite_id="control-smoke-v1",
            purpose="smoke test of control agents",
            env_id="longplay/ControlSmoke-v1",
            games=_TWENTY_GAMES[:3],
            base_visit_frames=500,
            scoring_defaults=_scoring(200, 100),
        ),
        ControlSuite(
            suite_id="control-v1",
            purpose="the control benchmark",
            env_id="longplay/Control-v1",
            games=_TWENTY_GAMES,
            base_visit_frames=10_000,
            scoring_defaults=_scoring(2_000, 1_000),
        ),
        ControlSuite(
            suite_id="control-3x3-v1",
            purpose="short control with revisits",
            env_id="longplay/Control3x3-v1",
            games=_THREE_CONTROL_GAMES,
            num_cycles=3,
            base_visit_frames=15_000,
            shuffle_games=True,
            scoring_defaults=_scoring(2_000, 1_000),
        ),
        ControlSuite(
            suite_id="control-6x3-v1",
            purpose="control with revisits",
            env_id="longplay/Control6x3-v1",
            games=_SIX_GAMES,
            num_cycles=3,
            base_visit_frames=20_000,
            scoring_defaults=_scoring(2_000, 1_000),
        ),
        PredictionSuite(
            suite_id="prediction-smoke-v1",
            purpose="smoke test of predictors",
            games=_TWENTY_GAMES[:3],
            base_visit_frames=500,
            scoring_defaults=_scoring(200, 100),
        ),
        PredictionSuite(
            suite_id="prediction-v1",
            purpose="the prediction benchmark",
            games=_TWENTY_GAMES,
            base_visit_frames=10_000,
            scoring_defaults=_scoring(2_000, 1_000),
        ),
        PredictionSuite(
            suite_id="prediction-6x3-v1",
            purpose="predictions with revisits",
            games=_SIX_GAMES,
            num_cycles=3,
            base_visit_frames=5_000,
            shuffle_games=True,
            scoring_defaults=_scoring(2_000, 1_000),
        ),
    )
}


# References are made for this suite, and its visits are recorded.
REFERENCE_SUITE = SUITES["prediction-v1"]


def add_suite(suite: Suite) -> None:
    """Adds a suite to the catalogue.

    Raises:
        ConfigError: The id is taken, or a game cannot be played.
    """
    if suite.suite_id in SUITES:
        raise ConfigError(f"suite {suite.suite_id!r} is already in the catalogue")
    _check_games(suite.games)
    SUITES[suite.suite_id] = suite


def find_suite(suite_id: str) -> Suite | None:
    """A suite of the catalogue or of an installed package; None if it is unknown.

    Raises:
        ConfigError: The package that offers it is broken.
    """
    if suite_id not in SUITES:
        installed = plugins.load_entry_point(plugins.SUITES, suite_id, Suite)
        if installed is not None:
            _check_name(installed, suite_id)
            add_suite(installed)
    return SUITES.get(suite_id)


def _check_name(suite: Suite, name: str) -> None:
    if suite.suite_id != name:
        raise ConfigError(
            f"entry point {name!r} of {plugins.SUITES}: expected a suite of this id, "
            f"found {suite.suite_id!r}"
        )


def get_suite(suite_id: str) -> Suite:
    """Returns a suite of the catalogue or of an installed package.

    Raises:
        UnknownNameError: There is none of this id.
        ConfigError: The package that offers it is broken.
    """
    found = find_suite(suite_id)
    if found is None:
        known = [*SUITES, *plugins.list_entry_points(plugins.SUITES)]
        raise UnknownNameError(
            "suite", suite_id, known, hint="(`longplay suites` lists them)"
        )
    return found


def list_suites() -> Mapping[str, Suite]:
    """All suites by id, with those of installed packages.

    Raises:
        ConfigError: A package that offers one is broken.
    """
    for suite_id in plugins.list_entry_points(plugins.SUITES):
        find_suite(suite_id)
    return SUITES


def find_split(suite_name: str, seed: int) -> str | None:
    """`test` for an official seed, `val` for a tuning seed, None for any other.

    Args:
        suite_name: A suite in the catalogue; a changed suite has no official seeds.
        seed: The run seed.
    """
    if seed >= FIRST_TUNING_SEED:
        return "val"
    suite = find_suite(suite_name)
    return "test" if suite is not None and seed in suite.official_seeds else None


def describe_seeds(
    suite_name: str, seeds: Sequence[int], *, are_given: bool
) -> str | None:
    """What the seeds of an experiment mean, in one line; None if nothing special.

    Args:
        suite_name: A suite in the catalogue, or the name of a changed one.
        seeds: The run seeds.
        are_given: Whether the user chose them.
    """
    if not are_given:
        return (
            f"no seed was given: playing tuning seed {seeds[0]}; official seeds are "
            "played when they are named"
        )
    return describe_official({suite_name: seeds})


def describe_official(seeds: Mapping[str, Sequence[int]]) -> str | None:
    """What playing official seeds means, in one line; None if there are none.

    Args:
        seeds: Name of a suite -> the run seeds.
    """
    suites_of: dict[tuple[int, ...], list[str]] = {}
    for name, given in seeds.items():
        official = tuple(s for s in given if find_split(name, s) == "test")
        if official:
            suites_of.setdefault(official, []).append(name)
    if not suites_of:
        return None
    parts = [
        f"{', '.join(map(str, official))} "
        f"{'are official seeds' if len(official) > 1 else 'is an official seed'} "
        f"of {', '.join(names)}"
        for official, names in suites_of.items()
    ]
    return (
        f"{'; '.join(parts)}: the score is a result; choose agents and settings on "
        f"seeds from {FIRST_TUNING_SEED} on"
    )


def override_suite(suite: Suite, overrides: Mapping[str, Any]) -> Suite:
    """Returns the suite with some settings changed and checked.

    Args:
        suite: The suite to change.
        overrides: Setting -> value; nested settings may be given nested or dotted, as
            `scoring_defaults.window_frames`.

    Raises:
        ConfigError: Names the setting, what was expected and what was found.
    """
    settings = suite.settings
    for name, value in flatten_settings(suite, overrides).items():
        target = settings
        *parents, leaf = name.split(".")
        for parent in parents:
            target = target[parent]
        if target[leaf] != _check_plain(name, value):
            suite.check_change(name)
        target[leaf] = value
    identity = {
        "suite_id": suite.suite_id,
        "purpose": suite.purpose,
        "official_seeds": suite.official_seeds,
        "env_id": suite.env_id,
    }
    try:
        # Validated as JSON: strict types, but a list is a valid tuple.
        changed = type(suite).model_validate_json(json.dumps({**identity, **settings}))
    except ValidationError as error:
        raise ConfigError(describe_invalid(error)) from error
    _check_games(changed.games)
    # Visits may be almost twice as long as their base.
    if changed.base_visit_frames > MAX_VISIT_FRAMES:
        raise ConfigError(
            f"base_visit_frames: expected at most {MAX_VISIT_FRAMES:,}, found "
            f"{changed.base_visit_frames:,}"
        )
    if changed.num_cycles * len(changed.games) > MAX_VISITS:
        raise ConfigError(
            f"num_cycles: expected at most {MAX_VISITS:,} visits in total, found "
            f"{changed.num_cycles:,} cycles of {len(changed.games)} games"
        )
    return changed


def flatten_settings(suite: Suite, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Turns nested settings into dotted names; rejects unknown ones."""
    known = set(_dotted(suite.settings))
    flat = _dotted(overrides)
    for name in flat:
        if name not in known:
            raise UnknownNameError("setting", name, known)
    return flat


def _dotted(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= _dotted(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _check_plain(name: str, value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{name}: expected a plain, finite JSON value, found {value!r}"
        ) from error
    return value


def _check_games(games: tuple[str, ...]) -> None:
    machine_of(games)
    if len(set(games)) != len(games):
        twice = next(game for game in games if games.count(game) > 1)
        raise ConfigError(f"games: expected no duplicates, found {twice!r} twice")
