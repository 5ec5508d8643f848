"""Forged logs that are consistent, so that validation finds nothing.

A `Story` is the content of a log: the agent's answers and the games' outcomes. `tell`
turns a story into row files with longplay's own stream and recorder, so a forged log
obeys every rule of the contract. `FORGERIES` is the table: one row per lie, with a
small function that changes a story.
"""

# The table has one lie per line, even if the line is long.
# ruff: noqa: E501
from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec

from longplay.console.base import ConsoleStep
from longplay.contract.config import RunConfig
from longplay.contract.digests import Chain
from longplay.contract.files import read_document
from longplay.runs.recorder import Recorder
from longplay.stream import Stream
from longplay.tracks.scores import score_run, write_score
from rows import Row, read_rows, rehash

NO_OP = 0


@dataclass(frozen=True)
class Outcome:
    """The outcome of one frame."""

    reward: float
    game_over: bool
    lives: int
    emulator_frames: int


@dataclass
class Visit:
    """The story of one visit."""

    answers: list[int]
    outcomes: list[Outcome]

    def change(self, at: int, **values: Any) -> None:
        self.outcomes[at] = replace(self.outcomes[at], **values)

    def rewarded(self) -> list[int]:
        return [i for i, outcome in enumerate(self.outcomes) if outcome.reward]

    def at(self, share: float) -> int:
        return int(share * len(self.outcomes))


Story = list[Visit]
Lie = Callable[[Story], object]


def read_story(run: Path) -> Story:
    """Reads the story of a log."""
    rows = read_rows(run / "events.jsonl")
    visits: Story = []
    for i, row in enumerate(rows):
        if row["visit_frame_idx"] == 0:
            visits.append(Visit([], []))
        is_reset = i + 1 < len(rows) and rows[i + 1]["segment_id"] != row["segment_id"]
        visits[-1].outcomes.append(
            Outcome(
                reward=row.get("game_reward", row["reward"]),
                game_over=row["terminated"] and is_reset,
                lives=row["lives"],
                emulator_frames=row.get("emulator_frames", 1),
            )
        )
        if row["is_decision_frame"]:
            visits[-1].answers.append(row["decided_action_idx"])
    return visits


class ToldConsole:
    """Plays back a story, regardless of the actions."""

    actions = range(18)

    def __init__(self, story: Story) -> None:
        self._visits = iter(story)
        self.emulator_frames = 1

    def start_visit(self, game_id: str, emulator_seed: int) -> None:
        self._outcomes = iter(next(self._visits).outcomes)
        self._next = next(self._outcomes)

    def reset(self) -> None:
        pass

    def step(self, action: int) -> ConsoleStep:
        now, self._next = self._next, next(self._outcomes, self._next)
        self.emulator_frames = now.emulator_frames
        return now.reward, now.game_over, now.lives

    def lives(self) -> int:
        return self._next.lives

    def observation(self) -> Any:
        raise AssertionError("a story has no pixels")

    def ram(self) -> memoryview:
        return memoryview(b"")


class _Answers:
    """The answers of a visit; the last one is repeated at the end."""

    def __init__(self, answers: Sequence[int]) -> None:
        self._left = iter(answers)
        self._last = NO_OP

    def __index__(self) -> int:
        self._last = next(self._left, self._last)
        return self._last


def tell(run: Path, story: Story) -> None:
    """Overwrites a run with a story; digests and chain head stay the same."""
    config = read_document(run / "config.json", RunConfig)
    digests = (run / "digests.jsonl").read_bytes()
    for path in run.glob("*.jsonl"):
        path.unlink()
    recorder = Recorder.create(run)
    stream = Stream.from_config(config, ToldConsole(story))  # type: ignore[arg-type]
    for told in story:
        stream.begin_visit()
        recorder.begin_visit(stream.visit, stream.console.actions)
        for answer in repeat(_Answers(told.answers), stream.visit.visit_frames):
            event = stream.advance(answer)
            recorder.write(event)
            if event.terminated or event.truncated:
                recorder.write_ends(stream.ended_episode, stream.ended_segment)
        recorder.end_visit({})
    recorder.close()
    (run / "digests.jsonl").write_bytes(digests)
    _mend_summary(run, recorder.summarise().model_dump(mode="json"))
    write_score(run, score_run(run))
    rehash(run)


def _mend_summary(run: Path, told: Row) -> None:
    """Updates the counts and sums; times and chain head stay the same."""
    path = run / "run_summary.json"
    summary = json.loads(path.read_text())
    counts = ("frames", "decision_frames", "emulator_frames", "episodes")
    sums = ("reward_sum", "game_reward_sum")
    summary.update({name: told[name] for name in (*counts, "segments")})
    for old, new in zip(summary["visits"], told["visits"], strict=True):
        old.update({name: new[name] for name in (*counts, *sums)})
    path.write_text(json.dumps(summary, indent=2) + "\n")


def rechain(run: Path) -> None:
    """Recomputes the chain from the rows; the memory digests stay the same."""
    lines = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    digests, chain, first = read_rows(run / "digests.jsonl"), Chain(), 0
    for digest in digests:
        end = digest["global_frame_idx"] + 1
        chain.add(b"".join(lines[first:end]))
        digest["chain"] = chain.close_block().hex()
        first = end
    (run / "digests.jsonl").write_bytes(msgspec.json.Encoder().encode_lines(digests))
    path = run / "run_summary.json"
    summary = json.loads(path.read_text())
    summary["chain_head"] = digests[-1]["chain"]
    path.write_text(json.dumps(summary, indent=2) + "\n")
    rehash(run)


# --- Lies about rewards ---------------------------------------------------------


def move_reward(by: int) -> Lie:
    """Moves a reward from the middle of the visit by some frames."""

    def lie(story: Story) -> None:
        visit = story[0]
        rewarded = set(visit.rewarded())
        at = next(i for i in sorted(rewarded) if i > 20 and i + by not in rewarded)
        visit.change(at + by, reward=visit.outcomes[at].reward)
        visit.change(at, reward=0.0)

    return lie


def change_reward(which: int, change: Callable[[float], float]) -> Lie:
    """Changes one of the rewards."""

    def lie(story: Story) -> None:
        at = story[0].rewarded()[which]
        story[0].change(at, reward=change(story[0].outcomes[at].reward))

    return lie


def add_reward(share: float, amount: float) -> Lie:
    """Adds to a frame's reward, at a share of the visit; 1 is its last frame."""

    def lie(story: Story) -> None:
        at = min(story[0].at(share), len(story[0].outcomes) - 1)
        story[0].change(at, reward=story[0].outcomes[at].reward + amount)

    return lie


def reorder_rewards(order: Callable[[list[float]], list[float]]) -> Lie:
    """Redistributes the rewards of the visit."""

    def lie(story: Story) -> None:
        rewards = order([outcome.reward for outcome in story[0].outcomes])
        for at, reward in enumerate(rewards):
            story[0].change(at, reward=reward)

    return lie


# --- Lies about lives and ends --------------------------------------------------


def change_lives(first: float, last: float, by: int) -> Lie:
    """Changes the number of lives between two shares of the visit."""

    def lie(story: Story) -> None:
        visit = story[0]
        for at in range(visit.at(first), max(visit.at(first) + 1, visit.at(last))):
            at = min(at, len(visit.outcomes) - 1)
            visit.change(at, lives=max(0, visit.outcomes[at].lives + by))

    return lie


def invent_game_over(share: float) -> Lie:
    """Ends a game episode where none ended."""
    return lambda story: story[0].change(story[0].at(share), game_over=True)


def hide_game_over(which: int) -> Lie:
    def lie(story: Story) -> None:
        over = [i for i, o in enumerate(story[0].outcomes) if o.game_over]
        story[0].change(over[which], game_over=False, emulator_frames=4)

    return lie


def move_game_over(by: int) -> Lie:
    def lie(story: Story) -> None:
        at = next(i for i, o in enumerate(story[0].outcomes) if o.game_over)
        story[0].change(at, game_over=False, emulator_frames=4)
        story[0].change(at + by, game_over=True)

    return lie


# --- Lies about actions ---------------------------------------------------------


def change_answer(share: float) -> Lie:
    """Changes a decision at a share of the visit, and all rows that follow from it."""

    def lie(story: Story) -> None:
        answers = story[0].answers
        at = min(int(share * len(answers)), len(answers) - 1)
        answers[at] = (answers[at] + 1) % 18

    return lie


def change_answers(change: Callable[[list[int]], list[int]]) -> Lie:
    def lie(story: Story) -> None:
        story[0].answers = change(story[0].answers)

    return lie


def swap_answers(answers: list[int]) -> list[int]:
    """Swaps two adjacent decisions in the middle that differ."""
    at = next(
        i for i in range(len(answers) // 2, 10**6) if answers[i] != answers[i + 1]
    )
    return [*answers[:at], answers[at + 1], answers[at], *answers[at + 2 :]]


# --- Lies about whole visits ----------------------------------------------------


def swap_visits(story: Story) -> None:
    """Swaps the outcomes of two games."""
    story[0], story[1] = story[1], story[0]


def swap_outcomes(story: Story) -> None:
    a, b = story
    a.outcomes, b.outcomes = b.outcomes, a.outcomes


def repeat_half(story: Story) -> None:
    """Repeats the first half of a visit: an episode that was never played."""
    half = len(story[0].outcomes) // 2
    story[0].outcomes[half:] = story[0].outcomes[: len(story[0].outcomes) - half]
    story[0].change(half - 1, game_over=True)


# --- The table ------------------------------------------------------------------

STREAM, LIVES, CONTROL, TWO_GAMES = "stream", "lives", "control", "two games"
SOURCES = (STREAM, LIVES, CONTROL)


@dataclass(frozen=True)
class Forgery:
    """One lie.

    Attributes:
        name: Describes the lie.
        source: The run whose story it is.
        lie: Changes the story.
    """

    name: str
    source: str
    lie: Lie

    def __str__(self) -> str:
        return f"{self.source}: {self.name}".replace(" ", "-")


_REWARDS: dict[str, Lie] = {
    "a reward later": move_reward(3),
    "a reward one frame later": move_reward(1),
    "a reward earlier": move_reward(-3),
    "a reward doubled": change_reward(1, lambda reward: 2 * reward),
    "a reward negated": change_reward(1, lambda reward: -reward),
    "a reward erased": change_reward(-1, lambda reward: 0.0),
    "the first reward erased": change_reward(0, lambda reward: 0.0),
    "a little more reward": change_reward(0, lambda reward: reward + 0.5),
    "a reward in the first frame": add_reward(0, 100.0),
    "a reward in the middle": add_reward(0.5, 100.0),
    "a reward in the last frame": add_reward(1, 100.0),
    "a loss in the middle": add_reward(0.5, -7.0),
    "all rewards one frame late": reorder_rewards(lambda r: [0.0, *r[:-1]]),
    "all rewards one frame early": reorder_rewards(lambda r: [*r[1:], 0.0]),
    "rewards in reverse": reorder_rewards(lambda r: r[::-1]),
    "all rewards at the end": reorder_rewards(sorted),
}
_LIVES: dict[str, Lie] = {
    "a life more in one frame": change_lives(0.3, 0.3, 1),
    "a life less in one frame": change_lives(0.2, 0.2, -1),
    "a life more to the end": change_lives(0.6, 1.0, 1),
    "a life more in all frames": change_lives(0.0, 1.0, 1),
    "a life more in the last frame": change_lives(1.0, 1.0, 1),
}
_ENDS: dict[str, Lie] = {
    "a game over early": invent_game_over(0.1),
    "a game over in the middle": invent_game_over(0.5),
    "a game over late": invent_game_over(0.95),
    "an episode told twice": repeat_half,
}
_ACTIONS: dict[str, Lie] = {
    **{f"another decision at {s:.0%}": change_answer(s) for s in (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0)},
    "another decision everywhere": change_answers(lambda a: [(one + 1) % 18 for one in a]),
    "no operation everywhere": change_answers(lambda a: [NO_OP] * len(a)),
    "two decisions swapped": change_answers(swap_answers),
    "decisions one late": change_answers(lambda a: [NO_OP, *a[:-1]]),
}  # fmt: skip

FORGERIES = [
    *(Forgery(name, source, lie) for source in SOURCES for lies in (_REWARDS, _LIVES, _ENDS, _ACTIONS) for name, lie in lies.items()),
    Forgery("a game over hidden", CONTROL, hide_game_over(0)),
    Forgery("a game over later", CONTROL, move_game_over(5)),
    Forgery("a game over earlier", CONTROL, move_game_over(-5)),
    Forgery("one game told as the other", TWO_GAMES, swap_visits),
    Forgery("what one game did told of the other", TWO_GAMES, swap_outcomes),
]  # fmt: skip

# With a recomputed chain: lies about rewards, lives and ends must still be found.
RECHAINED = [
    f for f in FORGERIES if f.name in _REWARDS.keys() | _LIVES.keys() | _ENDS.keys()
][::2]
