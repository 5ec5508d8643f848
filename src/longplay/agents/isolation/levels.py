"""How far an agent is kept from the referee, as it is asked for and written down.

    none       the agent runs in the referee's process
    process    it runs in an interpreter of its own, and gets percepts and nothing else
    sandbox    the same, restricted by the operating system: Linux with Landlock

Without `none` nothing is promised to an agent, with `process` nothing against an agent
that runs as the user root or looks around in the file system.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from longplay.agents.isolation.landlock import SandboxError, check_available
from longplay.agents.isolation.sandbox import parse_allowed
from longplay.errors import ConfigError

Level = Literal["none", "process", "sandbox"]
LEVELS: tuple[Level, ...] = get_args(Level)

# What an agent's process keeps of the referee's environment.
_KEPT_VARIABLES = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


@dataclass(frozen=True)
class Isolation:
    """What keeps an agent from the referee.

    Attributes:
        level: As the module's docstring says.
        allowed: More paths of a sandbox, `PATH` or `PATH:rw`.
        variables: Names of more environment variables that the agent gets.
        step_timeout_s: The most a step may take; the first one is not counted.
        memory_bytes: The most the agent and its descendants may have resident.
    """

    level: Level = "none"
    allowed: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    step_timeout_s: float | None = None
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ConfigError(
                f"--isolate: expected {', '.join(LEVELS)}, found {self.level!r}"
            )
        self._check_options()
        if self.level != "none" and sys.platform != "linux":
            raise ConfigError(
                f"--isolate {self.level}: needs Linux, found {sys.platform}"
            )
        if self.level == "sandbox":
            for text in self.allowed:
                parse_allowed(text)

    def _check_options(self) -> None:
        needs_process = {
            "--agent-env": self.variables,
            "--step-timeout": self.step_timeout_s,
            "--agent-memory": self.memory_bytes,
        }
        for option, value in needs_process.items():
            if value and self.level == "none":
                raise ConfigError(f"{option}: only with --isolate process or sandbox")
        if self.allowed and self.level != "sandbox":
            raise ConfigError("--sandbox-allow: only with --isolate sandbox")

    def check_available(self) -> int | None:
        """Returns the version of Landlock in use; None without a sandbox.

        Raises:
            ConfigError: This machine cannot isolate an agent so.
        """
        if self.level != "sandbox":
            return None
        try:
            return check_available()
        except SandboxError as error:
            raise ConfigError(f"--isolate sandbox: {error}") from error

    def make_environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """The environment of the agent's process.

        Args:
            own: What is set for it alone.
        """
        kept = (*_KEPT_VARIABLES, *self.variables)
        return {**{n: os.environ[n] for n in kept if n in os.environ}, **own}

    def to_json(self) -> dict[str, Any]:
        """`agent_isolation` of config.json."""
        return {
            "level": self.level,
            "landlock_abi": self.check_available(),
            "allowed": list(self.allowed),
        }
