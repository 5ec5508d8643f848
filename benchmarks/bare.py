"""Shared by benchmarks: clocks, a complete run, and the bare loop."""

from __future__ import annotations

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

    from longplay.contract.config import RunConfig

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


def make_settings(visit_frames: int, num_cycles: int = 1) -> dict[str, Any]:
    settings = {"base_visit_frames": visit_frames, "num_cycles": num_cycles}
    return {**settings, "jitter_pct": 0}


def play_run(
    run_dir: Path,
    visit_frames: int,
    suite_id: str = "stream-3x2-v1",
    num_cycles: int = 1,
    agent: str = "random",
    seed: int = 0,
) -> None:
    """A complete run, everything recorded."""
    from longplay.agents.source.loading import load_agent
    from longplay.plan import plan_run
    from longplay.runs.session import Session

    plan = plan_run(suite_id, seed, make_settings(visit_frames, num_cycles))
    Session(plan, load_agent(agent), run_dir).run()


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


def play_bare(config: RunConfig, log: Log, pixels_from: int = 0) -> None:
    """The same frames with only the calls that any loop needs.

    Args:
        config: The run's.
        log: The actions to play.
        pixels_from: The first frame of each visit whose pixels are fetched.
    """
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
        play(ale, applied, held, pixels_from)


def play_frames(
    ale: ALEInterface, applied: list[int], held: list[int], pixels_from: int
) -> None:
    for frame, action in enumerate(applied):
        if frame >= pixels_from:
            ale.getScreenRGB()
        ale.act(action)
        ale.lives()
        if ale.game_over():
            ale.reset_game()


def play_timesteps(
    ale: ALEInterface, applied: list[int], held: list[int], pixels_from: int
) -> None:
    for step, (action, frames) in enumerate(zip(applied, held, strict=True)):
        if step >= pixels_from:
            ale.getScreenRGB()
        is_over = False
        for _ in range(frames):
            ale.act(action)
            is_over = ale.game_over()
        ale.lives()
        if is_over:
            ale.reset_game()


def import_seconds(statement: str) -> float:
    clock = "time.perf_counter()"
    code = f"import time; start = {clock}; {statement}; print({clock} - start)"
    return float(subprocess.check_output([sys.executable, "-c", code], text=True))


def cpu_timed(function: Callable[[], object]) -> float:
    """Like `timed`, in processor time, for differences of a few per cent."""
    start = time.process_time()
    function()
    return time.process_time() - start
