"""The options that isolate an agent: --isolate and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from longplay.agents.isolation.levels import Isolation
from longplay.errors import ConfigError

_GIGABYTE = 10**9

Isolate = Annotated[
    str | None,
    typer.Option(
        metavar="none|process|sandbox",
        help="Run the agent in its own process, or in a sandbox (default: none).",
    ),
]
SandboxAllow = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH[:rw]", help="Let a sandboxed agent read (or write) this path."
    ),
]
AgentEnv = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Pass this environment variable to an isolated agent."
    ),
]
StepTimeout = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Time limit of a step of an isolated agent."),
]
AgentMemory = Annotated[
    float | None,
    typer.Option(metavar="GB", help="Memory limit of an isolated agent."),
]


def make_isolation(
    level: str | None,
    allowed: Sequence[str] | None = None,
    variables: Sequence[str] | None = None,
    step_timeout_s: float | None = None,
    memory_gb: float | None = None,
) -> Isolation:
    """The isolation that the options ask for.

    Raises:
        ConfigError: They contradict each other, or this machine cannot do it.
    """
    isolation = Isolation(
        level or "none",  # type: ignore[arg-type] # refuses any other text
        tuple(allowed or ()),
        tuple(variables or ()),
        step_timeout_s,
        None if memory_gb is None else round(memory_gb * _GIGABYTE),
    )
    isolation.check_available()
    return isolation


def refuse_debugging(debug: bool, isolation: Isolation) -> None:
    """Refuses to debug an agent that runs in another process.

    Raises:
        ConfigError: It does.
    """
    if debug and isolation.level != "none":
        raise ConfigError(
            f"--debug: only with --isolate none, found {isolation.level}: the agent "
            "runs in another process"
        )
