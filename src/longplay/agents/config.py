"""An agent's config, and the way back from it to an agent.

Opening a directory never imports what it names. longplay's own agents are found again
in a registry; any other agent is loaded only from a reference that a person gives
again, and only if it turns out to be the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from longplay.agents.loading import BUILT_IN_AGENTS, LoadedAgent, load_agent
from longplay.agents.protocol import StreamingAgent
from longplay.contract.confidential import check_no_secrets
from longplay.contract.files import describe_invalid
from longplay.contract.fingerprint import agent_id
from longplay.contract.records import AgentEntry, Document
from longplay.errors import AgentLoadError, ConfigError

# What a config calls an agent -> the name it is loaded by.
_REGISTRY: Mapping[str, str] = {
    target.replace(":", "."): name for name, target in BUILT_IN_AGENTS.items()
}


def _is_none(value: object) -> bool:
    return value is None


class AgentConfig(Document):
    """What is written down of an agent: `{_type, args}` and hashes of its files."""

    model_config = ConfigDict(extra="forbid", serialize_by_alias=True)

    type_: str = Field(
        alias="_type", min_length=1, description="Module and name of the agent."
    )
    args: dict[str, Any] = Field(
        default_factory=dict, description="Arguments it is built with; no seed."
    )
    file: str | None = Field(
        default=None,
        exclude_if=_is_none,
        description="Base name of the file it is in.",
    )
    source_sha256: str | None = Field(
        default=None,
        exclude_if=_is_none,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of that file.",
    )
    files_sha256: str | None = Field(
        default=None,
        exclude_if=_is_none,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of the list of its files, if it is more than that file.",
    )
    revision: int | None = Field(
        default=None,
        exclude_if=_is_none,
        ge=1,
        description="Of a learner of longplay's: raised when its behaviour changes.",
    )

    @model_validator(mode="after")
    def _refuse_secrets(self) -> Self:
        check_no_secrets(self.args, "agent args")
        return self

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> AgentConfig:
        """Reads a config as it stands in a record.

        Raises:
            ConfigError: It is no agent config, or holds something like a password.
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
            ConfigError: Its config has another hash than its agent_id says.
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
        """How a run directory writes it down."""
        return AgentEntry(config=self.model_dump(mode="json"), agent_id=self.agent_id)

    @property
    def is_built_in(self) -> bool:
        """Whether longplay itself has this agent."""
        return (
            self.type_ in _REGISTRY and self.file is None and self.files_sha256 is None
        )

    def load(
        self,
        reference: str | Callable[..., StreamingAgent] | None = None,
        agent_files: Sequence[str] = (),
    ) -> LoadedAgent:
        """Finds the agent again.

        Args:
            reference: Given by a person, as `--agent` takes it. Built-in agents need
                none.
            agent_files: Patterns of its files, as `--agent-files` gave them.

        Raises:
            AgentLoadError: No reference, or one that leads to another agent.
        """
        if reference is None:
            if not self.is_built_in:
                raise AgentLoadError(
                    f"agent {self.type_} is not one of longplay's own, and a name "
                    f"found in a file is never imported; say where it is with --agent"
                )
            reference = _REGISTRY[self.type_]
        agent = load_agent(reference, self.args, agent_files)
        self._check_same(agent)
        return agent

    def _check_same(self, agent: LoadedAgent) -> None:
        if agent.entry.agent_id == self.agent_id:
            return
        mine, found = self.entry.config, agent.entry.config
        name = next(k for k in (*mine, *found) if mine.get(k) != found.get(k))
        raise AgentLoadError(
            f"agent {agent.reference} is another agent: expected {name} "
            f"{mine.get(name)!r}, found {found.get(name)!r}"
        )
