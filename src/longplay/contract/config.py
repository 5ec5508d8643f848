"""config.json: what a run plays, written before its first frame and never changed.

Keys that only longplay writes are optional on reading, so that a run of another tool
that has only the contract's required keys can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from longplay.contract.documents import (
    LARGEST_SEED,
    AgentIsolation,
    Document,
    Score,
    Sha256,
    optional,
)
from longplay.contract.names import name_agent
from longplay.contract.registry import (
    CONTRACT_VERSIONS,
    ContractVersion,
    get_contract_version,
)
from longplay.contract.rows import EventRow, RequiredEventRow
from longplay.errors import show_name

GLOBAL_ACTION_SET = tuple(range(18))

_LARGEST_COUNT = 2**40
# A stream keeps as many decisions as the delay, and plays as many emulator frames for a
# timestep as the frame skip says.
_LARGEST_DELAY = 10**6
_LARGEST_FRAME_SKIP = 1000

# Ranges of settings, shared by config.json and the suites.
Count = Annotated[int, Field(ge=1, le=_LARGEST_COUNT)]
Delay = Annotated[int, Field(ge=0, le=_LARGEST_DELAY)]
FrameSkip = Annotated[int, Field(ge=1, le=_LARGEST_FRAME_SKIP)]
Sticky = Annotated[float, Field(ge=0, lt=1)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Discount = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0)]
ActionIdx = Annotated[int, Field(ge=0, lt=len(GLOBAL_ACTION_SET))]


# How a game's reward is transformed before it is delivered.
RewardRule = Literal["raw", "sign"]


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
    name: str | None = optional(
        "Its name in tables, if one was given with --name; not hashed.", min_length=1
    )

    @property
    def shown_name(self) -> str:
        """Its name in tables, figures and pages."""
        return name_agent(self.config) if self.name is None else show_name(self.name)


class AgentFileEntry(Document):
    """One source file of the agent."""

    path: str = Field(
        min_length=1, description="Relative to the agent's folder, with slashes."
    )
    sha256: Sha256 = Field(description="SHA-256 of the file.")


class GitState(Document):
    """The checkout the run was started in."""

    commit: str | None = None
    is_dirty: bool | None = None
    remote_url: str | None = None


class ConfigGiven(Document):
    """The requested settings: enough to derive the run again."""

    suite: str = Field(description="Id of a suite in the catalogue.")
    overrides: dict[str, Any] = Field(description="Changed settings, as given.")
    reference_sha256: Sha256 | None = optional(
        "Digest of the references used; prediction runs."
    )
    stop_after: Annotated[float, Field(gt=0, lt=1)] | None = optional(
        "Fraction of the schedule that a tuning run plays."
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
    frame_skip: FrameSkip | None = optional(
        "Emulator frames per timestep; absent in streaming runs."
    )
    reward: RewardRule | None = optional(
        "Delivered reward: raw or its sign; absent in streaming runs."
    )
    discount: Discount | None = optional(
        "Discount of returns; absent in streaming runs."
    )
    reference_sha256: Sha256 | None = optional(
        "Digest of the reference policies and values; prediction runs."
    )
    # Added by longplay.
    suite: str | None = Field(default=None, description="Suite the run belongs to.")
    seed: int | None = Field(default=None, description="Run seed.")
    emulator_seeds: tuple[Annotated[int, Field(ge=0, le=LARGEST_SEED)], ...] | None = (
        Field(default=None, description="Emulator seed of each visit.")
    )
    rom_md5: dict[str, Annotated[str, Field(pattern="^[0-9a-f]{32}$")]] | None = Field(
        default=None, description="MD5 of each game's ROM."
    )
    rom_sha256: dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] | None = (
        Field(default=None, description="SHA-256 of each game's ROM.")
    )
    agent: AgentEntry | None = Field(default=None, description="The agent of the run.")
    agent_files: tuple[AgentFileEntry, ...] | None = optional(
        "The agent's source files, by path; absent for built-in agents."
    )
    agent_isolation: AgentIsolation | None = optional(
        "How the agent was isolated; not hashed."
    )
    versions: dict[str, str] | None = Field(
        default=None, description="python, ale_py, numpy, longplay."
    )
    git: GitState | None = Field(
        default=None, description="Checkout the run was started in."
    )
    stop_frame: Count | None = optional(
        "A tuning run ends before this frame; not hashed."
    )
    probe: ProbeConfig | None = optional(
        "Only in a probe: the state of the agent before every visit; not hashed."
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
