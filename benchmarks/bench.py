"""Speed, measured against bare ALE and plain JSON in the same process.

    python benchmarks/bench.py [--trials 5] [--visit-frames 20000] [--only run,verify,…]

Absolute times differ from machine to machine and from minute to minute; the targets
are ratios. Both sides alternate, and the result is the median of the ratios.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bare import (
    Log,
    Row,
    import_seconds,
    make_settings,
    play_bare,
    play_run,
    read_log,
    temporary_folder,
    timed,
)
from bench_isolation import bench_isolation
from bench_trust import bench_evidence, bench_resume, bench_verify
from bench_video import bench_video


class Subject(NamedTuple):
    """A run to compare with the bare loop."""

    suite_id: str
    agent: str = "random"
    seed: int = 0


STREAMING, CONTROL = Subject("stream-3x2-v1"), Subject("control-smoke-v1")
LOOKING = Subject("stream-3x2-v1", str(Path(__file__).parent / "looking_agent.py"))
_ZERO = str(Path(__file__).parents[1] / "examples" / "prediction_zero.py")
# The streams of the official seeds are shipped; with any other the policies play.
RECORDED = Subject("prediction-smoke-v1", _ZERO, seed=0)
LIVE = Subject("prediction-smoke-v1", _ZERO, seed=7)


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
    folder: Path, visit_frames: int, subject: Subject, bare_first: bool
) -> dict[str, float]:
    """Seconds of the bare loop over seconds of each subject, once."""
    suite_id, agent, seed = subject

    def play(name: str) -> None:
        play_run(folder / name, visit_frames, suite_id, agent=agent, seed=seed)

    play("log")
    config, log = read_log(folder / "log")
    contenders: dict[str, Callable[[], None]] = {
        "bare": lambda: play_bare(config, log),
        "run": lambda: play("run"),
    }
    if subject == CONTROL:
        contenders["gymnasium"] = lambda: play_gymnasium(visit_frames, log)
    order = list(contenders) if bare_first else list(reversed(contenders))
    seconds = {name: timed(contenders[name]) for name in order}
    return {name: seconds["bare"] / seconds[name] for name in seconds if name != "bare"}


def measure_runs(
    trials: int, visit_frames: int, subject: Subject
) -> dict[str, list[float]]:
    """Repeats `measure_run`, alternating which side runs first."""
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ratios: dict[str, list[float]] = {}
    where = f"{subject.suite_id}, seed {subject.seed}"
    for trial in range(trials):
        with temporary_folder() as folder:
            found = measure_run(folder, visit_frames, subject, trial % 2 == 0)
        for name, ratio in found.items():
            ratios.setdefault(name, []).append(ratio)
            print(f"  {where}, {name}, trial {trial}: {ratio:.3f}", flush=True)
    return ratios


def describe_ratios(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.3f}  ({min(ratios):.3f} … {max(ratios):.3f})"


def bench_run(trials: int, visit_frames: int) -> list[Row]:
    """The complete run against the bare loop, in turns."""
    played = f"(3 visits of {visit_frames:,} frames)"
    subjects = (
        (f"complete run / bare loop {played}", STREAMING),
        ("the same, an agent that is shown every frame", LOOKING),
    )
    return [
        (
            name,
            "≥ 0.95",
            describe_ratios(measure_runs(trials, visit_frames, subject)["run"]),
        )
        for name, subject in subjects
    ]


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


def bench_prediction(trials: int, visit_frames: int) -> list[Row]:
    """Runs of the zero predictor, recorded and live, against the bare loop."""
    timesteps = visit_frames // 4
    played = f"bare loop (3 visits of {timesteps:,} timesteps)"
    subjects = (("recorded", "≥ 0.9", RECORDED), ("live", "≥ 0.6", LIVE))
    return [
        (
            f"prediction run, {name} / {played}",
            goal,
            describe_ratios(measure_runs(trials, timesteps, subject)["run"]),
        )
        for name, goal, subject in subjects
    ]


def sum_rewards(events: Path) -> float:
    """The straightforward loop over JSON lines."""
    total = 0.0
    with events.open() as lines:
        for line in lines:
            total += json.loads(line)["reward"]
    return total


def bench_reading(trials: int, visit_frames: int) -> list[Row]:
    """Scoring and validating against a plain json.loads loop, in turns."""
    from longplay.contract.rundir import RunDirectory
    from longplay.tracks.scores import score_run, write_score
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


def bench_import(trials: int) -> list[Row]:
    """Importing longplay against importing its main dependencies."""
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
    parser.add_argument("--killed-at-frame", type=int, default=40_000)
    parser.add_argument(
        "--only",
        default="run,control,prediction,isolation,evidence,resume,verify,video,"
        "reading,memory,import",
    )
    options = parser.parse_args()
    wanted = options.only.split(",")
    rows: list[Row] = []
    if "run" in wanted:
        rows += bench_run(options.trials, options.visit_frames)
    if "control" in wanted:
        rows += bench_control(options.trials, options.visit_frames)
    if "prediction" in wanted:
        rows += bench_prediction(options.trials, options.visit_frames)
    if "isolation" in wanted:
        rows += bench_isolation(options.trials, options.visit_frames)
    if "evidence" in wanted:
        rows += bench_evidence(options.trials, options.visit_frames)
    if "resume" in wanted:
        rows += bench_resume(options.trials, options.killed_at_frame)
    if "verify" in wanted:
        rows += bench_verify(options.trials, options.verify_visit_frames)
    if "video" in wanted:
        rows += bench_video(options.trials, options.visit_frames)
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
