"""Settings of runs -> the command that makes them again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from longplay.contract.config import ConfigGiven
from longplay.contract.documents import AgentIsolation
from longplay.contract.names import name_agent
from longplay.lab.analysis.labels import describe_seeds


def run_command(
    given: ConfigGiven | None,
    agent: Mapping[str, Any],
    seeds: Sequence[int | None],
    isolation: AgentIsolation | None,
    name: str | None = None,
) -> str:
    """The command; an agent in a file is named without its path.

    Args:
        given: The requested settings; None if they are not known.
        agent: The agent's config.
        seeds: Of the runs.
        isolation: Of the agent.
        name: The agent's name in tables; None for its own.
    """
    words = ["longplay", "run", given.suite if given else "SUITE"]
    words += ["--agent", str(agent.get("file") or name_agent(agent))]
    words += [] if name is None else ["--name", name]
    for argument, value in (agent.get("args") or {}).items():
        words += ["--agent-arg", f"{argument}={json.dumps(value)}"]
    if given is not None:
        for setting, value in given.overrides.items():
            words += ["--set", f"{setting}={json.dumps(value)}"]
        if given.stop_after is not None:
            words += ["--stop-after", str(given.stop_after)]
    words += ["--seeds", describe_seeds(seeds).replace("–", "-").replace(" ", "")]
    return shlex.join([*words, *_describe_isolation(isolation or AgentIsolation())])


def _describe_isolation(isolation: AgentIsolation) -> list[str]:
    words = [] if isolation.level == "none" else ["--isolate", isolation.level]
    # Paths are those of the machine that played.
    words += [w for _ in isolation.allowed for w in ("--sandbox-allow", "PATH")]
    words += [w for name in isolation.variables for w in ("--agent-env", name)]
    if isolation.step_timeout_s is not None:
        words += ["--step-timeout", f"{isolation.step_timeout_s:g}"]
    if isolation.memory_bytes is not None:
        words += ["--agent-memory", f"{isolation.memory_bytes / 10**9:g}"]
    return words
