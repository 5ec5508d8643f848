"""An agent spec, or the run of an agent -> the agent, fresh or as the run left it.

A run keeps states of its agent in `agent/` (`--keep-agent`). The agent itself comes
from the spec that the user gives: opening a directory never imports the modules it
names. Built-in agents need no spec.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from longplay.agents.isolation.levels import Isolation
from longplay.agents.isolation.server import SAVED_AGENT
from longplay.agents.protocol import StreamingAgent
from longplay.agents.source import loading
from longplay.agents.source.config import AgentConfig
from longplay.agents.source.loading import LoadedAgent
from longplay.contract.config import RunConfig
from longplay.contract.files import hash_tree, read_document
from longplay.contract.layout import RUN_REQUEST, RunRequest
from longplay.contract.rundir import (
    KEPT_AGENT,
    RunDirectory,
    name_state,
    read_run,
)
from longplay.errors import AgentLoadError, DocumentError


def load_agent(
    spec: str | Callable[..., StreamingAgent] | None = None,
    agent_args: Mapping[str, Any] | None = None,
    agent_files: Sequence[str] = (),
    *,
    state: str | Path | None = None,
    visit: int | None = None,
) -> LoadedAgent:
    """Finds and imports an agent; a class or factory is used as it is.

    Args:
        spec: An agent spec, a class or a factory; not needed for the state of a
            built-in agent.
        agent_args: Arguments it is built with.
        agent_files: Patterns of its files that no import statement names: weights, or
            modules that are imported by a computed name.
        state: A run directory: what is built then has the state in which the run left
            its agent, and the arguments of the run.
        visit: With `state`: the visit after which the agent was saved; by default the
            state is the one after the last frame.

    Raises:
        AgentLoadError: The file or module cannot be imported, contains no agent, or is
            not the agent of the run.
        DocumentError: The run has kept no such state, or it is damaged.
        UnknownNameError: No agent has this name.
    """
    if state is not None:
        run = read_run(state)
        return _load_saved(spec, agent_args, agent_files, run, _find_state(run, visit))
    if visit is not None:
        raise AgentLoadError("visit: expected state=RUN as well, found none")
    if spec is None:
        raise AgentLoadError("expected an agent spec or state=RUN, found neither")
    return loading.load_agent(spec, agent_args, agent_files)


def _load_saved(
    spec: str | Callable[..., StreamingAgent] | None,
    agent_args: Mapping[str, Any] | None,
    agent_files: Sequence[str],
    run: RunDirectory,
    folder: Path,
) -> LoadedAgent:
    if run.config.agent is None:
        raise DocumentError(f"{run.path}: config.json agent: expected one, found none")
    config = AgentConfig.from_entry(run.config.agent)
    if agent_args is not None and dict(agent_args) != config.args:
        raise AgentLoadError(
            f"agent_args: expected those of the run, {config.args}, or none; found "
            f"{dict(agent_args)}"
        )
    agent = config.load(spec, agent_files or _read_patterns(run))
    return replace(agent, state_dir=folder)


def _find_state(run: RunDirectory, visit: int | None) -> Path:
    """What the agent saved at the end of a visit, or of the run."""
    name = name_state(visit)
    folder = run.path / KEPT_AGENT / name
    if folder.is_dir():
        _check_hash(run, folder)
        return folder / SAVED_AGENT
    raise DocumentError(
        f"{run.path}: expected the state of its agent in {KEPT_AGENT}/{name}/, found "
        "none; if the agent has save and load, a run keeps the final state below 100 "
        "MB, with --keep-agent final of any size, with visits also one per visit"
    )


def _check_hash(run: RunDirectory, folder: Path) -> None:
    recorded = None if run.summary is None else run.summary.agent_states
    entry = (recorded or {}).get(folder.name)
    if entry is not None:
        check_state(folder, entry.sha256)


def check_state(folder: Path, sha256: str) -> None:
    """Refuses a state of an agent whose files are not those that were kept.

    Raises:
        DocumentError: Names the state.
    """
    if hash_tree(folder) != sha256:
        raise DocumentError(
            f"{folder}: expected the files that the run kept, with the hash "
            f"{sha256}, found others; they were changed after the run"
        )


def load_recorded(
    config: RunConfig, spec: str | None, isolation: Isolation
) -> LoadedAgent:
    """The agent of a run, with the files that its config.json lists.

    Args:
        config: It names an agent.
        spec: The agent spec; built-in agents need none.
        isolation: How it is isolated from the referee.

    Raises:
        AgentLoadError: The spec is missing, or names a different agent.
    """
    assert config.agent is not None
    # A built-in agent has no files, and is found without a spec.
    files = () if spec is None else config.agent_files or ()
    patterns = [glob.escape(file.path) for file in files]
    agent = AgentConfig.from_entry(config.agent).load(spec, patterns, isolation)
    return agent.with_name(config.agent.name)


def _read_patterns(run: RunDirectory) -> tuple[str, ...]:
    """The patterns that were given with `--agent-files`."""
    path = run.path / RUN_REQUEST
    return read_document(path, RunRequest).agent_files if path.is_file() else ()
