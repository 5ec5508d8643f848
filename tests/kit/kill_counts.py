"""Counts the kills of the tests marked `kills`, which together make a thousand.

`make kills` runs them alone. Each trial, once its run has proved to be the same as one
that was never killed, is a line in the file that LONGPLAY_KILLS names. Tests that are
started again with that file play only what is missing:

    {"kind":"sandbox","trial":3,"killed":4,"resumed":3,"agents":1}
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec


class Trial(NamedTuple):
    """A run, a probe or an experiment that was killed and ended all the same.

    Attributes:
        kind: What was killed.
        trial: Its number among those of its kind.
        killed: Number of kills.
        resumed: How many of them hit a try after the first.
        agents: How many of them hit the agent's own process alone.
    """

    kind: str
    trial: int
    killed: int
    resumed: int = 0
    agents: int = 0


class KillCounts:
    """The trials of one kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        path = os.environ.get("LONGPLAY_KILLS")
        self._path = None if path is None else Path(path)
        earlier = [t for t in read_trials(self._path) if t.kind == kind]
        self._done = {trial.trial for trial in earlier}
        self.killed = sum(trial.killed for trial in earlier)

    def trials(self, due: int) -> Iterator[int]:
        """Numbers of the trials to play, until there are as many kills as due."""
        trial = 0
        while self.killed < due:
            if trial not in self._done:
                yield trial
            trial += 1

    def add(self, trial: int, killed: int, resumed: int = 0, agents: int = 0) -> None:
        """Counts the kills of a trial that went well."""
        self.killed += killed
        if self._path is not None:
            done = Trial(self._kind, trial, killed, resumed, agents)
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(done._asdict()) + b"\n")


def read_trials(path: Path | None) -> list[Trial]:
    """The trials in a file; none if it does not exist."""
    if path is None or not path.exists():
        return []
    lines = path.read_bytes().splitlines()
    return [Trial(**msgspec.json.decode(line)) for line in lines]


def main() -> None:
    """Prints the kills in a file by their kind."""
    trials = read_trials(Path(sys.argv[1]))
    kinds = dict.fromkeys(trial.kind for trial in trials)
    rows = [["killed", "trials", "kills", "of resumed", "of agents"]]
    for kind in (*kinds, "all"):
        own = [trial for trial in trials if kind in (trial.kind, "all")]
        killed = sum(trial.killed for trial in own)
        resumed = sum(trial.resumed for trial in own)
        agents = sum(trial.agents for trial in own)
        rows.append([kind, *map(str, (len(own), killed, resumed, agents))])
    for row in rows:
        sys.stdout.write("".join(cell.ljust(22) for cell in row).rstrip() + "\n")


if __name__ == "__main__":
    main()
