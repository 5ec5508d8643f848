"""The cost of trust: digests, checkpoints, resuming and replaying."""

from __future__ import annotations

import functools
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bare import (
    Row,
    cpu_timed,
    import_seconds,
    make_settings,
    play_bare,
    play_run,
    read_log,
    temporary_folder,
    timed,
)


def play_stream(run_dir: Path, visit_frames: int, *, with_digests: bool) -> None:
    """The bare run of a stream, with all evidence or with none."""
    from longplay.agents.source.loading import load_agent
    from longplay.console.ale import AleConsole
    from longplay.contract.digests import Chain
    from longplay.plan import plan_run
    from longplay.runs.loop import Run, StopRequest
    from longplay.runs.recorder import Recorder, RowFiles
    from longplay.stream import Stream
    from longplay.tracks.streaming import STREAMING

    class NoChain(Chain):
        def add(self, rows: bytes) -> None:
            pass

    class PlainRecorder(Recorder):
        def write_digest(self, event: object, ram_crc32: int) -> None:
            self.flush()

    config = plan_run("stream-3x2-v1", 0, make_settings(visit_frames)).config
    stream = Stream.from_config(
        config, AleConsole(sticky=config.sticky, full_action_space=True)
    )
    run_dir.mkdir()
    files = RowFiles.create(run_dir)
    recorder = Recorder(files) if with_digests else PlainRecorder(files, NoChain())
    if not with_digests:
        stream._ram = bytes
    track = STREAMING.join(load_agent("random").build(0))
    Run(stream, track, recorder, lambda progress: None, StopRequest()).play()
    recorder.close()


def time_checkpoints(run_dir: Path, visit_frames: int) -> list[float]:
    """Seconds that each checkpoint of a run takes."""
    from unittest import mock

    from longplay.runs.session import Session

    make, seconds = Session._checkpoint, []
    with mock.patch.object(
        Session,
        "_checkpoint",
        lambda episode: seconds.append(timed(lambda: make(episode))),
    ):
        play_run(run_dir, visit_frames, num_cycles=2)
    return seconds


def measure_digests(visit_frames: int, pairs: int) -> float:
    """The overhead of digests: the best of many short runs against the best without.

    Noise hides a few per cent; the best of many runs is nearly undisturbed.
    """
    seconds: dict[bool, list[float]] = {True: [], False: []}
    with temporary_folder() as folder:
        for pair in range(pairs):
            for kind in (True, False) if pair % 2 else (False, True):
                run_dir = folder / f"{pair}-{kind}"
                play = functools.partial(
                    play_stream, run_dir, visit_frames, with_digests=kind
                )
                seconds[kind].append(cpu_timed(play))
    return min(seconds[True]) / min(seconds[False]) - 1


def bench_evidence(trials: int, visit_frames: int) -> list[Row]:
    """Runs with digests and without, alternating; and the time of a checkpoint."""
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    shares, checkpoints_s = [], []
    for trial in range(trials):
        shares.append(measure_digests(visit_frames // 20, 12))
        with temporary_folder() as folder:
            checkpoints_s += time_checkpoints(folder / "run", visit_frames // 10)
        print(f"  evidence, trial {trial}: {100 * shares[-1]:+.1f} %", flush=True)
    digests, checkpoint_s = statistics.median(shares), statistics.median(checkpoints_s)
    return [
        (
            "digests and a checkpoint every 60 s, of a run's time",
            "≤ 3 %",
            f"{100 * (digests + checkpoint_s / 60):.1f} %  (digests "
            f"{100 * digests:.1f} %, a checkpoint {1000 * checkpoint_s:.0f} ms)",
        )
    ]


def measure_resume(folder: Path, killed_at: int) -> tuple[float, float]:
    """Seconds to the frame of a kill: of a resumed run, and of the bare loops."""
    from longplay.agents.random import RandomAgent
    from longplay.agents.source.loading import load_agent
    from longplay.errors import AgentError
    from longplay.plan import plan_run
    from longplay.runs.checkpoint import read_checkpoint
    from longplay.runs.options import RunOptions
    from longplay.runs.session import Session

    class StoppedAgent(RandomAgent):
        is_stopped, reached_s = True, 0.0

        def step(self, *percept: object) -> int:
            if percept[4]["global_frame_idx"] == killed_at:
                if StoppedAgent.is_stopped:
                    raise ValueError("as good as killed")
                StoppedAgent.reached_s = time.perf_counter()
            return super().step(*percept)

    settings = {"games": ["ms_pacman"], **make_settings(killed_at + 1000)}
    plan, agent = plan_run("stream-3x2-v1", 0, settings), load_agent(StoppedAgent)
    run_dir = folder / "run"
    # So that the last checkpoint is some way before the kill.
    options = RunOptions(checkpoint_s=killed_at / 16_000)
    try:
        Session(plan, agent, run_dir, options=options).run()
    except AgentError:
        StoppedAgent.is_stopped = False
    checkpoint = read_checkpoint(run_dir)
    assert checkpoint is not None
    start_s = time.perf_counter()
    Session(plan, agent, run_dir).resume()
    resumed_s = StoppedAgent.reached_s - start_s
    config, log = read_log(run_dir)
    applied, held = log[0]
    played = [(applied[:killed_at], held[:killed_at])]
    return resumed_s, timed(lambda: play_bare(config, played, checkpoint.frame))


def bench_resume(trials: int, killed_at: int) -> list[Row]:
    """From the start of `longplay resume` to the frame where the run was killed."""
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    start_s = statistics.median(
        import_seconds("import longplay.cli.app, longplay.experiments.experiment")
        for _ in range(trials)
    )
    measured = []
    for trial in range(trials):
        with temporary_folder() as folder:
            resumed_s, bare_s = measure_resume(folder, killed_at)
        measured.append((resumed_s + start_s, 1.2 * bare_s + 2))
        shown = f"{resumed_s:.1f} s after {start_s:.1f} s of start, bare {bare_s:.1f} s"
        print(f"  resume, trial {trial}: {shown}", flush=True)
    took_s, allowed_s = map(statistics.median, zip(*measured, strict=True))
    return [
        (
            f"resume until the frame of the kill, {killed_at:,}",
            f"≤ {allowed_s:.1f} s (1.2 × bare + 2 s)",
            f"{took_s:.1f} s",
        )
    ]


def measure_free_cores() -> float:
    """The speedup of two processes that need only a core each."""
    command = [sys.executable, "-c", "sum(range(10**8))"]
    alone_s = timed(lambda: subprocess.run(command, check=True))

    def run_both() -> None:
        for process in [subprocess.Popen(command) for _ in range(2)]:
            process.wait()

    return 2 * alone_s / timed(run_both)


def bench_verify(trials: int, visit_frames: int) -> list[Row]:
    """Replaying a log against the bare loop, and two processes against one."""
    import ale_py

    from longplay.verify.verification import verify_run

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    against_bare, against_one, free_cores = [], [], []
    with temporary_folder() as folder:
        run_dir = folder / "run"
        play_run(run_dir, visit_frames, num_cycles=2)
        config, log = read_log(run_dir)
        contenders = {
            "bare": lambda: play_bare(config, log),
            "one": lambda: verify_run(run_dir, workers=1),
            "two": lambda: verify_run(run_dir, workers=2),
        }
        for trial in range(trials):
            order = list(contenders) if trial % 2 else list(contenders)[::-1]
            seconds = {name: timed(contenders[name]) for name in order}
            against_bare.append(seconds["bare"] / seconds["one"])
            against_one.append(seconds["one"] / seconds["two"])
            free_cores.append(measure_free_cores())
            print(
                f"  verify, trial {trial}: {against_bare[-1]:.2f}x bare, "
                f"two {against_one[-1]:.2f}x one ({free_cores[-1]:.2f} cores free)",
                flush=True,
            )
    frames = f"6 visits of {visit_frames:,} frames"
    bare, one = statistics.median(against_bare), statistics.median(against_one)
    free = f"{one:.2f}  (with {statistics.median(free_cores):.2f} cores free)"
    return [
        (f"verify on one worker / bare loop ({frames})", "≥ 1.1", f"{bare:.2f}"),
        (f"verify on two workers / on one ({frames})", "≥ 1.8", free),
    ]
