"""Which policies anchor which suites, and the facts kept of each: no torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field

from longplay.contract.documents import SCHEMA_VERSION, Document
from longplay.stream import Mechanics
from longplay.suites import ControlSuite, Suite, get_suite
from references.workspace import Workspace


@dataclass(frozen=True)
class AnchorTask:
    """A game under the rules of a suite, in visits of a given length.

    Attributes:
        suite_id: Where emulator and control rules come from.
        visit_frames: Frames or timesteps of a measured visit.
    """

    suite_id: str
    visit_frames: int

    @property
    def suite(self) -> Suite:
        """The suite."""
        return get_suite(self.suite_id)

    @property
    def frame_skip(self) -> int:
        """Emulator frames per frame of a run."""
        suite = self.suite
        return suite.frame_skip if isinstance(suite, ControlSuite) else 1

    @property
    def mechanics(self) -> Mechanics:
        """The control rules."""
        suite = self.suite
        return Mechanics(
            decision_interval=suite.decision_interval,
            delay=suite.delay,
            life_loss_termination=suite.life_loss_termination,
            default_action_idx=suite.default_action_idx,
            reward=suite.reward if isinstance(suite, ControlSuite) else "raw",
        )


# A game of the control track that has no reference policy, and the streaming games.
ANCHOR_TASKS: dict[str, AnchorTask] = {
    "crazy_climber": AnchorTask("control-3x3-v1", 15_000),
    **{
        game: AnchorTask("stream-8x3-v1", 200_000)
        for game in get_suite("stream-8x3-v1").games
    },
}


class AnchorWorkspace(Workspace):
    """The folder of one game's anchor policy.

    WORK/<game>/training.safetensors      checkpoint of a running training
    WORK/<game>/trained.safetensors       its result                   (train)
    WORK/<game>/policy.safetensors        the frozen policy            (freeze)
    WORK/<game>/visits/seed-<n>.json      measured visits
    WORK/<game>/visits.json               all of them                  (visits)
    """

    games: ClassVar[tuple[str, ...]] = tuple(ANCHOR_TASKS)
    game_kind: ClassVar[str] = "game with an anchor policy"
    results: ClassVar[dict[str, str]] = {
        "train": "trained.safetensors",
        "freeze": "policy.safetensors",
        "visits": "visits.json",
    }

    @property
    def task(self) -> AnchorTask:
        """What the policy is for."""
        return ANCHOR_TASKS[self.game_id]


class AnchorVisit(Document):
    """Delivered reward of one visit."""

    seed: int
    frames: int
    reward_sum: float

    @property
    def rate(self) -> float:
        """Reward per frame."""
        return self.reward_sum / self.frames


class AnchorFacts(Document):
    """A frozen policy and the visits it was measured on: the file `visits.json`."""

    schema_version: int = SCHEMA_VERSION
    game: str
    suite: str = Field(description="Whose emulator and control rules it plays under.")
    policy_sha256: str = Field(description="Of the file of the frozen policy.")
    actions: tuple[int, ...]
    exploration: float
    recipe: dict[str, Any]
    versions: dict[str, str] = Field(description="longplay, ale_py that played.")
    visits: tuple[AnchorVisit, ...]
