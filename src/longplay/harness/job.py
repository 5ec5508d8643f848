"""One run to be played, as plain values that can travel to another process.

A job goes to a worker, an outcome comes back; results stay on disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longplay.agents.base import LoadedAgent
from longplay.contract.records import RunState
from longplay.errors import AgentLoadError, LongplayError, RunCancelled
from longplay.harness.agent_config import AgentConfig
from longplay.harness.episode import Episode, ignore_progress, record_unbuilt
from longplay.plan import RunPlan, plan_run
from longplay.runner import Observer
from longplay.scoring.scores import score_run, write_score
from longplay.validation import validate_run


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    seed: int
    run_dir: str
    state: RunState
    final_score: float | None = None
    is_valid: bool | None = None
    error: str | None = None


@dataclass(frozen=True)
class Job:
    """What a worker needs to play a run."""

    suite_id: str
    seed: int
    overrides: dict[str, Any]
    agent_config: dict[str, Any]
    agent_reference: str
    run_dir: str
    retries: int

    @classmethod
    def make(
        cls, plan: RunPlan, agent: LoadedAgent, run_dir: Path, retries: int
    ) -> Job:
        """Writes down a planned run."""
        return cls(
            suite_id=plan.given.suite,
            seed=plan.seed,
            overrides=plan.given.overrides,
            agent_config=agent.entry.config,
            agent_reference=agent.absolute_reference,
            run_dir=str(run_dir.absolute()),
            retries=retries,
        )

    @property
    def plan(self) -> RunPlan:
        """The plan of the run."""
        return plan_run(self.suite_id, self.seed, self.overrides)

    def load_agent(self) -> LoadedAgent:
        """The agent, in a process that has not got it yet."""
        return AgentConfig.from_config(self.agent_config).load(self.agent_reference)

    def play(self, episode: Episode) -> float | None:
        """Plays and scores; raises what goes wrong. Returns the final score."""
        episode.run(self.retries)
        score = score_run(self.run_dir)
        write_score(Path(self.run_dir), score)
        return score.final_score


def play_job(
    job: Job,
    agent: LoadedAgent,
    observer: Observer = ignore_progress,
    validation_workers: int = 1,
) -> Outcome:
    """Plays, scores and validates one run; what goes wrong is its outcome.

    Raises:
        RunCancelled: Somebody asked the run to stop.
    """
    run_dir = Path(job.run_dir)
    try:
        try:
            episode = Episode(job.plan, agent, run_dir, observer)
        except AgentLoadError as error:
            record_unbuilt(job.plan, agent, run_dir, error, job.retries)
            raise
        score = job.play(episode)
        report = validate_run(run_dir, workers=validation_workers)
    except RunCancelled:
        raise
    except LongplayError as error:
        return Outcome(job.seed, job.run_dir, "FAILED", error=str(error))
    return Outcome(job.seed, job.run_dir, "COMPLETED", score, report.is_valid)
