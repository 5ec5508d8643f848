"""What is fast, measured against bare ALE and plain JSON in the same process.

    python benchmarks/bench.py [--trials 5] [--visit-frames 20000] [--only run,score,…]

Absolute times differ from machine to machine and from minute to minute; the ratios are
what is promised. The things compared take turns, and the median of the ratios counts.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longplay.contract.records import RunConfig

# Imported where they are used: a process that is spawned to read imports this file
# again, as it would import the command line's, and should not wait for an emulator.

Row = tuple[str, str, str]


@contextmanager
def temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="longplay-bench-") as name:
        yield Path(name)


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def cpu_timed(function: Callable[[], object]) -> float:
    """As `timed`, without what other processes take; for a few per cent."""
    start = time.process_time()
    function()
    return time.process_time() - start


def play_run(run_dir: Path, visit_frames: int, num_cycles: int = 1) -> None:
    """A complete run of the random agent: everything recorded."""
    from longplay.agents.base import load_agent
    from longplay.harness.episode import Episode
    from longplay.plan import plan_run

    settings = {
        "base_visit_frames": visit_frames,
        "jitter_pct": 0,
        "num_cycles": num_cycles,
    }
    plan = plan_run("stream-3x2-v1", 0, settings)
    Episode(plan, load_agent("random"), run_dir).run()


def play_bare(
    config: RunConfig, actions: list[list[int]], pixels_from: int = 0
) -> None:
    """The same frames by the calls that nobody can do without.

    Args:
        config: The run's.
        actions: What is applied, visit by visit.
        pixels_from: The first frame of each visit whose pixels are asked for.
    """
    import ale_py

    from longplay.console.ale import read_rom

    for visit, seed, applied in zip(
        config.schedule, config.emulator_seeds or (), actions, strict=True
    ):
        ale = ale_py.ALEInterface()
        ale.setInt("random_seed", seed)
        ale.setFloat("repeat_action_probability", config.sticky)
        ale.setInt("frame_skip", 1)
        ale.loadROM(read_rom(visit.game_id).path)
        ale.reset_game()
        for frame, action in enumerate(applied):
            if frame >= pixels_from:
                ale.getScreenRGB()
            ale.act(action)
            ale.lives()
            if ale.game_over():
                ale.reset_game()


def read_actions(run_dir: Path) -> tuple[RunConfig, list[list[int]]]:
    """What a run applied, visit by visit."""
    from longplay.contract.rundir import RunDirectory

    run = RunDirectory(run_dir)
    events = run.events.numpy("visit_idx", "applied_action_idx")
    actions = [
        events["applied_action_idx"][events["visit_idx"] == k].tolist()
        for k in range(len(run.config.schedule))
    ]
    return run.config, actions


def measure_run(folder: Path, visit_frames: int, bare_first: bool) -> float:
    """Seconds of the bare loop over seconds of the complete run, once."""
    play_run(folder / "log", visit_frames)
    config, actions = read_actions(folder / "log")
    contenders = {
        "bare": lambda: play_bare(config, actions),
        "run": lambda: play_run(folder / "run", visit_frames),
    }
    order = ("bare", "run") if bare_first else ("run", "bare")
    seconds = {name: timed(contenders[name]) for name in order}
    return seconds["bare"] / seconds["run"]


def bench_run(trials: int, visit_frames: int) -> list[Row]:
    """The complete run against the bare loop, in turns."""
    import ale_py

    ratios = []
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    for trial in range(trials):
        with temporary_folder() as folder:
            ratios.append(measure_run(folder, visit_frames, trial % 2 == 0))
        print(f"  run, trial {trial}: {ratios[-1]:.3f} of the bare loop", flush=True)
    median, low, high = statistics.median(ratios), min(ratios), max(ratios)
    return [
        (
            f"complete run / bare loop (3 visits of {visit_frames:,} frames)",
            "≥ 0.95",
            f"{median:.3f}  ({low:.3f} … {high:.3f})",
        )
    ]


def play_stream(run_dir: Path, visit_frames: int, *, with_digests: bool) -> None:
    """A run without its surroundings, with all evidence or with none."""
    from longplay.agents.base import load_agent
    from longplay.console.ale import AleConsole
    from longplay.contract.digests import Chain
    from longplay.plan import plan_run
    from longplay.recorder import Recorder, RowFiles
    from longplay.runner import Run, StopRequest
    from longplay.stream import Stream
    from longplay.tracks.streaming import StreamingTrack

    class NoChain(Chain):
        def add(self, rows: bytes) -> None:
            pass

    class PlainRecorder(Recorder):
        def write_digest(self, event: object, ram_crc32: int) -> None:
            self.flush()

    settings = {"base_visit_frames": visit_frames, "jitter_pct": 0, "num_cycles": 1}
    config = plan_run("stream-3x2-v1", 0, settings).config
    stream = Stream.from_config(
        config, AleConsole(sticky=config.sticky, full_action_space=True)
    )
    run_dir.mkdir()
    files = RowFiles.create(run_dir)
    recorder = Recorder(files) if with_digests else PlainRecorder(files, NoChain())
    if not with_digests:
        stream._ram = bytes
    track = StreamingTrack(load_agent("random").build(0))
    Run(stream, track, recorder, lambda progress: None, StopRequest()).play()
    recorder.close()


def time_checkpoints(run_dir: Path, visit_frames: int) -> list[float]:
    """Seconds that each checkpoint of a run takes."""
    from unittest import mock

    from longplay.harness.episode import Episode

    make, seconds = Episode._checkpoint, []
    with mock.patch.object(
        Episode,
        "_checkpoint",
        lambda episode: seconds.append(timed(lambda: make(episode))),
    ):
        play_run(run_dir, visit_frames, num_cycles=2)
    return seconds


def measure_digests(visit_frames: int, pairs: int) -> float:
    """What digests add to a run: the best of many short runs against the best without.

    A few per cent drown in what else goes on; the best of many is nearly undisturbed.
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
    """Runs with digests and without, in turns; and what a checkpoint takes."""
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
    from unittest import mock

    from longplay.agents.base import load_agent
    from longplay.agents.random import RandomAgent
    from longplay.errors import AgentError
    from longplay.harness.episode import Episode
    from longplay.plan import plan_run
    from longplay.trust.checkpoint import read_checkpoint

    class StoppedAgent(RandomAgent):
        is_stopped, reached_s = True, 0.0

        def step(self, *percept: object) -> int:
            if percept[4]["global_frame_idx"] == killed_at:
                if StoppedAgent.is_stopped:
                    raise ValueError("as good as killed")
                StoppedAgent.reached_s = time.perf_counter()
            return super().step(*percept)

    settings = {
        "games": ["ms_pacman"],
        "base_visit_frames": killed_at + 1000,
        "jitter_pct": 0,
        "num_cycles": 1,
    }
    plan, agent = plan_run("stream-3x2-v1", 0, settings), load_agent(StoppedAgent)
    run_dir = folder / "run"
    # So that the last checkpoint is some way before the kill.
    with mock.patch("longplay.runner._CHECKPOINT_S", killed_at / 16_000):
        try:
            Episode(plan, agent, run_dir).run()
        except AgentError:
            StoppedAgent.is_stopped = False
    checkpoint = read_checkpoint(run_dir)
    assert checkpoint is not None
    start_s = time.perf_counter()
    Episode(plan, agent, run_dir).resume()
    resumed_s = StoppedAgent.reached_s - start_s
    config, actions = read_actions(run_dir)
    played = [actions[0][:killed_at]]
    return resumed_s, timed(lambda: play_bare(config, played, checkpoint.frame))


def bench_resume(trials: int, killed_at: int) -> list[Row]:
    """From the start of `longplay resume` to the frame where the run was killed."""
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    start_s = statistics.median(
        import_seconds("import longplay.cli.app, longplay.harness.experiment")
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


def sum_rewards(events: Path) -> float:
    """The plain loop that everybody writes first."""
    total = 0.0
    with events.open() as lines:
        for line in lines:
            total += json.loads(line)["reward"]
    return total


def bench_reading(trials: int, visit_frames: int) -> list[Row]:
    """Scoring and validating against a plain json.loads loop, in turns."""
    from longplay.contract.rundir import RunDirectory
    from longplay.scoring.scores import score_run, write_score
    from longplay.validation import validate_run

    ratios: dict[str, list[float]] = {"score": [], "all": [], "one": []}
    with temporary_folder() as folder:
        run_dir = folder / "run"
        play_run(run_dir, visit_frames)
        write_score(run_dir, score_run(run_dir))
        frames = RunDirectory(run_dir).config.total_frames
        for trial in range(trials):
            plain_s = timed(lambda: sum_rewards(run_dir / "events.jsonl"))
            ratios["score"].append(plain_s / timed(lambda: score_run(run_dir)))
            for key, workers in (("all", os.cpu_count() or 1), ("one", 1)):
                validate = functools.partial(validate_run, run_dir, workers=workers)
                ratios[key].append(plain_s / timed(validate))
            shown = ", ".join(f"{k} {v[-1]:.1f}x" for k, v in ratios.items())
            print(f"  reading, trial {trial}: {shown}", flush=True)
    names = {
        "score": ("scoring / json.loads loop", "≥ 10"),
        "all": ("validating, all cores / json.loads loop", "≥ 3"),
        "one": ("validating, one core / json.loads loop", "≥ 2"),
    }
    return [
        (f"{name} ({frames:,} rows)", goal, f"{statistics.median(ratios[key]):.1f}")
        for key, (name, goal) in names.items()
    ]


_PEAK_MEMORY = """
import resource, sys
from pathlib import Path
sys.path.insert(0, {benchmarks!r})
from bench import play_run
play_run(Path({folder!r}) / "run", {visit_frames})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def peak_memory_mib(frames: int) -> float:
    """Peak memory of a process that does nothing but one run of three visits."""
    with temporary_folder() as folder:
        code = _PEAK_MEMORY.format(
            benchmarks=str(Path(__file__).parent),
            folder=str(folder),
            visit_frames=frames // 3,
        )
        printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    return float(printed.splitlines()[-1])


def bench_memory() -> list[Row]:
    """A long run against a short one."""
    short, long = peak_memory_mib(100_000), peak_memory_mib(1_000_000)
    return [
        (
            "peak memory, 1,000,000 frames - 100,000 frames",
            "≤ 50 MiB",
            f"{long - short:.1f} MiB  ({long:.0f} - {short:.0f})",
        )
    ]


def import_seconds(statement: str) -> float:
    clock = "time.perf_counter()"
    code = f"import time; start = {clock}; {statement}; print({clock} - start)"
    return float(subprocess.check_output([sys.executable, "-c", code], text=True))


def bench_import(trials: int) -> list[Row]:
    """Importing longplay against importing what it stands on."""
    ratios = [
        import_seconds("import longplay") / import_seconds("import numpy, pydantic")
        for _ in range(trials)
    ]
    every = "import longplay; longplay.run; longplay.validate_run; longplay.score_run"
    full = [
        import_seconds(every) / import_seconds("import numpy, pydantic")
        for _ in range(trials)
    ]
    return [
        (
            "import longplay / import numpy, pydantic",
            "≤ 2",
            f"{statistics.median(ratios):.2f}  "
            f"({statistics.median(full):.2f} with every public name used)",
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--visit-frames", type=int, default=20_000)
    parser.add_argument("--reading-visit-frames", type=int, default=400_000)
    parser.add_argument("--killed-at-frame", type=int, default=40_000)
    parser.add_argument("--only", default="run,evidence,resume,reading,memory,import")
    options = parser.parse_args()
    wanted = options.only.split(",")
    rows: list[Row] = []
    if "run" in wanted:
        rows += bench_run(options.trials, options.visit_frames)
    if "evidence" in wanted:
        rows += bench_evidence(options.trials, options.visit_frames)
    if "resume" in wanted:
        rows += bench_resume(options.trials, options.killed_at_frame)
    if "reading" in wanted:
        rows += bench_reading(options.trials, options.reading_visit_frames)
    if "memory" in wanted:
        rows += bench_memory()
    if "import" in wanted:
        rows += bench_import(options.trials)
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "goal", "measured (median)", box=None)
    for row in rows:
        table.add_row(*row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
