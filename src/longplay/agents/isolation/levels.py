"""The isolation levels between agent and referee, and their options.

    none       the agent runs in the referee's process
    process    it runs in its own interpreter, and gets only percepts
    sandbox    the same, restricted by the operating system: Linux with Landlock

`none` gives no protection. `process` does not protect against an agent that runs as
root or reads other files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Self, get_args

from longplay.agents.isolation import landlock, seccomp
from longplay.agents.isolation.landlock import SandboxError
from longplay.agents.isolation.sandbox import parse_allowed
from longplay.contract.documents import AgentIsolation, IsolationLevel
from longplay.errors import ConfigError, escape_controls

LEVELS: tuple[IsolationLevel, ...] = get_args(IsolationLevel)

# Variables of the referee's environment that an agent's process gets.
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
    """How an agent is isolated from the referee.

    Attributes:
        level: One of the levels in the module's docstring.
        allowed: Additional paths for a sandbox, `PATH` or `PATH:rw`.
        variables: Names of additional environment variables for the agent.
        step_timeout_s: Time limit of a step; the first step has none.
        memory_bytes: Limit of resident memory of the agent and its descendants.
        has_new_cache: Whether it starts with an empty cache of compiled code, so that
            it finds nothing that an earlier run left there.
    """

    level: IsolationLevel = "none"
    allowed: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    step_timeout_s: float | None = None
    memory_bytes: int | None = None
    has_new_cache: bool = False

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
            if value not in (None, ()) and self.level == "none":
                raise ConfigError(f"{option}: only with --isolate process or sandbox")
            if isinstance(value, int | float) and not 0 < value < inf:
                raise ConfigError(f"{option}: expected a number > 0, found {value:g}")
        if self.allowed and self.level != "sandbox":
            raise ConfigError("--sandbox-allow: only with --isolate sandbox")

    def check_available(self) -> int | None:
        """Returns the version of Landlock in use; None without a sandbox.

        Raises:
            ConfigError: This machine does not support the level.
        """
        if self.level != "sandbox":
            return None
        try:
            seccomp.check_available()
            return landlock.check_available()
        except SandboxError as error:
            raise ConfigError(f"--isolate sandbox: {error}") from error

    @property
    def warning(self) -> str | None:
        """What a user may wrongly expect of this level here; None for nothing."""
        if self.level == "process" and os.geteuid() == 0:
            return (
                "--isolate process: this runs as root, so the agent can read and "
                "change everything; only a sandbox protects the run"
            )
        if self.allowed:  # on resuming, a file asks for it and not the user
            paths = ", ".join(map(escape_controls, self.allowed))
            return f"--isolate sandbox: the agent may also access {paths}"
        return None

    def make_environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """The environment of the agent's process.

        Args:
            own: Variables that are set only for the agent.
        """
        kept = (*_KEPT_VARIABLES, *self.variables)
        return {**{n: os.environ[n] for n in kept if n in os.environ}, **own}

    def to_record(self) -> AgentIsolation:
        """`agent_isolation` of config.json, for a run on this machine."""
        return AgentIsolation(
            level=self.level,
            landlock_abi=self.check_available(),
            allowed=self.allowed,
            variables=self.variables,
            step_timeout_s=self.step_timeout_s,
            memory_bytes=self.memory_bytes,
        )

    @classmethod
    def from_record(cls, record: AgentIsolation) -> Self:
        """The isolation that a record asks for.

        Raises:
            ConfigError: This machine does not support it, or lacks an allowed path.
        """
        return cls(
            record.level,
            record.allowed,
            record.variables,
            record.step_timeout_s,
            record.memory_bytes,
        )


NOT_ISOLATED = Isolation()
