"""The rows and documents of a run directory.

Rows are msgspec structs: one JSON object per line, strict types, keys in declared
order. Documents are pydantic models: whole JSON files. The field tables of
docs/contract.md and the JSON Schemas are generated from the descriptions here.

Keys that only longplay writes are optional on reading, so that a run of another tool
that has only the contract's required keys can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
from msgspec import Meta
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from longplay.contract.versions import (
    CONTRACT_VERSIONS,
    SCHEMA_VERSION,
    ContractVersion,
    add_contract_version,
    get_contract_version,
)

GLOBAL_ACTION_SET = tuple(range(18))

# Far above any run, and low enough that sums never overflow.
_LARGEST = 2**62
_LARGEST_COUNT = 2**40
# A stream keeps as many decisions as the delay, and plays as many emulator frames for a
# timestep as the frame skip says.
_LARGEST_DELAY = 10**6
_LARGEST_FRAME_SKIP = 1000
_LARGEST_SEED = 2**31 - 1
_LARGEST_REWARD = 1e15


def _count(description: str) -> Any:
    return Meta(ge=0, le=_LARGEST, description=description)


# --- Rows -----------------------------------------------------------------------


class RequiredEventRow(msgspec.Struct, gc=False):
    """The thirteen keys that contract v1 requires for every frame."""

    global_frame_idx: Annotated[int, _count("Frame of the run, from 0.")]
    game_id: Annotated[str, Meta(description="Game being played.")]
    visit_idx: Annotated[int, _count("Visit of the schedule, from 0.")]
    cycle_idx: Annotated[int, _count("Cycle the visit belongs to, from 0.")]
    visit_frame_idx: Annotated[int, _count("Frame of the visit, from 0.")]
    episode_id: Annotated[int, _count("Game episode of the run, from 0.")]
    segment_id: Annotated[int, _count("Segment of the run, from 0.")]
    is_decision_frame: Annotated[
        bool, Meta(description="Whether the agent decided on this frame.")
    ]
    decided_action_idx: Annotated[int, _count("Global index of the decision in force.")]
    applied_action_idx: Annotated[
        int, _count("Global index of the action given to the console.")
    ]
    reward: Annotated[
        float,
        Meta(
            ge=-_LARGEST_REWARD,
            le=_LARGEST_REWARD,
            description="Reward of this console step.",
        ),
    ]
    terminated: Annotated[
        bool, Meta(description="The game episode ended with this step.")
    ]
    truncated: Annotated[bool, Meta(description="This is the last frame of the visit.")]


class EventRow(RequiredEventRow, gc=False):
    """One frame: a row of events.jsonl as longplay writes it."""

    lives: Annotated[int, _count("Lives after the console step, before any reset.")]


class TimestepRow(EventRow, gc=False):
    """One timestep of several emulator frames: a row of a control run."""

    game_reward: Annotated[
        float,
        Meta(
            ge=-_LARGEST_REWARD,
            le=_LARGEST_REWARD,
            description="Sum of the game's own rewards; `reward` is derived from it.",
        ),
    ]
    emulator_frames: Annotated[int, _count("Emulator frames played in the timestep.")]


# The largest valid prediction: its square is still finite.
LARGEST_VALUE = _LARGEST_REWARD


def _value(description: str) -> Any:
    return Meta(ge=-LARGEST_VALUE, le=LARGEST_VALUE, description=description)


class PredictionRow(TimestepRow, gc=False):
    """One timestep of a prediction run; both values belong to its observation."""

    prediction: Annotated[float, _value("The agent's prediction before the timestep.")]
    target: Annotated[float, _value("The reference value, a float32.")]


EndedBy = Literal["terminated", "truncated"]


class EpisodeRow(msgspec.Struct, gc=False, rename={"return_": "return"}):
    """One game episode: a row of episodes.jsonl."""

    game_id: Annotated[str, Meta(description="Game it was played in.")]
    episode_id: Annotated[int, _count("Game episode of the run, from 0.")]
    start_global_frame_idx: Annotated[int, _count("Its first frame.")]
    end_global_frame_idx: Annotated[int, _count("Its last frame.")]
    length: Annotated[int, _count("Its number of frames.")]
    return_: Annotated[float, Meta(description="Sum of its rewards.")]
    ended_by: Annotated[
        EndedBy,
        Meta(description="`terminated` if the game ended it, else `truncated`."),
    ]


class SegmentRow(msgspec.Struct, gc=False, rename={"return_": "return"}):
    """The frames between two console resets: a row of segments.jsonl."""

    game_id: Annotated[str, Meta(description="Game it was played in.")]
    segment_id: Annotated[int, _count("Segment of the run, from 0.")]
    start_global_frame_idx: Annotated[int, _count("Its first frame.")]
    end_global_frame_idx: Annotated[int, _count("Its last frame.")]
    length: Annotated[int, _count("Its number of frames.")]
    return_: Annotated[float, Meta(description="Sum of its rewards.")]
    ended_by: Annotated[
        EndedBy,
        Meta(description="`truncated` if the visit ended it, else `terminated`."),
    ]


class DigestRow(msgspec.Struct, gc=False):
    """A digest of the frames since the previous row: a row of digests.jsonl."""

    global_frame_idx: Annotated[int, _count("Last frame it covers.")]
    visit_idx: Annotated[int, _count("Visit of that frame.")]
    visit_frame_idx: Annotated[int, _count("Frame of the visit.")]
    ram_crc32: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f]{8}$",
            description="CRC-32 over the memory after every console step of the visit.",
        ),
    ]
    chain: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f]{64}$",
            description="SHA-256 of the previous chain and of the events since.",
        ),
    ]


# Beyond any sum of squares of rewards and values, and finite.
_LARGEST_SUM = 1e300


_Sum = Annotated[float, Meta(ge=-_LARGEST_SUM, le=_LARGEST_SUM)]
_WindowSums = Annotated[list[_Sum], Meta(min_length=60, max_length=60)]


class CurveRow(msgspec.Struct, gc=False, omit_defaults=True):
    """Sums over the 60 windows of a visit that has ended: a row of curves.jsonl."""

    visit_idx: Annotated[int, _count("Visit of the schedule, from 0.")]
    game_id: Annotated[str, Meta(description="Game of the visit.")]
    cycle_idx: Annotated[int, _count("Cycle the visit belongs to, from 0.")]
    frames: Annotated[int, _count("Frames of the visit.")]
    reward_sums: Annotated[_WindowSums, Meta(description="Sums of rewards.")]
    squared_error_sums: Annotated[
        _WindowSums | None,
        Meta(description="Sums of (prediction - target)²; prediction runs only."),
    ] = None
    target_sums: Annotated[
        _WindowSums | None, Meta(description="Sums of targets; prediction runs only.")
    ] = None
    squared_target_sums: Annotated[
        _WindowSums | None, Meta(description="Sums of target²; prediction runs only.")
    ] = None


# --- Documents ------------------------------------------------------------------

# Ranges of settings, shared by config.json and the suites.
Count = Annotated[int, Field(ge=1, le=_LARGEST_COUNT)]
Delay = Annotated[int, Field(ge=0, le=_LARGEST_DELAY)]
FrameSkip = Annotated[int, Field(ge=1, le=_LARGEST_FRAME_SKIP)]
# A number of something that was played.
Total = Annotated[int, Field(ge=0, le=_LARGEST)]
Sticky = Annotated[float, Field(ge=0, lt=1)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Discount = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0)]


def _check_moment(text: str) -> str:
    """Rejects text in the format of a date that is not a valid one: month 99."""
    try:
        datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"expected a valid date and time, found {text!r}") from error
    return text


Utc = Annotated[
    str,
    Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"),
    AfterValidator(_check_moment),
]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
ActionIdx = Annotated[int, Field(ge=0, lt=len(GLOBAL_ACTION_SET))]


# How a game's reward is transformed before it is delivered.
RewardRule = Literal["raw", "sign"]


def is_none(value: object) -> bool:
    """For `exclude_if`: leaves a field without a value out of the file."""
    return value is None


class Document(BaseModel):
    """A whole JSON file: strict types, finite numbers, unknown keys kept."""

    model_config = ConfigDict(
        strict=True, extra="allow", allow_inf_nan=False, frozen=True
    )

    @classmethod
    def normalise(cls, given: Any) -> Any:
        """Converts another tool's document to the form of this model."""
        return given


class ScheduledVisit(Document):
    """One visit of the realised schedule."""

    visit_idx: int = Field(ge=0, description="Position in the schedule, from 0.")
    cycle_idx: int = Field(ge=0, le=_LARGEST_COUNT, description="Cycle, from 0.")
    game_id: str = Field(min_length=1, description="Game of the visit.")
    visit_frames: Count = Field(description="Exact number of frames.")


def visit_spans(schedule: Iterable[ScheduledVisit]) -> tuple[range, ...]:
    """The frames of the run that each visit covers, in the order of the schedule."""
    spans, start = [], 0
    for visit in schedule:
        spans.append(range(start, start + visit.visit_frames))
        start += visit.visit_frames
    return tuple(spans)


class ScoringDefaults(Document):
    """The windows and weights of scoring."""

    window_frames: Count = Field(description="Tail window of the per-game score.")
    bottom_k_frac: Fraction = Field(description="Share of games in bottom-k.")
    revisit_frames: Count = Field(description="Window of forgetting and plasticity.")
    final_score_weights: tuple[Weight, Weight] = Field(
        description="Weights of mean and bottom-k score."
    )


class ActionMappingPolicy(Document):
    """How global action indices map to a game's actions."""

    global_action_set: tuple[int, ...] = Field(
        min_length=1, description="Global action indices, in order."
    )


class AgentEntry(Document):
    """The agent of a run."""

    config: dict[str, Any] = Field(description="`_type` and arguments; no seed.")
    agent_id: str = Field(description="SHA-256 of the config's sorted JSON.")


class AgentFileEntry(Document):
    """One source file of the agent."""

    path: str = Field(
        min_length=1, description="Relative to the agent's folder, with slashes."
    )
    sha256: Sha256 = Field(description="SHA-256 of the file.")


IsolationLevel = Literal["none", "process", "sandbox"]


def _is_empty(value: object) -> bool:
    return not value


class AgentIsolation(Document):
    """How the agent was isolated from the referee; absent limits were not set."""

    level: IsolationLevel = Field(
        default="none", description="`none`, `process` or `sandbox`."
    )
    landlock_abi: int | None = Field(
        default=None, description="Version of Landlock; null without a sandbox."
    )
    allowed: tuple[str, ...] = Field(
        default=(), description="Paths given with `--sandbox-allow`."
    )
    variables: tuple[str, ...] = Field(
        default=(),
        exclude_if=_is_empty,
        description="Environment variables given with `--agent-env`.",
    )
    step_timeout_s: float | None = Field(
        default=None,
        gt=0,
        exclude_if=is_none,
        description="Time limit of a step, in seconds.",
    )
    memory_bytes: int | None = Field(
        default=None,
        gt=0,
        exclude_if=is_none,
        description="Limit of the resident memory of the agent's processes.",
    )


class GitState(Document):
    """The checkout the run was started in."""

    commit: str | None = None
    is_dirty: bool | None = None
    remote_url: str | None = None


class ConfigGiven(Document):
    """The requested settings: enough to derive the run again."""

    suite: str = Field(description="Id of a suite in the catalogue.")
    overrides: dict[str, Any] = Field(description="Changed settings, as given.")
    reference_sha256: Sha256 | None = Field(
        default=None,
        exclude_if=is_none,
        description="Digest of the references used; prediction runs.",
    )
    stop_after: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None,
        exclude_if=is_none,
        description="Fraction of the schedule that a tuning run plays.",
    )


def find_delay(given: Mapping[str, Any]) -> Any:
    """The delay in another tool's config: the first key that is not null."""
    runner = given.get("runner_config")
    delays = [given.get("delay_frames"), given.get("delay")]
    if isinstance(runner, Mapping):
        delays.append(runner.get("delay_frames"))
    return next((delay for delay in delays if delay is not None), None)


def _check_version(name: str) -> str:
    return get_contract_version(name).name


class ProbeOrigin(Document):
    """The run whose agent is probed."""

    suite: str = Field(description="Its suite.")
    seed: int = Field(description="Its seed.")
    agent_id: str = Field(description="Its agent.")
    chain_head: str = Field(description="Last chain value of its digests.jsonl.")


class PendingPercept(Document):
    """What the stream would have delivered next to the agent, but for the pixels."""

    reward: float = Field(description="Reward of the last frame before the branch.")
    terminated: bool = Field(description="Whether a game episode ended with it.")
    truncated: bool = Field(description="Whether a visit ended with it.")
    global_frame_idx: int = Field(ge=0, description="The next frame of the run.")


class ProbeConfig(Document):
    """What a probe is a probe of: a saved agent, and how it is asked."""

    state: str = Field(
        pattern=r"^(fresh|visit-\d+)$",
        description="`visit-<i>`: the agent after visit i; `fresh`: as it was built.",
    )
    state_sha256: Sha256 | None = Field(
        description="Tree hash of the saved agent; null for `fresh`, and where the "
        "state was made again from the log."
    )
    of: ProbeOrigin = Field(description="The run whose agent is probed.")
    pending: PendingPercept = Field(description="The first percept of every branch.")
    branches: Count = Field(description="Branches of each game.")
    frames: Count = Field(description="Frames of a branch.")


class RunConfig(Document):
    """config.json: written before the first frame, never changed."""

    games: tuple[str, ...] = Field(min_length=1, description="Games, as configured.")
    schedule: tuple[ScheduledVisit, ...] = Field(
        min_length=1, description="Realised visits, in order."
    )
    decision_interval: Count = Field(description="Frames per decision.")
    delay: Delay = Field(description="Frames between a decision and its application.")
    sticky: Sticky = Field(
        description="Probability that the emulator repeats its previous action."
    )
    life_loss_termination: bool = Field(
        description="Whether a lost life ends the game episode."
    )
    full_action_space: bool = Field(
        description="Whether a game takes all actions, or its minimal set."
    )
    action_mapping_policy: ActionMappingPolicy = Field(
        description="The global action set."
    )
    default_action_idx: int = Field(
        ge=0, description="Action before the first delayed decision arrives."
    )
    scoring_defaults: ScoringDefaults = Field(description="Windows and weights.")
    benchmark_contract_version: Annotated[str, AfterValidator(_check_version)] = Field(
        description="`v1`, `control-v1` or `prediction-v1`."
    )
    benchmark_contract_hash: str = Field(
        pattern="^[0-9a-f]{64}$", description="SHA-256 of the hash payload."
    )
    # Required by the other tracks; v1 only has the track.
    track: str | None = Field(
        default=None, description="`streaming`, `control` or `prediction`."
    )
    frame_skip: FrameSkip | None = Field(
        default=None,
        exclude_if=is_none,
        description="Emulator frames per timestep; absent in streaming runs.",
    )
    reward: RewardRule | None = Field(
        default=None,
        exclude_if=is_none,
        description="Delivered reward: raw or its sign; absent in streaming runs.",
    )
    discount: Discount | None = Field(
        default=None,
        exclude_if=is_none,
        description="Discount of returns; absent in streaming runs.",
    )
    reference_sha256: Sha256 | None = Field(
        default=None,
        exclude_if=is_none,
        description="Digest of the reference policies and values; prediction runs.",
    )
    # Added by longplay.
    suite: str | None = Field(default=None, description="Suite the run belongs to.")
    seed: int | None = Field(default=None, description="Run seed.")
    emulator_seeds: tuple[Annotated[int, Field(ge=0, le=_LARGEST_SEED)], ...] | None = (
        Field(default=None, description="Emulator seed of each visit.")
    )
    rom_md5: dict[str, Annotated[str, Field(pattern="^[0-9a-f]{32}$")]] | None = Field(
        default=None, description="MD5 of each game's ROM."
    )
    rom_sha256: dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] | None = (
        Field(default=None, description="SHA-256 of each game's ROM.")
    )
    agent: AgentEntry | None = Field(default=None, description="The agent of the run.")
    agent_files: tuple[AgentFileEntry, ...] | None = Field(
        default=None,
        exclude_if=is_none,
        description="The agent's source files, by path; absent for built-in agents.",
    )
    agent_isolation: AgentIsolation | None = Field(
        default=None,
        exclude_if=is_none,
        description="How the agent was isolated; not hashed.",
    )
    versions: dict[str, str] | None = Field(
        default=None, description="python, ale_py, numpy, longplay."
    )
    git: GitState | None = Field(
        default=None, description="Checkout the run was started in."
    )
    stop_frame: Count | None = Field(
        default=None,
        exclude_if=is_none,
        description="A tuning run ends before this frame; not hashed.",
    )
    probe: ProbeConfig | None = Field(
        default=None,
        exclude_if=is_none,
        description="Of a probe: the agent's state that every visit starts from; not "
        "hashed.",
    )
    config_given: ConfigGiven | None = Field(
        default=None, description="Suite and overrides as requested."
    )
    config_effective: dict[str, Any] | None = Field(
        default=None, description="All settings after overrides."
    )

    @classmethod
    def normalise(cls, given: Any) -> Any:
        """Reads another tool's config by the keys that the contract names.

        Its delay may be under other keys, and its `agent` or `seed` may mean anything.
        An `agent` that is text is kept as `agent_name`.
        """
        if not isinstance(given, dict):
            return given
        versions = given.get("versions")
        if isinstance(versions, dict) and "longplay" in versions:
            return given
        required = {
            name for name, field in cls.model_fields.items() if field.is_required()
        }
        version = given.get("benchmark_contract_version")
        if isinstance(version, str) and version in CONTRACT_VERSIONS:
            required |= set(CONTRACT_VERSIONS[version].settings)
        ours = cls.model_fields.keys() - required
        agent = given.get("agent")
        given = {name: value for name, value in given.items() if name not in ours}
        if isinstance(agent, str) and agent:
            given["agent_name"] = agent
        delay = find_delay(given)
        return given if delay is None else {**given, "delay": delay}

    @model_validator(mode="after")
    def _check_track(self) -> Self:
        """Checks the settings that the contract version requires beyond v1's."""
        for name in self.contract.settings:
            if getattr(self, name) is None:
                version = self.benchmark_contract_version
                raise ValueError(f"expected a {name}, which {version} requires")
        return self

    @property
    def contract(self) -> ContractVersion:
        """The contract version."""
        return get_contract_version(self.benchmark_contract_version)

    @property
    def event_row(self) -> type[RequiredEventRow]:
        """The type of a row of events.jsonl.

        For another tool's v1 run, only the keys that the contract document names.
        """
        if not self.is_longplay and self.contract.row_type is EventRow:
            return RequiredEventRow
        return self.contract.row_type

    @property
    def score_type(self) -> type[Score]:
        """The type of score.json."""
        return self.contract.score_type

    @property
    def is_longplay(self) -> bool:
        """Whether longplay made the run, so that its stricter rules apply."""
        return bool(self.versions and "longplay" in self.versions)

    @property
    def is_tuning(self) -> bool:
        """Whether the run stops on purpose before the end of its schedule."""
        return self.stop_frame is not None

    @property
    def result_file(self) -> str:
        """The document with the result of a complete run."""
        if self.probe is not None:
            return "probe.json"
        return "tuning.json" if self.is_tuning else "score.json"

    @property
    def played_schedule(self) -> tuple[ScheduledVisit, ...]:
        """The visits to be played: the schedule, cut at a tuning run's last frame."""
        if self.stop_frame is None:
            return self.schedule
        played, left = [], self.stop_frame
        for visit in self.schedule:
            if left <= 0:
                break
            frames = min(left, visit.visit_frames)
            played.append(visit.model_copy(update={"visit_frames": frames}))
            left -= frames
        return tuple(played)

    @property
    def total_frames(self) -> int:
        """Frames to be played."""
        return sum(visit.visit_frames for visit in self.played_schedule)


class VisitSummary(Document):
    """Totals of one visit."""

    visit_idx: Total
    game_id: str
    cycle_idx: Total
    frames: Total = Field(description="Frames played.")
    decision_frames: Total = Field(description="Frames on which the agent decided.")
    emulator_frames: Total = Field(description="ALE frames played.")
    reward_sum: float = Field(description="Sum of delivered rewards.")
    game_reward_sum: float = Field(description="Sum of the game's own rewards.")
    episodes: Total = Field(description="Rows of episodes.jsonl that end in the visit.")
    wall_time_s: float = Field(ge=0, description="Seconds of playing.")
    started_utc: Utc
    action_names: tuple[str, ...] = Field(
        min_length=1, description="The game's actions."
    )
    metrics: dict[str, float | None] = Field(
        description="The values of the agent's metrics(); null if none was finite."
    )


# What a game's part of the tuning metric is.
TuningUnit = Literal["z", "x / b", "-nmse"]


class TuningRecord(Document):
    """tuning.json: the result of a tuning run, instead of a score."""

    schema_version: int = SCHEMA_VERSION
    stop_frame: int = Field(description="Frames played.")
    value: float | None = Field(description="What tuning maximises; null without one.")
    per_game: dict[str, float] = Field(description="Game -> its part of the mean.")
    units: dict[str, TuningUnit] = Field(description="Game -> what that part is.")
    left_out: dict[str, str] = Field(description="Game -> why it has no part.")
    reason: str | None = Field(default=None, description="Why there is no value.")


class FileDigest(Document):
    """Length and hash of a file of a complete run."""

    bytes: int = Field(ge=0, description="Its length.")
    sha256: Sha256 = Field(description="SHA-256 of its content.")


class RunSummary(Document):
    """run_summary.json: totals, times and visits of the run."""

    schema_version: int = SCHEMA_VERSION
    frames: Total = Field(description="Frames played.")
    decision_frames: Total = Field(description="Frames on which the agent decided.")
    emulator_frames: Total = Field(description="ALE frames played.")
    wall_time_s: float = Field(ge=0, description="Seconds of playing, all attempts.")
    fps: float | None = Field(description="frames / wall_time_s.")
    episodes: Total = Field(description="Rows of episodes.jsonl.")
    segments: Total = Field(description="Rows of segments.jsonl.")
    tries: int = Field(ge=1, description="Times the run was started or resumed.")
    started_utc: Utc
    ended_utc: Utc
    chain_head: str | None = Field(
        description="Last chain value of digests.jsonl; null without rows."
    )
    visits: tuple[VisitSummary, ...] = Field(description="Started visits, in order.")
    usage: dict[str, Any] | None = Field(
        default=None,
        exclude_if=is_none,
        description="The value of the agent's usage(), if it has one.",
    )
    rows: dict[str, FileDigest] | None = Field(
        default=None,
        exclude_if=is_none,
        description="Row file -> its length and hash; complete runs only.",
    )
    score_sha256: Sha256 | None = Field(
        default=None,
        exclude_if=is_none,
        description="SHA-256 of score.json, tuning.json or probe.json.",
    )
    agent_states: dict[str, FileDigest] | None = Field(
        default=None,
        exclude_if=is_none,
        description="Kept state of the agent -> its size and the hash of its files.",
    )


class BranchResult(Document):
    """The result of one branch of a probe."""

    visit_idx: Total
    game_id: str
    branch: Total = Field(description="Number of the branch of its game, from 0.")
    x: float | None = Field(
        description="Delivered reward per frame; of a prediction run -mse / variance "
        "of the game's targets, null where that is negligible."
    )


class ProbeRecord(Document):
    """probe.json: the result of a probe, in place of a score."""

    schema_version: int = SCHEMA_VERSION
    state: str = Field(description="The state that was probed.")
    branches: tuple[BranchResult, ...] = Field(description="In the order played.")


Scores = dict[str, float]


class Score(Document):
    """score.json: a pure function of config, events and episodes, except for fps."""

    # The number by which runs of the track are compared.
    HEADLINE: ClassVar[str] = "final_score"

    final_score: float | None = Field(
        description="Weighted sum of mean_score and bottom_k_score."
    )
    mean_score: float | None = Field(description="Mean of per_game_scores.")
    bottom_k_score: float | None = Field(
        description="Mean of the lowest per_game_scores."
    )
    per_game_scores: Scores = Field(
        description="Reward per frame at the end of the last visit."
    )
    per_game_episode_counts: dict[str, int] = Field(
        description="Terminated episodes that ended in that visit."
    )
    per_game_visit_frames: dict[str, int] = Field(description="Frames of that visit.")
    forgetting_index_mean: float | None = Field(
        description="Mean of per_game_forgetting."
    )
    forgetting_index_median: float | None = Field(
        description="Median of per_game_forgetting."
    )
    per_game_forgetting: Scores = Field(
        description="Mean loss of rate from a visit's end to the next one's start."
    )
    plasticity_mean: float | None = Field(description="Mean of per_game_plasticity.")
    plasticity_median: float | None = Field(
        description="Median of per_game_plasticity."
    )
    per_game_plasticity: Scores = Field(
        description="Gain of rate within the first visit."
    )
    fps: float | None = Field(description="Frames per second of playing.")
    frames: int = Field(description="Frames scored.")
    benchmark_contract_version: str = Field(
        description="`v1`, `control-v1` or `prediction-v1`."
    )
    benchmark_contract_hash: str = Field(description="Hash of the settings used.")
    complete: bool = Field(
        default=True, description="Whether the whole schedule was played."
    )
    incomplete_visits: tuple[int, ...] = Field(
        default=(), description="Visits excluded because frames are missing."
    )

    @property
    def headline(self) -> float | None:
        """The number by which runs are compared."""
        value: float | None = getattr(self, self.HEADLINE)
        return value

    @property
    def reward(self) -> float:
        """The reward of the run in records: higher is better, 0.0 if unknown."""
        return self.headline or 0.0

    @classmethod
    def visit_reward(cls, visit: VisitSummary, score: Score | None) -> float:
        """The reward of one visit in records: the sum of delivered rewards.

        Args:
            visit: The visit.
            score: The run's score; None if the run is not complete.
        """
        return visit.reward_sum


class RatePoint(Document):
    """A point of the learning curve."""

    timestep: int = Field(description="Timesteps played at its end.")
    rate: float = Field(description="Delivered reward per timestep since the last.")


class ControlScore(Score):
    """score.json of a control run: v1's keys on delivered rewards, and totals."""

    HEADLINE: ClassVar[str] = "cumulative_reward"

    cumulative_reward: float = Field(description="Sum of delivered rewards.")
    cumulative_game_score: float = Field(description="Sum of the games' own rewards.")
    per_game_cumulative_reward: Scores = Field(
        description="Sum of delivered rewards, per game."
    )
    per_game_cumulative_game_score: Scores = Field(
        description="Sum of the game's own rewards, per game."
    )
    reward_rate: tuple[RatePoint, ...] = Field(
        description="Learning curve, a point per `window_frames` of each visit."
    )


ScoresOrNull = dict[str, float | None]


class PredictionScore(Score):
    """score.json of a prediction run: v1's keys on delivered rewards, and errors."""

    HEADLINE: ClassVar[str] = "nmse"

    mse: float | None = Field(description="Mean of per_game_mse.")
    per_game_mse: Scores = Field(
        description="Mean squared difference of predictions and targets."
    )
    nmse: float | None = Field(
        description="Mean of per_game_nmse, where it is not null."
    )
    per_game_nmse: ScoresOrNull = Field(
        description="mse / variance of the targets; null where that is negligible."
    )
    median_nmse: float | None = Field(
        description="Median of per_game_nmse, where it is not null."
    )
    return_mse: float | None = Field(
        description="Mean of per_game_return_mse, where it is not null."
    )
    per_game_return_mse: ScoresOrNull = Field(
        description="Mean squared difference of predictions and returns, up to the "
        "visit's last game over; null without one."
    )
    value_mse: float | None = Field(
        default=None, description="Mean of per_game_value_mse."
    )
    per_game_value_mse: Scores | None = Field(
        default=None,
        description="Mean squared difference of predictions and rollout values, minus "
        "the sampling variance of the latter.",
    )
    value_nmse: float | None = Field(
        default=None, description="Mean of per_game_value_nmse, where it is not null."
    )
    per_game_value_nmse: ScoresOrNull | None = Field(
        default=None,
        description="value_mse / variance of the values; null where that is "
        "negligible.",
    )
    median_value_nmse: float | None = Field(
        default=None, description="Median of per_game_value_nmse, where it is not null."
    )
    value_states: int | None = Field(
        default=None, description="States with a rollout value, in all games."
    )
    rollouts_sha256: str | None = Field(
        default=None,
        description="Digest of the rollout values; without rollouts, this key and "
        "the `value_` keys are absent.",
    )

    # No return type: pydantic would use it for the schema instead of the fields.
    @model_serializer(mode="wrap")
    def _leave_out_rollouts(  # type: ignore[no-untyped-def]
        self, render: SerializerFunctionWrapHandler
    ):
        """Omits the keys of rollouts instead of writing null."""
        document = render(self)
        if self.rollouts_sha256 is None:
            for name in ROLLOUT_KEYS:
                document.pop(name, None)
        return document

    @property
    def reward(self) -> float:
        """1 - nmse; 0.0 where that is null."""
        return 0.0 if self.nmse is None else 1.0 - self.nmse

    @classmethod
    def visit_reward(cls, visit: VisitSummary, score: Score | None) -> float:
        """1 - nmse of the game, whose only visit it is; a fixed policy is rewarded."""
        if not isinstance(score, PredictionScore):
            return 0.0
        nmse = score.per_game_nmse.get(visit.game_id)
        return 0.0 if nmse is None else 1.0 - nmse


# Keys of a prediction score that only runs with rollout values have.
ROLLOUT_KEYS = (
    "value_mse",
    "per_game_value_mse",
    "value_nmse",
    "per_game_value_nmse",
    "median_value_nmse",
    "value_states",
    "rollouts_sha256",
)


_TIMESTEP_SETTINGS = ("track", "frame_skip", "reward", "discount")

for _version in (
    ContractVersion("v1", (), EventRow, Score),
    ContractVersion("control-v1", _TIMESTEP_SETTINGS, TimestepRow, ControlScore),
    ContractVersion(
        "prediction-v1",
        (*_TIMESTEP_SETTINGS, "reference_sha256"),
        PredictionRow,
        PredictionScore,
    ),
):
    add_contract_version(_version)


RunState = Literal["QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "STALE"]


class RunErrorEntry(Document):
    """Why a run failed."""

    type: str = Field(description="Class of the error.")
    message: str
    frame: int | None = Field(description="Frame of the error.")
    game: str | None = Field(description="Game of the error.")


class RunStatus(Document):
    """status.json: state and progress of the run; its loop updates it regularly."""

    schema_version: int = SCHEMA_VERSION
    state: RunState
    frame: Total = Field(description="Frames played so far.")
    frames_total: Total
    game_id: str | None = Field(description="Game being played.")
    fps: float | None
    heartbeat_utc: Utc
    started_utc: Utc
    pid: int = Field(ge=0, le=_LARGEST_SEED)
    host: str
    retries: int = Field(ge=0, le=_LARGEST_SEED)
    error: RunErrorEntry | None = None
    reward_rate: float | None = Field(
        default=None,
        description="Delivered reward per frame of the current visit, so far.",
    )
    metrics: dict[str, float | None] = Field(
        default_factory=dict, description="What the agent reported last."
    )


# What a run's numbers rest on: its author's word; a replay of its log; running its
# agent again.
ProofLevel = Literal["claimed", "replayed", "re-executed (unconfined)", "re-executed"]


class Difference(Document):
    """The first place where a replay differs from the log."""

    visit_idx: int = Field(description="Visit of the difference.")
    game_id: str = Field(description="Game of that visit.")
    first_frame_idx: int = Field(description="Frame of the run, or first of a block.")
    last_frame_idx: int = Field(description="The same frame, or last of the block.")
    file: str = Field(description="File that differs.")
    line: int = Field(description="Line in it, from 1.")
    field: str = Field(description="First field that differs, or `row`.")
    logged: str | None = Field(
        description="Logged value, as JSON; null if the line is missing."
    )
    replayed: str = Field(description="Replayed value, as JSON.")

    def __str__(self) -> str:
        """`visit 2 (qbert), frame 917: reward logged 25.0, replayed 0.0`."""
        frames = f"frame {self.last_frame_idx}"
        if self.first_frame_idx != self.last_frame_idx:
            frames = f"frames {self.first_frame_idx} … {self.last_frame_idx}"
        return (
            f"visit {self.visit_idx} ({self.game_id}), {frames}: {self.field} logged "
            f"{'nothing' if self.logged is None else self.logged}, "
            f"replayed {self.replayed} ({self.file}:{self.line})"
        )


class VerificationRecord(Document):
    """verification.json: the result of `longplay verify`, and the files it covers."""

    schema_version: int = SCHEMA_VERSION
    level: ProofLevel = Field(
        description="Proof level reached; `claimed` if it failed."
    )
    method: Literal["replay", "re-execution"] = Field(
        description="How it was verified."
    )
    passed: bool = Field(description="Whether everything reproduced.")
    first_difference: Difference | None = Field(
        description="First place where it did not."
    )
    findings: dict[str, int] = Field(description="Findings of validation, per kind.")
    frames: int = Field(description="Frames replayed.")
    agent_isolation: AgentIsolation | None = Field(
        default=None,
        exclude_if=is_none,
        description="How the agent was isolated when it was re-executed.",
    )
    sha256: dict[str, str] = Field(description="Verified file -> its SHA-256.")
    versions: dict[str, str] = Field(
        description="python, ale_py, numpy, longplay of the verifier."
    )
    verified_utc: Utc | None = Field(
        default=None, exclude_if=is_none, description="Time of the verification."
    )
