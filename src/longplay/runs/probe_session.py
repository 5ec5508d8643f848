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
from longplay.agents.source.loading import LoadedAgent
from longplay.contract.files import read_bounded, write_document
from longplay.errors import AgentLoadError, ConfigError
from longplay.plan import RunPlan
from longplay.runs.checkpoint import Checkpoint
from longplay.runs.loop import Observer
from longplay.runs.options import DEFAULT_OPTIONS, RunOptions
from longplay.runs.recovery import is_covered
from longplay.runs.session import Session, ignore_progress
from longplay.scoring.probe import PROBE_FILE, compute_probe
from longplay.seeds import agent_seed
from longplay.tracks.catalogue import get_track
from longplay.validation import RunRows

# A branch takes less than a second, and a checkpoint a few milliseconds.
_CHECKPOINT_S = 5.0


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
        if not self._participant.can_save:
            raise AgentLoadError(
                f"agent {agent.spec}: expected save and load, found neither; an agent "
                "without them cannot be probed"
            )

    def _before_visit(self) -> Callable[[], None] | None:
        return self._set_agent_back

    def _set_agent_back(self) -> None:
        seed = agent_seed(self._plan.seed)
        build = get_track(self._plan.suite.track).build_agent
        seed_generators(seed)
        self._participant.rebuild(lambda: build(self._agent, seed), seed)
        if self._state is None:
            return
        if self._participant.saves_generators:  # and restores them
            self._participant.load(self._state)
            return
        self._participant.load(self._state / SAVED_AGENT)
        content = read_bounded(self._state / SAVED_RANDOM_STATE)
        msgspec.json.decode(content, type=GlobalRandomState).restore()

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
