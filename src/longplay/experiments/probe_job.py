"""One probe to play, as plain values that can be sent to another process.

A probe is a run whose agent is set back before every visit, so it is played, stopped,
resumed and validated like a run. A probe that was stopped continues from its last
checkpoint; without one it starts again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from longplay.agents.source.loading import LoadedAgent
from longplay.agents.source.saved import check_state
from longplay.contract.files import remove_directory
from longplay.contract.layout import RUN_REQUEST
from longplay.contract.rundir import RunDirectory
from longplay.errors import LongplayError, ResumeError, RunCancelled, RunPreempted
from longplay.experiments.job import Job, RunResult, mark_failed
from longplay.plan import RunPlan
from longplay.probes import Origin
from longplay.runs.checkpoint import read_checkpoint
from longplay.runs.loop import Observer
from longplay.runs.options import DEFAULT_OPTIONS
from longplay.runs.probe_session import ProbeSession
from longplay.runs.session import ignore_progress
from longplay.runs.status import view_run
from longplay.runs.writer import RunWriter, request_run
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

    def play(
        self, agent: LoadedAgent | None = None, observer: Observer = ignore_progress
    ) -> RunResult:
        """Plays and validates the probe; errors become part of the result.

        Raises:
            RunCancelled, RunPreempted: It was asked to stop.
        """
        # What it has played without a checkpoint is played again in seconds.
        is_start = read_checkpoint(self.run_dir) is None
        try:
            if self.state is not None:
                check_state(*self.state)
            folder = None
            if is_start:
                remove_directory(self.run_dir)
                folder = RunWriter.create(
                    self.plan, self.request, self.run_dir, self.retries
                )
            session = self._open_session(agent or self.load_agent(), observer)
            session.folder = folder
            session.run(self.retries) if is_start else session.resume(self.retries)
        except ResumeError as error:
            return self.fail(error, is_refused=True)
        except (RunCancelled, RunPreempted):
            raise
        except LongplayError as error:
            if is_start:
                mark_failed(self.run_dir, error)
            return self.fail(error)
        result = self.validate(session.rows)
        return replace(result, resumed_from=session.resumed_from)

    def _open_session(self, agent: LoadedAgent, observer: Observer) -> ProbeSession:
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
                return f"its probe.{name} is {was}, and not {wanted}"
        if found.schedule != planned.schedule:
            was_games, games = (
                ", ".join(dict.fromkeys(visit.game_id for visit in config.schedule))
                for config in (found, planned)
            )
            return f"it asks for {was_games}, and not for {games}"
        return ""

    def _describe_strange(self) -> str:
        """Names a file in the folder that no probe has written; empty without any."""
        known = {RUN_REQUEST, "status.json"}
        paths = self.run_dir.glob("[!.]*")
        strange = sorted(path.name for path in paths if path.name not in known)
        return f"it has {strange[0]}, which is not of a probe" if strange else ""
