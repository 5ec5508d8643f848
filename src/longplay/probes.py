"""A run -> the probes of its agent: which states and games, and the first percepts.

A probe asks how well a state of an agent plays some games: copies of the agent are set
to that state, and each copy plays one branch, a short visit of one game.

    state     := fresh | visit-<i>    as built for the run; as saved after visit i
    due cells    after visit i the game just played and the game that comes next; after
                 the last visit all games; before the first visit (`fresh`) all games
    all cells    every game after every visit, and before the first

Everything about a probe follows from the run, so that it can be checked against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from longplay.contract.config import (
    PendingPercept,
    ProbeConfig,
    ProbeOrigin,
    RunConfig,
    ScheduledVisit,
    visit_spans,
)
from longplay.contract.files import iter_rows, open_regular, shorten
from longplay.contract.findings import Finding
from longplay.contract.rows import RequiredEventRow
from longplay.contract.rundir import RunDirectory, name_state
from longplay.errors import ConfigError, DocumentError, IncompleteRunError
from longplay.plan import RunPlan, plan_again, plan_probe
from longplay.tracks.catalogue import get_track

FRESH = "fresh"
Choice = Literal["due", "all"]

# What precedes the first frame of a run.
_NOTHING = PendingPercept(
    reward=0.0, terminated=False, truncated=False, global_frame_idx=0
)

# Branches of a game, and decisions of a branch. Predictions of one branch differ less
# from those of another: all states see the same streams.
_BRANCHES, _PREDICTION_BRANCHES = 8, 2
_DECISIONS = 500


def choose_cells(
    schedule: Sequence[ScheduledVisit], games: Sequence[str], choice: Choice = "due"
) -> dict[str, tuple[str, ...]]:
    """State -> the games that it is asked for, in the order of the suite's games."""
    cells = {FRESH: tuple(games)}
    for position, visit in enumerate(schedule):
        asked = set(games)
        if choice == "due" and position + 1 < len(schedule):
            asked = {visit.game_id, schedule[position + 1].game_id}
        cells[name_state(position)] = tuple(game for game in games if game in asked)
    return cells


@dataclass(frozen=True)
class ProbeSize:
    """How much is asked of a state, per game.

    Attributes:
        branches: Branches of each game.
        frames: Frames of a branch.
    """

    branches: int
    frames: int

    @classmethod
    def default(cls, plan: RunPlan) -> ProbeSize:
        """The size that results are made with."""
        predicts = get_track(plan.suite.track).predicts
        branches = _PREDICTION_BRANCHES if predicts else _BRANCHES
        return cls(branches, _DECISIONS * plan.suite.decision_interval)


@dataclass(frozen=True)
class Origin:
    """A complete run, as the origin of probes.

    Attributes:
        config: Its config.json.
        of: Names the run.
        pending: State -> the first percept of its branches.
        state_sha256: State -> tree hash, of the states that the run has kept.
    """

    config: RunConfig
    of: ProbeOrigin
    pending: dict[str, PendingPercept]
    state_sha256: dict[str, str]

    @property
    def plan(self) -> RunPlan:
        """The plan of the run."""
        given = self.config.config_given
        assert given is not None  # `read_origin` requires it
        return plan_again(given, self.of.seed, self.of.suite)

    def plan_probe(self, state: str, games: Sequence[str], size: ProbeSize) -> RunPlan:
        """Plans a probe of a state.

        Raises:
            ConfigError: The run has no such state, or no such game.
        """
        self.check_state(state)
        probe = ProbeConfig(
            state=state,
            state_sha256=self.state_sha256.get(state),
            of=self.of,
            pending=self.pending[state],
            branches=size.branches,
            frames=size.frames,
        )
        return plan_probe(self.plan, probe, games)

    def check_state(self, state: str) -> None:
        """Refuses a state that the run does not have."""
        if state not in self.pending:
            *_, last = self.pending
            raise ConfigError(
                f"state: expected {FRESH} or visit-0 … {last}, found {state!r}"
            )


def read_origin(run: RunDirectory) -> Origin:
    """Reads what probes of a run's agent start from.

    Raises:
        ConfigError: It is a probe, or another tool's run.
        IncompleteRunError: It has not ended.
        DocumentError: A file of it is missing or damaged.
    """
    of = name_origin(run)
    summary = run.summary
    kept = (None if summary is None else summary.agent_states) or {}
    hashes = {state: entry.sha256 for state, entry in kept.items()}
    return Origin(run.config, of, _read_pending(run), hashes)


def name_origin(run: RunDirectory) -> ProbeOrigin:
    """Names a run whose agent can be probed; reads no rows.

    Raises:
        ConfigError, IncompleteRunError: As `read_origin`.
    """
    config, summary, status = run.config, run.summary, run.status
    if config.probe is not None:
        raise ConfigError(
            f"{run.path}: expected a run, found a probe of {config.probe.state}; its "
            "agents are copies that are thrown away: probe the run itself"
        )
    if status is not None and status.state != "COMPLETED":
        raise IncompleteRunError(
            f"{run.path}: expected a complete run, found {status.state}; "
            "`longplay resume` finishes it"
        )
    is_named = None not in (
        config.suite,
        config.seed,
        config.agent,
        config.config_given,
    )
    if not is_named or summary is None or summary.chain_head is None:
        raise ConfigError(
            f"{run.path}: expected suite, seed, agent and digests, as longplay records "
            "them; without them no agent can be set back"
        )
    assert config.agent is not None
    return ProbeOrigin(
        suite=str(config.suite),
        seed=int(config.seed or 0),
        agent_id=config.agent.agent_id,
        chain_head=summary.chain_head,
    )


def _read_pending(run: RunDirectory) -> dict[str, PendingPercept]:
    """State -> what the stream would have delivered next, but for the pixels."""
    spans = visit_spans(run.config.played_schedule)
    ends = {span[-1]: visit for visit, span in enumerate(spans)}
    pending = {FRESH: _NOTHING}
    path = run.path / "events.jsonl"
    if not path.is_file():
        raise DocumentError(f"{path.name}: missing in {run.path}")
    with open_regular(path) as file:
        for frame, line in enumerate(iter_rows(file, path.name)):
            if frame in ends:
                state = name_state(ends[frame])
                pending[state] = _make_pending(line, frame, path.name)
    if len(pending) <= len(ends):
        raise DocumentError(
            f"{path.name}: expected {run.config.total_frames:,} rows, found fewer; "
            "see `longplay validate`"
        )
    return pending


def _make_pending(line: bytes, frame: int, file: str) -> PendingPercept:
    try:
        row = msgspec.json.decode(line, type=RequiredEventRow)
    except msgspec.MsgspecError as error:
        raise DocumentError(f"{file}:{frame + 1} {error}") from error
    return PendingPercept(
        reward=row.reward,
        terminated=row.terminated,
        truncated=row.truncated,
        global_frame_idx=frame + 1,
    )


# --- Does a probe fit its run? --------------------------------------------------


def check_origin(config: RunConfig, origin: Origin) -> Iterator[Finding]:
    """What a probe claims about its run, and the run refutes."""
    probe = config.probe
    assert probe is not None  # only probes are checked
    for name, wanted in origin.of:
        yield from _compare(f"probe.of.{name}", wanted, getattr(probe.of, name))
    wanted_pending = origin.pending.get(probe.state)
    if wanted_pending is None:
        yield _refute(
            "probe.state",
            f"expected {FRESH} or a visit of the run, found {probe.state}",
        )
    else:
        for name, value in wanted_pending:
            found = getattr(probe.pending, name)
            yield from _compare(f"probe.pending.{name}", value, found)
    # A state that the run has not kept can be made again from its log.
    if probe.state_sha256 is not None:
        kept = origin.state_sha256.get(probe.state)
        yield from _compare("probe.state_sha256", kept, probe.state_sha256)
    run = origin.config
    for name in ("config_given", "agent", "agent_files", "rom_sha256"):
        yield from _compare(name, getattr(run, name), getattr(config, name))
    for tool in sorted((run.versions or {}).keys() & {"ale_py", "numpy"}):
        was, now = ((c.versions or {}).get(tool) for c in (run, config))
        yield from _compare(f"versions.{tool}", was, now)


def note_missing_origin() -> Finding:
    """The note about a probe whose run is not there."""
    return Finding(
        "no origin",
        "config.json",
        "its state and first percept cannot be checked without the probed run; name "
        "that run or its pack with --of",
        field="probe",
    )


def _compare(field: str, expected: object, found: object) -> Iterator[Finding]:
    # As text, because to Python 1 is True and 0.0 is 0.
    if repr(expected) != repr(found):
        yield _refute(
            field, f"expected {shorten(expected)} of the run, found {shorten(found)}"
        )


def _refute(field: str, message: str) -> Finding:
    return Finding("probe claim", "config.json", message, field=field)
