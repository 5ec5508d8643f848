"""One run, from an empty folder to a record that says how it ended.

However it ends, the recorded rows are readable and status.json gives the state:
COMPLETED, FAILED with the error, CANCELLED, or QUEUED to be resumed. A stopped run is
resumed from here too, and ends bit-identical to an uninterrupted run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

from pydantic import ValidationError

from longplay.agents.global_random import GlobalRandom, GlobalRandomState
from longplay.agents.source.loading import LoadedAgent
from longplay.agents.surroundings import Surroundings, kept_surroundings
from longplay.contract.config import RunConfig
from longplay.contract.documents import RunState
from longplay.contract.files import DiskReserve, describe_invalid, write_document
from longplay.contract.rundir import RunDirectory
from longplay.contract.usage import UsageSummary
from longplay.errors import (
    AgentError,
    ConsoleError,
    DifferenceError,
    DocumentError,
    LongplayError,
    ResumeError,
    RunCancelled,
    RunPreempted,
    describe_exception,
    format_traceback,
)
from longplay.plan import RunPlan
from longplay.runs.checkpoint import (
    Checkpoint,
    CheckpointWriter,
    read_checkpoint,
    remove_checkpoints,
)
from longplay.runs.loop import Observer, Progress, Run
from longplay.runs.metric_rows import METRICS_FILE
from longplay.runs.options import DEFAULT_OPTIONS, RunOptions
from longplay.runs.recorder import Recorder
from longplay.runs.recovery import (
    check_rows,
    explain_difference,
    is_covered,
    open_kept_rows,
    read_applied,
)
from longplay.runs.signals import stop_on_signals
from longplay.runs.states import KeptStates
from longplay.runs.writer import (
    ResultWriter,
    RunWriter,
    complete_config,
    request_run,
    write_run_score,
)
from longplay.seeds import agent_seed
from longplay.tracks.catalogue import get_track, make_stream, track_of
from longplay.validation import RunRows


def ignore_progress(progress: Progress) -> None:
    """The default observer: does nothing."""


def name_progress(name: str, observer: Observer) -> Observer:
    """Says which of several runs an observer sees."""
    return lambda progress: observer(replace(progress, run=name))


class Session:
    """One run of one agent: a plan, and the folder it is recorded in.

    The constructor builds the agent and reads the ROMs, so that a run that cannot
    start is refused before anything is written.
    """

    def __init__(
        self,
        plan: RunPlan,
        agent: LoadedAgent,
        run_dir: Path,
        observer: Observer = ignore_progress,
        write_result: ResultWriter = write_run_score,
        options: RunOptions = DEFAULT_OPTIONS,
    ) -> None:
        self._options = options
        self._write_result = write_result
        self._plan = plan
        self._agent = agent
        self._run_dir = run_dir
        self.observer = observer
        self._output = agent.output
        self._config = complete_config(plan, agent)
        self._randomness = GlobalRandom(agent_seed(plan.seed))
        self._surroundings = Surroundings()
        with (
            kept_surroundings(),
            self._output.capture(),
            self._randomness.in_use(),
        ):
            track = get_track(plan.suite.track)
            self._participant = track.build(agent, agent_seed(plan.seed))
        self._stream = make_stream(self._config)
        self._recorder: Recorder | None = None
        self._run: Run | None = None
        # How a stopped run was resumed, as text.
        self.resumed_from: str | None = None
        # The row files of a complete run, as they were read to score it.
        self.rows: RunRows | None = None
        # Processes that read them.
        self.workers = 1
        # None until this process may write to the folder.
        self._writer: RunWriter | None = None
        # Given if the folder was created before the agent was loaded.
        self.folder: RunWriter | None = None
        self._checkpoints: CheckpointWriter | None = None
        self._reserve = DiskReserve(run_dir)

    def close(self) -> None:
        """Closes the agent of a session that is not played."""
        with self._output.capture(), self._randomness.in_use():
            self._participant.close()

    # --- run and resume ---------------------------------------------------------

    def run(self, retries: int = 0) -> None:
        """Plays and scores the run from its first frame.

        Args:
            retries: Number of earlier tries.

        Raises:
            RunCancelled, RunPreempted: The run was asked to stop.
            RunFailed: The agent, the console or the disk failed.
        """
        with self._ending():
            self._start_writing(retries)
            write_document(self._run_dir / "config.json", self._config)
            self._recorder = Recorder.create(self._run_dir)
            self._play(self._recorder)

    def resume(self, retries: int = 0) -> None:
        """Resumes a stopped run; the result is bit-identical to an uninterrupted run.

        Resumes from the last checkpoint if the agent can be loaded from it. Otherwise
        replays the run from its first frame and checks it against the recorded rows.

        Raises:
            ResumeError: The run cannot be resumed from these files; nothing changed.
            RunCancelled, RunPreempted, RunFailed: As in `run`.
        """
        self._check_identity()
        checkpoint = read_checkpoint(self._run_dir)
        if self.can_resume_from(checkpoint):
            self._resume_from(checkpoint, retries)
        else:
            self._replay_from_start(retries)

    def can_resume_from(self, checkpoint: Checkpoint | None) -> TypeGuard[Checkpoint]:
        """Whether a checkpoint has everything the run needs to resume from it."""
        return (
            checkpoint is not None
            and checkpoint.agent_dir is not None
            and self._participant.can_save
            and is_covered(self._run_dir, checkpoint)
        )

    def _resume_from(self, checkpoint: Checkpoint, retries: int) -> None:
        check_rows(self._run_dir, self._config, checkpoint)
        applied = read_applied(self._run_dir, self._config, checkpoint)
        with self._output.capture(), self._randomness.in_use():
            self._load_agent(checkpoint)
            self._rebuild_console(checkpoint, applied)
        place = f"{track_of(self._config).frame_noun} {checkpoint.frame:,}"
        self.resumed_from = f"resumed from the checkpoint at {place}"
        with self._ending():
            self._start_writing(retries)
            self._recorder = Recorder.restore(self._run_dir, checkpoint.record.recorder)
            self._play(self._recorder)

    def _rebuild_console(self, checkpoint: Checkpoint, applied: list[int]) -> None:
        try:
            self._stream.restore(checkpoint.record.stream, applied)
        except ConsoleError as error:
            raise ResumeError(f"{error}; nothing was changed") from error

    def _load_agent(self, checkpoint: Checkpoint) -> None:
        assert checkpoint.agent_dir is not None
        try:
            self._participant.load(checkpoint.agent_dir)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise ResumeError(
                f"the agent's load raised {describe_exception(error)}; "
                "nothing was changed"
            ) from error
        try:
            checkpoint.record.global_random.restore()
        except (ValueError, RuntimeError) as error:
            raise ResumeError(
                f"checkpoint.json global_random: {error}; nothing was changed"
            ) from error

    def _replay_from_start(self, retries: int) -> None:
        def start_writing() -> None:
            place = f"{self._stream.frame_noun} {self._stream.global_frame_idx:,}"
            self.resumed_from = f"replayed as recorded until about {place}"
            self._output.discard()  # the first try already wrote it
            self._start_writing(retries)
            assert self._recorder is not None
            self._recorder.metric_rows.start_writing(self._run_dir / METRICS_FILE)

        self._recorder = Recorder(
            open_kept_rows(self._run_dir, self._config, start_writing)
        )
        try:
            with self._ending():
                self._play(self._recorder)
        except DifferenceError as error:
            raise explain_difference(error) from error
        finally:
            self._recorder.close()

    def _check_identity(self) -> None:
        """Refuses to resume with a different agent, emulator or contract."""
        try:
            recorded = RunDirectory(self._run_dir).config
        except DocumentError as error:
            raise ResumeError(f"{error}; the run cannot be resumed") from error
        check_identity(recorded, self._config)
        self._config = recorded

    # --- shared by run and resume -------------------------------------------------

    def _start_writing(self, retries: int) -> None:
        """Takes over the run's folder: from here on this process writes to it."""
        request = request_run(self._plan, self._agent, self._options)
        self._writer = self.folder or RunWriter.create(
            self._plan, request, self._run_dir, retries
        )
        self._output.keep_in(self._run_dir)
        self._reserve.take()
        self._checkpoints = CheckpointWriter(self._run_dir)
        frame, game_id = self._stream.global_frame_idx, self._stream.visit.game_id
        self._writer.begin(frame, game_id)

    def _play(self, recorder: Recorder) -> None:
        with (
            stop_on_signals() as stop,
            kept_surroundings(),
            self._output.capture(),
            self._randomness.in_use(),
        ):
            self._run = run = Run(
                self._stream,
                self._participant,
                recorder,
                self._watch,
                stop,
                self._checkpoint,
                self._options.checkpoint_s,
                self._before_visit(),
            )
            run.play()
            run.ask(self._keep_final_state)
            usage = run.ask(lambda: _check_usage(self._participant.usage()))
            run.ask(self._participant.close)
        assert self._writer is not None  # set when the last row was written
        self._reserve.release()
        self._output.finish()
        states = self._kept_states().describe()
        self.rows = self._writer.complete(
            recorder,
            self._write_result,
            self.workers,
            usage=usage,
            agent_states=states,
        )
        remove_checkpoints(self._run_dir)

    def _before_visit(self) -> Callable[[], None] | None:
        """What to do before every visit; a probe sets its agent back."""
        return None

    def _watch(self, progress: Progress) -> None:
        if self._writer is not None:
            with self._surroundings.in_use():
                self._writer.observe(progress)
                self._output.save()
        noun = track_of(self._config).frame_noun
        with self._output.release(), self._randomness.released():
            self.observer(replace(progress, frame_noun=noun))

    def _checkpoint(self) -> None:
        if self._recorder is None:
            return
        save = self._participant.save if self._participant.can_save else None
        ended_visit = self._recorder.ended_visit_idx
        if self._checkpoints is None:  # nothing has been written yet
            if save is not None and ended_visit is not None:
                self._kept_states().keep_anew(ended_visit, save)
            return
        state = self._recorder.snapshot()
        self._recorder.sync()
        keep = None if ended_visit is None else partial(self._keep_state, ended_visit)
        with self._surroundings.in_use():
            self._checkpoints.write(self._stream.snapshot(), state, save, keep)

    def _kept_states(self) -> KeptStates:
        visits = len(self._stream.schedule)
        saves_generators = self._participant.saves_generators
        return KeptStates(self._run_dir, self._options, visits, saves_generators)

    def _keep_state(
        self, visit_idx: int | None, saved: Path, generators: GlobalRandomState
    ) -> None:
        problem = self._kept_states().keep(visit_idx, saved, generators)
        if problem and self._run is not None:
            self._run.warn(problem)

    def _keep_final_state(self) -> None:
        """Keeps the state of the last checkpoint, which is that of the last frame.

        A run that is replayed and lacked no row has written no checkpoint.
        """
        checkpoint = read_checkpoint(self._run_dir)
        if checkpoint is None:
            if self._participant.can_save:
                self._kept_states().keep_anew(None, self._participant.save)
            return
        if checkpoint.agent_dir is None:
            return
        generators = checkpoint.record.global_random
        self._keep_state(None, checkpoint.agent_dir, generators)

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """Records in status.json how the run ended."""
        try:
            yield
        except BaseException as error:
            if self._writer is not None:
                self._reserve.release()
            self._record_failure(error)
            if isinstance(error, KeyboardInterrupt):
                raise RunCancelled("interrupted") from error
            raise

    def _record_failure(self, error: BaseException) -> None:
        """Saves what can be saved; later errors do not replace the first one."""
        if self._run is not None:
            with contextlib.suppress(AgentError):
                self._run.fork_guard.check()  # ends a copy of this process
        usage = None
        with self._output.capture(), self._randomness.in_use():
            with contextlib.suppress(Exception, SystemExit, GeneratorExit):
                usage = _check_usage(self._participant.usage())
            with contextlib.suppress(Exception, SystemExit, GeneratorExit):
                self._participant.close()
        if self._writer is None:
            return  # nothing has been changed yet
        if isinstance(error, AgentError) and error.__cause__ is not None:
            self._output.write_error(format_traceback(error.__cause__))
        frame = self._stream.global_frame_idx if self._run is None else self._run.frame
        place = frame, self._stream.visit.game_id
        state = _state_after(error)
        with contextlib.suppress(LongplayError):
            self._output.finish()
        self._writer.stop(self._recorder, state, error, place, usage=usage)


def _check_usage(given: dict[str, Any] | None) -> dict[str, Any] | None:
    """Refuses usage that cannot be recorded, as soon as the agent returns it."""
    try:
        UsageSummary.from_summary_stats(given)
    except ValidationError as error:
        raise AgentError(f"usage(): {describe_invalid(error)}") from error
    return given


def check_identity(recorded: RunConfig, here: RunConfig) -> None:
    """Checks that a run would be continued by the same agent on the same emulator.

    Raises:
        ResumeError: Names the first difference.
    """
    for name, was, now in _compare_identity(recorded, here):
        if was != now:
            raise ResumeError(
                f"{name}: the run was started with {was}, found {now} here; a run "
                f"resumes only with the same {name}"
            )


def _compare_identity(
    recorded: RunConfig, here: RunConfig
) -> Iterator[tuple[str, object, object]]:
    """What must be the same to resume a run: name, as recorded, as found here."""
    for name in (
        "benchmark_contract_version",
        "benchmark_contract_hash",
        "suite",
        "stop_frame",
    ):
        yield name, getattr(recorded, name), getattr(here, name)
    was, now = recorded.agent, here.agent
    yield "agent_id", was and was.agent_id, now and now.agent_id
    isolations = (recorded.agent_isolation, here.agent_isolation)
    was_level, level = (i.level if i is not None else "none" for i in isolations)
    yield "isolation level", was_level, level
    for tool in ("ale_py", "numpy"):
        was_version = (recorded.versions or {}).get(tool)
        yield tool, was_version, (here.versions or {}).get(tool)
    for game_id in here.games:
        was_rom, rom = recorded.rom_sha256 or {}, here.rom_sha256 or {}
        yield f"ROM of {game_id}", was_rom.get(game_id), rom.get(game_id)


_STATES: Mapping[type[BaseException], RunState] = {
    RunCancelled: "CANCELLED",
    KeyboardInterrupt: "CANCELLED",
    RunPreempted: "QUEUED",
}


def _state_after(error: BaseException) -> RunState:
    return _STATES.get(type(error), "FAILED")
