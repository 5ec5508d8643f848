"""An agent's config, and the way back from it to an agent.

Opening a directory never imports the modules it names. Built-in agents are found in a
registry; any other agent is loaded only from an agent spec that the user gives again,
and only if it is the same agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from longplay.agents.isolation.levels import NOT_ISOLATED, Isolation
from longplay.agents.isolation.remote import load_agent_at
from longplay.agents.protocol import StreamingAgent
from longplay.agents.source.loading import BUILT_IN_AGENTS, LoadedAgent
from longplay.contract.confidential import check_no_secrets
from longplay.contract.config import AgentEntry
from longplay.contract.documents import Document, Sha256, optional
from longplay.contract.files import describe_invalid
from longplay.contract.fingerprint import agent_id
from longplay.errors import AgentLoadError, ConfigError

# `_type` in a config -> the name of the built-in agent.
_REGISTRY: Mapping[str, str] = {
    target.replace(":", "."): name for name, target in BUILT_IN_AGENTS.items()
}


class AgentConfig(Document):
    """The config of an agent: `{_type, args}` and hashes of its files."""

    model_config = ConfigDict(extra="forbid", serialize_by_alias=True)

    type_: str = Field(
        alias="_type", min_length=1, description="Module and name of the agent."
    )
    args: dict[str, Any] = Field(
        default_factory=dict, description="Arguments it is built with; no seed."
    )
    file: str | None = optional("Base name of the file it is in.")
    source_sha256: Sha256 | None = optional("SHA-256 of that file.")
    files_sha256: Sha256 | None = optional(
        "SHA-256 of the list of its files, if it is more than that file."
    )
    revision: int | None = optional(
        "Revision of a built-in learner, raised when its behaviour changes.", ge=1
    )

    @model_validator(mode="after")
    def _refuse_secrets(self) -> Self:
        check_no_secrets(self.args, "agent args")
        return self

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> AgentConfig:
        """Reads the config of a record.

        Raises:
            ConfigError: It is not an agent config, or contains something that looks
                like a secret.
        """
        check_no_secrets(config, "agent config")
        try:
            return cls(**config)
        except ValidationError as error:
            raise ConfigError(f"agent config {describe_invalid(error)}") from error

    @classmethod
    def from_entry(cls, entry: AgentEntry) -> AgentConfig:
        """Reads the agent of a run's config.json.

        Raises:
            ConfigError: Its agent_id is not the hash of its config.
        """
        config = cls.from_config(entry.config)
        if config.agent_id != entry.agent_id:
            raise ConfigError(
                f"agent agent_id: expected {config.agent_id}, the hash of its config, "
                f"found {entry.agent_id}"
            )
        return config

    @cached_property
    def agent_id(self) -> str:
        """SHA-256 of the config's JSON with sorted keys."""
        return agent_id(self.model_dump(mode="json"))

    @property
    def entry(self) -> AgentEntry:
        """The entry for a run's config.json."""
        return AgentEntry(config=self.model_dump(mode="json"), agent_id=self.agent_id)

    @property
    def is_built_in(self) -> bool:
        """Whether this is a built-in agent."""
        return (
            self.type_ in _REGISTRY and self.file is None and self.files_sha256 is None
        )

    def load(
        self,
        spec: str | Callable[..., StreamingAgent] | None = None,
        agent_files: Sequence[str] = (),
        isolation: Isolation = NOT_ISOLATED,
    ) -> LoadedAgent:
        """Loads the agent.

        Args:
            spec: The agent spec that the user gave, as for `--agent`. Built-in
                agents need none.
            agent_files: Patterns of its files, as for `--agent-files`.
            isolation: How it is isolated from the referee.

        Raises:
            AgentLoadError: The spec is missing, or names a different agent.
        """
        if spec is None:
            if not self.is_built_in:
                raise AgentLoadError(
                    f"agent {self.type_} is not built in, and longplay never imports "
                    f"a name found in a file; say where it is with --agent"
                )
            spec = _REGISTRY[self.type_]
        agent = load_agent_at(isolation, spec, self.args, agent_files)
        self._check_same(agent)
        return agent

    def _check_same(self, agent: LoadedAgent) -> None:
        if agent.entry.agent_id == self.agent_id:
            return
        mine, found = self.entry.config, agent.entry.config
        name = next(k for k in (*mine, *found) if mine.get(k) != found.get(k))
        raise AgentLoadError(
            f"agent {agent.spec} is a different agent: expected {name} "
            f"{mine.get(name)!r}, found {found.get(name)!r}"
        )
