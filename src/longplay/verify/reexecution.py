"""Runs the agent of a run again, in a sandbox, and compares every row.

Everything is as in the run: the agent is built with the run's seed, sees the pixels,
and its answers go through the same stream and the same loop. Only the recorder has
`CheckedRows` for files, so the first row that differs is reported and nothing on the
disk changes. A sandboxed agent cannot read the run, nor what its own run may have left
in a cache.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import tempfile
from contextlib import closing
from itertools import chain
from pathlib import Path

from longplay.agents.global_random import GlobalRandom
from longplay.agents.isolation.levels import Isolation
from longplay.agents.isolation.parent import list_sys_path
from longplay.agents.isolation.sandbox import check_hidden
from longplay.agents.source.config import AgentConfig
from longplay.agents.source.loading import LoadedAgent
from longplay.contract.config import RunConfig
from longplay.contract.rundir import REPLAYED_FILES
from longplay.errors import CannotVerifyError, DifferenceError, RowDifference
from longplay.runs.checked_rows import CheckedRows, IgnoredRows
from longplay.runs.loop import Observer, Run, StopRequest
from longplay.runs.recorder import Recorder, RowFiles
from longplay.seeds import agent_seed
from longplay.tracks.catalogue import make_stream, track_of


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
    # A built-in agent has no files, and is found without a spec.
    files = () if config.agent_files is None else config.agent_files
    patterns = [glob.escape(file.path) for file in files if spec is not None]
    if isolation.level == "sandbox":
        check_hidden(run_dir, list_sys_path(), isolation.allowed)
    isolation = dataclasses.replace(isolation, has_new_cache=True)
    return AgentConfig.from_entry(config.agent).load(spec, patterns, isolation)


def reexecute_run(
    run_dir: Path, config: RunConfig, agent: LoadedAgent, observer: Observer
) -> RowDifference | None:
    """Runs the agent on every frame of its run again.

    Returns:
        The first row that differs; None if all are the same.

    Raises:
        AgentError: The agent raised, which it did not in its run.
    """
    checked = (CheckedRows.open(run_dir / name) for name in REPLAYED_FILES)
    # Curves follow from the events; validation compares them.
    files = RowFiles(*chain(checked, [IgnoredRows()]))
    with (
        closing(Recorder(files)) as recorder,
        tempfile.TemporaryDirectory(prefix="longplay-") as folder,
    ):
        # Output of the re-execution is not part of the run.
        agent.output.keep_in(Path(folder))
        try:
            _play(config, agent, recorder, observer)
        except DifferenceError as error:
            return error.difference
        finally:
            agent.output.finish()
    return None


def _play(
    config: RunConfig, agent: LoadedAgent, recorder: Recorder, observer: Observer
) -> None:
    seed = agent_seed(config.seed or 0)
    with agent.output.capture(), GlobalRandom(seed).in_use():
        participant = track_of(config).build(agent, seed)
        try:
            run = Run(
                make_stream(config), participant, recorder, observer, StopRequest()
            )
            run.play()
            run.ask(participant.close)
        finally:
            # Does nothing if it is closed; an earlier error takes precedence.
            with contextlib.suppress(Exception):
                participant.close()
