"""An agent spec, or the run of an agent -> the agent, fresh or as the run left it.

A run keeps the state of its agent in `agent/` (`--keep-agent`). The agent itself comes
from the spec that the user gives: opening a directory never imports the modules it
names. Built-in agents need no spec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from longplay.agents import loading
from longplay.agents.config import AgentConfig
from longplay.agents.isolation.server import SAVED_AGENT
from longplay.agents.loading import LoadedAgent
from longplay.agents.protocol import StreamingAgent
from longplay.contract.files import read_document
from longplay.contract.layout import RUN_REQUEST, RunRequest
from longplay.contract.rundir import KEPT_AGENT, RunDirectory, read_run
from longplay.errors import AgentLoadError, DocumentError


def load_agent(
    spec: str | Callable[..., StreamingAgent] | None = None,
    agent_args: Mapping[str, Any] | None = None,
    agent_files: Sequence[str] = (),
    *,
    state: str | Path | None = None,
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

    Raises:
        AgentLoadError: The file or module cannot be imported, contains no agent, or is
            not the agent of the run.
        DocumentError: The run has kept no state.
        UnknownNameError: No agent has this name.
    """
    if state is not None:
        return _load_saved(spec, agent_args, agent_files, read_run(state))
    if spec is None:
        raise AgentLoadError("expected an agent spec or state=RUN, found neither")
    return loading.load_agent(spec, agent_args, agent_files)


def _load_saved(
    spec: str | Callable[..., StreamingAgent] | None,
    agent_args: Mapping[str, Any] | None,
    agent_files: Sequence[str],
    run: RunDirectory,
) -> LoadedAgent:
    folder = run.path / KEPT_AGENT
    if not folder.is_dir() or run.config.agent is None:
        raise DocumentError(
            f"{run.path}: expected the state of its agent in {KEPT_AGENT}/, found "
            "none; it is kept at the end of a run, by default below 100 MB, if the "
            "agent has save and load (--keep-agent final: any size)"
        )
    config = AgentConfig.from_entry(run.config.agent)
    if agent_args is not None and dict(agent_args) != config.args:
        raise AgentLoadError(
            f"agent_args: expected those of the run, {config.args}, or none; found "
            f"{dict(agent_args)}"
        )
    agent = config.load(spec, agent_files or _read_patterns(run))
    isolation = run.config.agent_isolation
    if isolation is not None and isolation.level != "none":
        folder /= SAVED_AGENT
    return replace(agent, state_dir=folder)


def _read_patterns(run: RunDirectory) -> tuple[str, ...]:
    """The patterns that were given with `--agent-files`."""
    path = run.path / RUN_REQUEST
    return read_document(path, RunRequest).agent_files if path.is_file() else ()
