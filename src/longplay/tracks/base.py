"""The definition of a track: one record that the rest of the package reads.

No code outside this package compares a track's name. Everything that differs between
tracks is a field here, so that a new track is a new record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from longplay.agents.isolation.remote import RemoteAgent
from longplay.agents.protocol import StreamingAgent
from longplay.agents.source.loading import LoadedAgent
from longplay.contract.config import RunConfig
from longplay.contract.documents import Score
from longplay.contract.registry import ContractVersion
from longplay.driver import Driver
from longplay.scoring.play import Play
from longplay.tracks.participant import Participant, RemoteParticipant


@dataclass(frozen=True)
class Explanation:
    """The sums behind a game's numbers.

    Attributes:
        rows: The terms of the sums, as plain values.
        headings: Key of a row -> heading of its column.
        rule: How the game's numbers follow from the rows.
    """

    rows: list[dict[str, Any]]
    headings: Mapping[str, str]
    rule: str


@dataclass(frozen=True)
class Track:
    """Everything that defines a track.

    Attributes:
        name: Written to config.json.
        contract: Its contract version: settings, rows and score.
        info_keys: The keys of `info` that an agent gets.
        env_info_keys: The keys of `info` that a Gymnasium loop gets.
        build_agent: Builds an agent for this track from a seed.
        make_driver: Makes the driver, which turns a run's answers into actions.
        predicts: Whether answers are predictions instead of actions.
        frame_noun: The word for a frame of a run in text for people.
        compute_score: Computes score.json.
        less_is_better: Whether a lower headline is better.
        score_columns: Heading -> key of score.json, in tables of several runs.
        scored_on: What is scored, as text; `{windows}` is replaced by the run's
            windows.
        explain_game: Finds the sums behind a game's numbers.
        typical_suite: The suite whose speed estimates that of unmeasured suites.
    """

    name: str
    contract: ContractVersion
    info_keys: tuple[str, ...]
    build_agent: Callable[[LoadedAgent, int], StreamingAgent]
    make_driver: Callable[[RunConfig], Driver]
    frame_noun: str
    compute_score: Callable[[Play], Score]
    score_columns: Mapping[str, str]
    scored_on: str
    explain_game: Callable[[Play, str], Explanation]
    typical_suite: str
    env_info_keys: tuple[str, ...] = ()
    predicts: bool = False
    less_is_better: bool = False

    @property
    def headline(self) -> str:
        """Key of score.json that runs are compared by."""
        return self.contract.score_type.HEADLINE

    def join(self, agent: StreamingAgent) -> Participant:
        """Wraps an agent that was built for this track."""
        if isinstance(agent, RemoteAgent):
            return RemoteParticipant(agent, self.info_keys)
        return Participant(agent, self.info_keys)

    def build(self, agent: LoadedAgent, seed: int) -> Participant:
        """Builds an agent for this track and wraps it.

        Raises:
            AgentLoadError: The agent raised, or does not fit this track.
        """
        return self.join(self.build_agent(agent, seed))
