"""A probe: every visit starts from the same saved state of an agent.

    state ──load──▶ agent ──plays branch 0──▶ thrown away
    state ──load──▶ agent ──plays branch 1──▶ thrown away        …

A branch is a visit of the probe's schedule. The agent is built anew for each of them
(in the same process, if it is isolated), loaded, and given the percept that the run
would have delivered next. Between two branches nothing of the agent is left, so a
checkpoint needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

import msgspec

from longplay.agents.global_random import GlobalRandomState, seed_generators
from longplay.agents.isolation.server import SAVED_AGENT, SAVED_RANDOM_STATE
from longplay.agents.protocol import StreamingAgent
from longplay.agents.source.loading import LoadedAgent
from longplay.contract.files import read_bounded, write_document
from longplay.errors import AgentLoadError, ConfigError, ResumeError
from longplay.plan import RunPlan
from longplay.runs.checkpoint import Checkpoint
from longplay.runs.loop import Observer
from longplay.runs.options import DEFAULT_OPTIONS, RunOptions
from longplay.runs.recovery import is_covered
from longplay.runs.session import Session, ignore_progress
from longplay.scoring.probe import PROBE_FILE, compute_probe
from longplay.seeds import agent_seed
from longplay.tracks.catalogue import get_track
from longplay.tracks.participant import Participant
from longplay.validation import RunRows

# A branch takes less than a second, and a checkpoint a few milliseconds.
_CHECKPOINT_S = 5.0


def set_back(
    participant: Participant,
    build: Callable[[], StreamingAgent],
    seed: int,
    state: Path | None,
) -> None:
    """Sets an agent, and the global generators, back to a saved state.

    Args:
        participant: The agent, which is replaced by one that is built anew.
        build: Builds it, if it runs in this process.
        seed: The agent seed.
        state: Where it is saved; None for the agent as it is built.
    """
    seed_generators(seed)
    participant.rebuild(build, seed)
    if state is None:
        return
    if participant.saves_generators:  # and restores them
        participant.load(state)
        return
    participant.load(state / SAVED_AGENT)
    content = read_bounded(state / SAVED_RANDOM_STATE)
    msgspec.json.decode(content, type=GlobalRandomState).restore()


def require_saving(participant: Participant, spec: str) -> None:
    """Refuses to probe an agent that has no save and load.

    Raises:
        AgentLoadError: Names the agent; its process, if it has one, is closed.
    """
    if not participant.can_save:
        participant.close()
        raise AgentLoadError(
            f"agent {spec}: expected save and load, found neither; an agent without "
            "them cannot be probed"
        )


def write_probe(run_dir: Path, rows: RunRows) -> Path:
    """Writes probe.json of a complete probe; returns the file."""
    rows.require_whole()
    path = run_dir / PROBE_FILE
    record = compute_probe(rows.config, rows.rules.windows.to_rows())
    write_document(path, record)
    return path


class ProbeSession(Session):
    """One probe of one state of an agent."""

    def __init__(
        self,
        plan: RunPlan,
        agent: LoadedAgent,
        run_dir: Path,
        state: Path | None,
        observer: Observer = ignore_progress,
        options: RunOptions = DEFAULT_OPTIONS,
    ) -> None:
        """Builds the agent.

        Args:
            plan: A plan of `plan_probe`.
            agent: The agent of the run that is probed.
            run_dir: The folder of the probe.
            state: Where the agent is saved; None for the agent as it is built.
            observer: Called with the progress.
            options: How it is played.

        Raises:
            ConfigError: The plan is not a probe, or the state is not the one it names.
            AgentLoadError: The agent cannot be built, or cannot load.
        """
        if plan.probe is None or (state is None) != (plan.probe.state == "fresh"):
            raise ConfigError("probe: expected a plan with a saved state, or `fresh`")
        options = replace(options, checkpoint_s=_CHECKPOINT_S)
        super().__init__(plan, agent, run_dir, observer, write_probe, options)
        self._state = state
        require_saving(self._participant, agent.spec)

    def _before_visit(self) -> Callable[[], None] | None:
        return self._set_agent_back

    def _set_agent_back(self) -> None:
        seed = agent_seed(self._plan.seed)
        build = get_track(self._plan.suite.track).build_agent
        set_back(self._participant, lambda: build(self._agent, seed), seed, self._state)

    def _check_identity(self) -> None:
        super()._check_identity()
        if self._config.probe != self._plan.probe:
            raise ResumeError(
                f"{self._run_dir}: expected a probe of {self._plan.probe}, found one "
                f"of {self._config.probe}; choose another folder with -o"
            )

    def can_resume_from(self, checkpoint: Checkpoint | None) -> TypeGuard[Checkpoint]:
        """Whether a checkpoint has everything but the agent, which a probe loads."""
        return checkpoint is not None and is_covered(self._run_dir, checkpoint)

    def _load_agent(self, checkpoint: Checkpoint) -> None:
        """Every branch loads it."""

    def _checkpoint(self) -> None:
        if self._checkpoints is None or self._recorder is None:
            return  # nothing has been written yet
        state = self._recorder.snapshot()
        self._recorder.sync()
        with self._surroundings.in_use():
            self._checkpoints.write(self._stream.snapshot(), state, None, None)

    def _keep_final_state(self) -> None:
        """The copies are thrown away."""
