"""An agent, saved and loaded midway -> whether it continues as if nothing happened.

    Continuation(CONTROL_TRIAL, build, seed).compare(folder)

The agent plays a stream to its end and is saved on the way. A new agent loads that and
plays the rest, as in a resumed run. Their answers are compared, and the metrics that
they report after every decision: lost state shows in a metric long before it changes an
action. A metric that differs between two uninterrupted plays, such as a time, is not
compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from longplay.agents.global_random import GlobalRandom, GlobalRandomState
from longplay.agents.protocol import StreamingAgent
from longplay.errors import AgentError
from longplay.runs.trial import Trial, play_frame, read_answer
from longplay.stream import Stream
from longplay.tracks.participant import Participant

# Agents with a replay learn nothing in their first few hundred decisions.
_VISIT_DECISIONS = (500, 400, 300)
_DECISIONS_BEFORE_SAVE = 800

# The answer to one decision and the metrics after it, by their names in messages.
Values = dict[str, float | None]


@dataclass(frozen=True)
class Difference:
    """A value that is not the same in two plays.

    Attributes:
        decision: Number of the decision since the agent was saved, from 1.
        name: The answer or metric, as named in messages.
        first: Its value in the first play; None if it was not reported.
        second: Its value in the second play.
    """

    decision: int
    name: str
    first: float | None
    second: float | None


def find_differences(
    first: Sequence[Values], second: Sequence[Values], ignored: Collection[str] = ()
) -> Iterator[Difference]:
    """Every value that differs between two plays, in order."""
    # Plays of unequal lengths differ in an answer first.
    for number, (one, other) in enumerate(zip(first, second, strict=False), start=1):
        for name in {**one, **other}:
            if name not in ignored and one.get(name) != other.get(name):
                yield Difference(number, name, one.get(name), other.get(name))


class Continuation:
    """Plays of one agent: uninterrupted ones, and one that is resumed midway."""

    def __init__(
        self, trial: Trial, build: Callable[[], StreamingAgent], seed: int
    ) -> None:
        self._trial = trial
        self._build = build
        self._seed = seed
        self._answer_name = "the prediction" if trial.track.predicts else "the action"
        # When the agent was saved: the answers of all frames, the global generators.
        self._answers: list[float] = []
        self._random_state = GlobalRandomState.read()

    def compare(self, folder: Path) -> str:
        """Compares a resumed play with an uninterrupted one.

        Args:
            folder: An empty folder to save the agent in.

        Returns:
            What was compared.

        Raises:
            AgentError: They differ; it names the first decision and value.
        """
        uninterrupted = self.play(folder)
        resumed = self.resume(folder)
        unstable: set[str] = set()
        if any(find_differences(uninterrupted, resumed)):
            unstable = self._find_unstable(uninterrupted)
        for found in find_differences(uninterrupted, resumed, unstable):
            raise AgentError(
                f"decision {found.decision} after load(): {found.name} was "
                f"{_show(found.second)}, without saving and loading it was "
                f"{_show(found.first)}"
            )
        return self._describe(resumed, unstable)

    def play(self, folder: Path | None = None) -> list[Values]:
        """Plays the whole stream; returns the values after the moment of saving."""
        with GlobalRandom(self._seed).in_use():
            stream, participant = self._start()
            answers = _play_first_part(stream, participant)
            if folder is not None:
                self._answers, self._random_state = answers, GlobalRandomState.read()
                participant.save(folder)
                # As for a checkpoint: saving must not change any draws.
                self._random_state.restore()
            return self._record_rest(stream, participant)

    def resume(self, folder: Path) -> list[Values]:
        """Plays the rest of the stream with a new agent that loads the saved state."""
        with GlobalRandom(self._seed).in_use():
            stream, participant = self._start()
            for answer in self._answers:
                stream.advance(answer)
            participant.load(folder)
            self._random_state.restore()
            return self._record_rest(stream, participant)

    def _start(self) -> tuple[Stream, Participant]:
        interval = self._trial.mechanics.decision_interval
        stream = self._trial.make_stream([interval * n for n in _VISIT_DECISIONS])
        return stream, self._trial.track.join(self._build())

    def _record_rest(self, stream: Stream, participant: Participant) -> list[Values]:
        recorded = []
        while not stream.done:
            event = play_frame(stream, participant)
            if event.is_decision_frame:
                metrics = participant.window_metrics()
                named = {f"metric {name!r}": metrics[name] for name in metrics}
                recorded.append({self._answer_name: read_answer(event), **named})
        return recorded

    def _find_unstable(self, uninterrupted: Sequence[Values]) -> set[str]:
        """The metrics that differ between two uninterrupted plays.

        Raises:
            AgentError: The answers differ as well.
        """
        unstable = set()
        for found in find_differences(uninterrupted, self.play()):
            if found.name == self._answer_name:
                decision = _DECISIONS_BEFORE_SAVE + found.decision
                raise AgentError(
                    f"not deterministic: {found.name} at decision {decision} was "
                    f"{_show(found.first)}, with the same seed again it was "
                    f"{_show(found.second)}"
                )
            unstable.add(found.name)
        return unstable

    def _describe(self, compared: Sequence[Values], unstable: Collection[str]) -> str:
        names = {name for values in compared for name in values} - {self._answer_name}
        text = f"{len(compared)} decisions compared"
        if not names:
            return f"{text}; there are no metrics to compare"
        if not unstable:
            return f"{text}, with metrics"
        listed = ", ".join(sorted(unstable))
        return (
            f"{text}; left out {listed}: different in a second run with the same seed"
        )


def _play_first_part(stream: Stream, participant: Participant) -> list[float]:
    """The answers of all frames until the agent is saved, just after a decision."""
    answers, decisions = [], 0
    while decisions < _DECISIONS_BEFORE_SAVE:
        event = play_frame(stream, participant)
        answers.append(read_answer(event))
        decisions += event.is_decision_frame
    return answers


def _show(value: float | None) -> str:
    return "not reported" if value is None else str(value)
