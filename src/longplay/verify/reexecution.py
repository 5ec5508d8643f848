"""A run and its agent -> the same run, decided again.

Everything is as it was in the run: the agent is built with the run's seed, sees the
pixels, and its answers go through the same stream and the same loop. Only the recorder
has `CheckedRows` for files, so the first row that comes out otherwise is named and
nothing on the disk changes.
"""

from __future__ import annotations

import contextlib
import glob
import tempfile
from contextlib import closing
from pathlib import Path

from longplay.agents.config import AgentConfig
from longplay.agents.global_random import GlobalRandom
from longplay.agents.loading import LoadedAgent
from longplay.contract.records import RunConfig
from longplay.contract.rundir import ROW_FILES
from longplay.errors import CannotVerifyError, DifferenceError, RowDifference
from longplay.runs.checked_rows import CheckedRows
from longplay.runs.loop import Observer, Run, StopRequest
from longplay.runs.recorder import Recorder, RowFiles
from longplay.seeds import agent_seed
from longplay.tracks.catalogue import make_stream, track_of


def load_same_agent(config: RunConfig, reference: str | None) -> LoadedAgent:
    """Finds the agent of a run again.

    Args:
        config: The run's.
        reference: Where the agent is; longplay's own need none.

    Raises:
        AgentLoadError: No reference, or one that leads to another agent.
        CannotVerifyError: The run names no agent.
    """
    if config.agent is None:
        raise CannotVerifyError("config.json agent: expected an agent, found none")
    # An agent of longplay has no files, and is found without a reference.
    files = () if config.agent_files is None else config.agent_files
    patterns = [glob.escape(file.path) for file in files if reference is not None]
    return AgentConfig.from_entry(config.agent).load(reference, patterns)


def reexecute_run(
    run_dir: Path, config: RunConfig, agent: LoadedAgent, observer: Observer
) -> RowDifference | None:
    """Lets the agent decide every frame of its run again.

    Returns:
        The first row that came out otherwise; None if all are the same.

    Raises:
        AgentError: The agent raised, which it did not in its run.
    """
    files = RowFiles(*(CheckedRows.open(run_dir / name) for name in ROW_FILES))
    with (
        closing(Recorder(files)) as recorder,
        tempfile.TemporaryDirectory(prefix="longplay-") as folder,
    ):
        # What it prints now is not part of the run.
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
            # After an error, and in vain if it was closed: what came first counts.
            with contextlib.suppress(Exception):
                participant.close()
