"""Runs the agent of a run again, in a sandbox, and compares every row.

Everything is as in the run: the agent is built with the run's seed, sees the pixels,
and its answers go through the same stream and the same loop. Only the recorder has
`CheckedRows` for files, so the first row that differs is reported and nothing on the
disk changes. A sandboxed agent cannot read the run, nor what its own run may have left
in a cache. The agent of a probe is set back before every visit, as in the probe. And an
agent that is executed again can be saved at the end of every visit, for probes of runs
that have not kept its states.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from longplay.agents.global_random import GlobalRandom
from longplay.agents.isolation.levels import Isolation
from longplay.agents.isolation.parent import list_sys_path
from longplay.agents.isolation.sandbox import check_hidden
from longplay.agents.source.loading import LoadedAgent
from longplay.agents.source.saved import load_recorded
from longplay.contract.config import RunConfig
from longplay.contract.documents import FileDigest
from longplay.contract.rundir import REPLAYED_FILES
from longplay.errors import CannotVerifyError, DifferenceError, RowDifference
from longplay.runs.checked_rows import CheckedRows, IgnoredRows
from longplay.runs.loop import Observer, Run, StopRequest
from longplay.runs.options import RunOptions
from longplay.runs.probe_session import require_saving, set_back
from longplay.runs.probe_states import find_state
from longplay.runs.recorder import Recorder, RowFiles
from longplay.runs.states import KeptStates
from longplay.seeds import agent_seed
from longplay.tracks.catalogue import make_stream, track_of

_EVERY_VISIT = RunOptions(keep_agent="visits", kept_agent_bytes=sys.maxsize)


def load_same_agent(
    run_dir: Path, config: RunConfig, spec: str | None, isolation: Isolation
) -> LoadedAgent:
    """Loads the agent of a run.

    Args:
        run_dir: The run.
        config: The run's config.
        spec: The agent spec; built-in agents need none.
        isolation: How it is isolated from the referee.

    Raises:
        AgentLoadError: The spec is missing, or names a different agent.
        CannotVerifyError: The run names no agent.
        ConfigError: The sandbox would let the agent read the run.
    """
    if config.agent is None:
        raise CannotVerifyError("config.json agent: expected an agent, found none")
    if isolation.level == "sandbox":
        check_hidden(run_dir, list_sys_path(), isolation.allowed)
    isolation = dataclasses.replace(isolation, has_new_cache=True)
    return load_recorded(config, spec, isolation)


def reexecute_run(
    run_dir: Path,
    config: RunConfig,
    agent: LoadedAgent,
    observer: Observer,
    origin: Path | None = None,
) -> RowDifference | None:
    """Runs the agent on every frame of its run again.

    Args:
        run_dir: The run.
        config: Its config.
        agent: Its agent.
        observer: Receives the progress.
        origin: Of a probe: the run that has kept the state; by default the one that
            the probe lies beside.

    Returns:
        The first row that differs; None if all are the same.

    Raises:
        AgentError: The agent raised, which it did not in its run.
        CannotVerifyError: The state of a probe is not there.
    """
    again = _Reexecution(config, agent, observer)
    if config.probe is not None:
        again.state = find_state(run_dir, config.probe, origin)
    return again.compare(run_dir)


def make_states(
    run_dir: Path,
    config: RunConfig,
    agent: LoadedAgent,
    folder: Path,
    observer: Observer,
) -> dict[str, FileDigest]:
    """Runs the agent of a run again, and keeps its state after every visit.

    Args:
        run_dir: The run.
        config: Its config.
        agent: Its agent.
        folder: Where the states are kept, as in a run directory.
        observer: Receives the progress.

    Returns:
        State -> its size and hash.

    Raises:
        CannotVerifyError: A row differs from the run's.
        AgentLoadError: The agent has no save and load.
        AgentError: The agent raised, which it did not in its run.
    """
    again = _Reexecution(config, agent, observer, kept_in=folder)
    difference = again.compare(run_dir)
    if difference is not None:
        raise CannotVerifyError(
            f"{run_dir}: its agent does not give the same rows again, so its states "
            f"cannot be made from the log: {difference}"
        )
    return again.states.describe() or {}


@dataclass
class _Reexecution:
    """An agent that is executed again.

    Attributes:
        config: The config of its run.
        agent: The agent.
        observer: Receives the progress.
        state: Of a probe: what every visit starts from; None for `fresh`.
        kept_in: Where its states are kept; None to keep none.
    """

    config: RunConfig
    agent: LoadedAgent
    observer: Observer
    state: Path | None = None
    kept_in: Path | None = None

    def compare(self, run_dir: Path) -> RowDifference | None:
        """Plays all visits; returns the first row that differs from the run's."""
        checked = (CheckedRows.open(run_dir / name) for name in REPLAYED_FILES)
        # Curves follow from the events; validation compares them.
        files = RowFiles(*chain(checked, [IgnoredRows()]))
        with (
            closing(Recorder(files)) as recorder,
            tempfile.TemporaryDirectory(prefix="longplay-") as folder,
        ):
            # Output of the re-execution is not part of the run.
            self.agent.output.keep_in(Path(folder))
            try:
                self._play(recorder)
            except DifferenceError as error:
                return error.difference
            finally:
                self.agent.output.finish()
        return None

    @property
    def states(self) -> KeptStates:
        """The states that are kept."""
        assert self.kept_in is not None
        visits = len(self.config.played_schedule)
        is_isolated = self.agent.isolation.level != "none"
        return KeptStates(self.kept_in, _EVERY_VISIT, visits, is_isolated)

    def _play(self, recorder: Recorder) -> None:
        seed, track = agent_seed(self.config.seed or 0), track_of(self.config)
        with self.agent.output.capture(), GlobalRandom(seed).in_use():
            participant = track.build(self.agent, seed)

            def set_agent_back() -> None:
                build = partial(track.build_agent, self.agent, seed)
                set_back(participant, build, seed, self.state)

            def keep_state() -> None:
                if self.kept_in is not None and recorder.ended_visit_idx is not None:
                    self.states.keep_anew(recorder.ended_visit_idx, participant.save)

            try:
                if self.kept_in is not None:
                    require_saving(participant, self.agent.spec)
                run = Run(
                    make_stream(self.config),
                    participant,
                    recorder,
                    self.observer,
                    StopRequest(),
                    keep_state,
                    before_visit=set_agent_back if self.config.probe else None,
                )
                run.play()
                run.ask(participant.close)
            finally:
                # Does nothing if it is closed; an earlier error takes precedence.
                with contextlib.suppress(Exception):
                    participant.close()
