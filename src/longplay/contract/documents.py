"""The documents of a run directory: pydantic models, whole JSON files.

Here are all but config.json (`contract.config`). The field tables of docs/contract.md
and the JSON Schemas are generated from the descriptions here.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from longplay.contract.rows import LARGEST_INDEX

# Shape of longplay's own documents (run_summary.json, status.json, …). Readers reject
# a newer version than they know.
SCHEMA_VERSION = 1
LARGEST_SEED = 2**31 - 1

# A number of something that was played.
Total = Annotated[int, Field(ge=0, le=LARGEST_INDEX)]


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


def is_none(value: object) -> bool:
    """For `exclude_if`: leaves a field without a value out of the file."""
    return value is None


def optional(description: str | None = None, **limits: Any) -> Any:
    """A field that is left out of the file without a value."""
    return Field(default=None, exclude_if=is_none, description=description, **limits)


class Document(BaseModel):
    """A whole JSON file: strict types, finite numbers, unknown keys kept."""

    model_config = ConfigDict(
        strict=True, extra="allow", allow_inf_nan=False, frozen=True
    )

    @classmethod
    def normalise(cls, given: Any) -> Any:
        """Converts another tool's document to the form of this model."""
        return given


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
    step_timeout_s: float | None = optional("Time limit of a step, in seconds.", gt=0)
    memory_bytes: int | None = optional(
        "Limit of the resident memory of the agent's processes.", gt=0
    )


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
    usage: dict[str, Any] | None = optional(
        "The value of the agent's usage(), if it has one."
    )
    rows: dict[str, FileDigest] | None = optional(
        "Row file -> its length and hash; complete runs only."
    )
    score_sha256: Sha256 | None = optional(
        "SHA-256 of score.json, tuning.json or probe.json."
    )
    agent_states: dict[str, FileDigest] | None = optional(
        "Kept state of the agent -> its size and the hash of its files."
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
    pid: int = Field(ge=0, le=LARGEST_SEED)
    host: str
    retries: int = Field(ge=0, le=LARGEST_SEED)
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
        return self.describe()

    def describe(self, frame_noun: str = "frame") -> str:
        """`visit 2 (qbert), frame 917: reward logged 25.0, replayed 0.0`."""
        frames = f"{frame_noun} {self.last_frame_idx}"
        if self.first_frame_idx != self.last_frame_idx:
            frames = f"{frame_noun}s {self.first_frame_idx} … {self.last_frame_idx}"
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
    agent_isolation: AgentIsolation | None = optional(
        "How the agent was isolated when it was re-executed."
    )
    sha256: dict[str, str] = Field(description="Verified file -> its SHA-256.")
    versions: dict[str, str] = Field(
        description="python, ale_py, numpy, longplay of the verifier."
    )
    verified_utc: Utc | None = optional("Time of the verification.")
