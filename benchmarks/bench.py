"""What is fast, measured against bare ALE and plain JSON in the same process.

    python benchmarks/bench.py [--trials 5] [--visit-frames 20000] [--only run,verify,…]

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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ale_py import ALEInterface

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


CONTROL = "control-smoke-v1"


def make_settings(visit_frames: int, num_cycles: int = 1) -> dict[str, Any]:
    settings = {"base_visit_frames": visit_frames, "num_cycles": num_cycles}
    return {**settings, "jitter_pct": 0}


def play_run(
    run_dir: Path,
    visit_frames: int,
    suite_id: str = "stream-3x2-v1",
    num_cycles: int = 1,
) -> None:
    """A complete run of the random agent: everything recorded."""
    from longplay.agents.base import load_agent
    from longplay.harness.episode import Episode
    from longplay.plan import plan_run

    plan = plan_run(suite_id, 0, make_settings(visit_frames, num_cycles))
    Episode(plan, load_agent("random"), run_dir).run()


# What was played: per visit, the actions and the emulator frames each was held for.
Log = list[tuple[list[int], list[int]]]


def read_log(run_dir: Path) -> tuple[RunConfig, Log]:
    from longplay.contract.rundir import RunDirectory

    run = RunDirectory(run_dir)
    events = run.events.numpy()
    held = events.get("emulator_frames", 1 + 0 * events["visit_idx"])
    log = []
    for visit in run.config.schedule:
        own = events["visit_idx"] == visit.visit_idx
        log.append((events["applied_action_idx"][own].tolist(), held[own].tolist()))
    return run.config, log


def play_bare(config: RunConfig, log: Log) -> None:
    """The same frames by the calls that nobody can do without."""
    import ale_py

    from longplay.console.ale import read_rom

    for visit, seed, (applied, held) in zip(
        config.schedule, config.emulator_seeds or (), log, strict=True
    ):
        ale = ale_py.ALEInterface()
        ale.setInt("random_seed", seed)
        ale.setFloat("repeat_action_probability", config.sticky)
        ale.setInt("frame_skip", 1)
        ale.loadROM(read_rom(visit.game_id).path)
        ale.reset_game()
        play = play_frames if config.frame_skip is None else play_timesteps
        play(ale, applied, held)


def play_frames(ale: ALEInterface, applied: list[int], held: list[int]) -> None:
    for action in applied:
        ale.getScreenRGB()
        ale.act(action)
        ale.lives()
        if ale.game_over():
            ale.reset_game()


def play_timesteps(ale: ALEInterface, applied: list[int], held: list[int]) -> None:
    for action, frames in zip(applied, held, strict=True):
        ale.getScreenRGB()
        is_over = False
        for _ in range(frames):
            ale.act(action)
            is_over = ale.game_over()
        ale.lives()
        if is_over:
            ale.reset_game()


def play_gymnasium(visit_frames: int, log: Log) -> None:
    """The same frames through the environment, nothing recorded."""
    import gymnasium

    import longplay.gym  # noqa: F401 - registers the environments

    env = gymnasium.make(
        "longplay/ControlSmoke-v1", overrides=make_settings(visit_frames)
    )
    env.reset(seed=0)
    for applied, _ in log:
        for action in applied:
            env.step(action)
    env.close()


def measure_run(
    folder: Path, visit_frames: int, suite_id: str, bare_first: bool
) -> dict[str, float]:
    """Seconds of the bare loop over seconds of each contender, once."""
    play_run(folder / "log", visit_frames, suite_id)
    config, log = read_log(folder / "log")
    contenders: dict[str, Callable[[], None]] = {
        "bare": lambda: play_bare(config, log),
        "run": lambda: play_run(folder / "run", visit_frames, suite_id),
    }
    if suite_id == CONTROL:
        contenders["gymnasium"] = lambda: play_gymnasium(visit_frames, log)
    order = list(contenders) if bare_first else list(reversed(contenders))
    seconds = {name: timed(contenders[name]) for name in order}
    return {name: seconds["bare"] / seconds[name] for name in seconds if name != "bare"}


def measure_runs(
    trials: int, visit_frames: int, suite_id: str
) -> dict[str, list[float]]:
    """What `measure_run` measures, a few times, taking turns who goes first."""
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ratios: dict[str, list[float]] = {}
    for trial in range(trials):
        with temporary_folder() as folder:
            found = measure_run(folder, visit_frames, suite_id, trial % 2 == 0)
        for name, ratio in found.items():
            ratios.setdefault(name, []).append(ratio)
            print(f"  {suite_id}, {name}, trial {trial}: {ratio:.3f}", flush=True)
    return ratios


def describe_ratios(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.3f}  ({min(ratios):.3f} … {max(ratios):.3f})"


def bench_run(trials: int, visit_frames: int) -> list[Row]:
    """The complete run against the bare loop, in turns."""
    ratios = measure_runs(trials, visit_frames, "stream-3x2-v1")
    name = f"complete run / bare loop (3 visits of {visit_frames:,} frames)"
    return [(name, "≥ 0.95", describe_ratios(ratios["run"]))]


def bench_control(trials: int, visit_frames: int) -> list[Row]:
    """A control run, and Gymnasium, against the bare loop, in turns."""
    timesteps = visit_frames // 4
    ratios = measure_runs(trials, timesteps, CONTROL)
    played = f"(3 visits of {timesteps:,} timesteps)"
    return [
        (f"control run / bare loop {played}", "≥ 0.95", describe_ratios(ratios["run"])),
        (
            f"control through Gymnasium / bare loop {played}",
            "≥ 0.85",
            describe_ratios(ratios["gymnasium"]),
        ),
    ]


def measure_free_cores() -> float:
    """What two processes get done that need nothing but a core, against one."""
    command = [sys.executable, "-c", "sum(range(10**8))"]
    alone_s = timed(lambda: subprocess.run(command, check=True))

    def run_both() -> None:
        for process in [subprocess.Popen(command) for _ in range(2)]:
            process.wait()

    return 2 * alone_s / timed(run_both)


def bench_verify(trials: int, visit_frames: int) -> list[Row]:
    """Playing a log again against the bare loop, and two processes against one."""
    import ale_py

    from longplay.trust.verification import verify_run

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
    parser.add_argument("--verify-visit-frames", type=int, default=60_000)
    parser.add_argument("--reading-visit-frames", type=int, default=400_000)
    parser.add_argument("--verify-visit-frames", type=int, default=60_000)
    parser.add_argument("--only", default="run,control,verify,reading,memory,import")
    options = parser.parse_args()
    wanted = options.only.split(",")
    rows: list[Row] = []
    if "run" in wanted:
        rows += bench_run(options.trials, options.visit_frames)
    if "control" in wanted:
        rows += bench_control(options.trials, options.visit_frames)
    if "verify" in wanted:
        rows += bench_verify(options.trials, options.verify_visit_frames)
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
