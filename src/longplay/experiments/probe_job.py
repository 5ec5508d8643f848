"""One probe to play, as plain values that can be sent to another process.

A probe is a run whose agent is set back before every visit, so it is played, stopped,
resumed and validated like a run. A probe that was stopped continues from its last
checkpoint; without one it starts again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from longplay.agents.source.loading import LoadedAgent
from longplay.agents.source.saved import check_state
from longplay.contract.files import remove_directory
from longplay.contract.layout import RUN_REQUEST
from longplay.contract.rundir import RunDirectory
from longplay.experiments.job import Job, RunResult
from longplay.plan import RunPlan
from longplay.probes import Origin
from longplay.runs.checkpoint import read_checkpoint
from longplay.runs.loop import Observer
from longplay.runs.options import DEFAULT_OPTIONS
from longplay.runs.probe_session import ProbeSession
from longplay.runs.session import Session
from longplay.runs.status import view_run
from longplay.runs.writer import request_run
from longplay.validation import RunRows, validate_run


@dataclass(frozen=True)
class ProbeJob(Job):
    """The input of a worker that plays a probe.

    Attributes:
        state: Where the agent is saved, and the hash of its files; None for `fresh`.
        origin: The run whose agent is probed.
    """

    state: tuple[Path, str] | None = None
    origin: Origin | None = None

    @classmethod
    def plan_for(
        cls,
        plan: RunPlan,
        agent: LoadedAgent,
        run_dir: Path,
        state: tuple[Path, str] | None,
        origin: Origin,
    ) -> ProbeJob:
        """The job of a probe that is not complete."""
        view = view_run(plan, run_dir)
        return cls(
            plan,
            request_run(plan, agent, DEFAULT_OPTIONS),
            agent.absolute_spec,
            run_dir.absolute(),
            view.retries,
            resume_only=True,
            state=None if state is None else (state[0].absolute(), state[1]),
            origin=origin,
        )

    def check(self) -> None:
        """Refuses a state whose files are not those that were kept."""
        if self.state is not None:
            check_state(*self.state)

    def can_resume(self) -> bool:
        """Whether the probe on disk has a checkpoint; removes it otherwise.

        What it has played without a checkpoint is played again in seconds.
        """
        if read_checkpoint(self.run_dir) is not None:
            return True
        remove_directory(self.run_dir)
        return False

    def open_session(self, agent: LoadedAgent, observer: Observer) -> Session:
        """The session that plays it, from the state it names."""
        folder = None if self.state is None else self.state[0]
        return ProbeSession(
            self.plan, agent, self.run_dir, folder, observer, self.options
        )

    def validate(self, rows: RunRows | None = None, workers: int = 1) -> RunResult:
        """Validates the complete probe against its run."""
        report = validate_run(
            self.run_dir, workers=workers, rows=rows, origin=self.origin
        )
        return RunResult(self.seed, self.run_dir, "COMPLETED", report)

    def describe_other(self) -> str:
        """How the probe in the folder differs from this one; empty if it does not."""
        if not (self.run_dir / "config.json").exists():
            return self._describe_strange()
        found, planned = RunDirectory(self.run_dir).config, self.plan.config
        if found.probe is None:
            return "it is not a probe"
        assert planned.probe is not None
        for name, wanted in planned.probe:
            if (was := getattr(found.probe, name)) != wanted:
                return f"its probe.{name} is {was}, not {wanted}"
        if found.schedule != planned.schedule:
            was_games, games = (
                ", ".join(dict.fromkeys(visit.game_id for visit in config.schedule))
                for config in (found, planned)
            )
            return f"its games are {was_games}, not {games}"
        return ""

    def _describe_strange(self) -> str:
        """Names a file in the folder that no probe has written; empty without any."""
        known = {RUN_REQUEST, "status.json"}
        paths = self.run_dir.glob("[!.]*")
        strange = sorted(path.name for path in paths if path.name not in known)
        return f"it has {strange[0]}, which no probe writes" if strange else ""
