"""What probes cost, in processor time: a branch, and all due probes of a run.

    python benchmarks/bench_probes.py           a shortened control-3x3-v1 (a minute)
    python benchmarks/bench_probes.py --full    control-3x3-v1 as it is (minutes)

A timestep of a branch may cost 1.25 times one of the stream, once the start of the
emulator is subtracted; the due probes of a run may cost 1.1 times the run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from longplay.console.machines import make_console
from longplay.contract.config import RunConfig
from longplay.experiments.experiment import Experiment, plan_seeds
from longplay.experiments.probing import ProbeRequest, Probing, find_probed_runs
from longplay.runs.options import RunOptions

SUITE, AGENT, SEED = "control-3x3-v1", "linear-sarsa", 1000
SHORT_VISIT = 1500
MOST_PER_TIMESTEP, MOST_PER_RUN = 1.25, 1.1


@dataclass(frozen=True)
class Costs:
    """Seconds of processor time.

    Attributes:
        start_s: Of the start of an emulator, mean over games.
        run_s: Of the run.
        run_timesteps: Its timesteps.
        probes_s: Of its due probes.
        branches: How many they are.
        branch_timesteps: Timesteps of each.
    """

    start_s: float
    run_s: float
    run_timesteps: int
    probes_s: float
    branches: int
    branch_timesteps: int

    @property
    def per_timestep(self) -> float:
        """Cost of a timestep of a branch, relative to one of the stream."""
        played_s = self.probes_s - self.branches * self.start_s
        in_branch = played_s / (self.branches * self.branch_timesteps)
        return in_branch / (self.run_s / self.run_timesteps)

    @property
    def per_run(self) -> float:
        """Cost of all due probes, relative to the run."""
        return self.probes_s / self.run_s


def measure_start(config: RunConfig, repeats: int = 5) -> float:
    """Seconds until an emulator has started a game."""
    console = make_console(config)
    started_s = time.process_time()
    for seed in range(repeats):
        for game in config.games:
            console.start_visit(game, seed)
    return (time.process_time() - started_s) / repeats / len(config.games)


def measure(folder: Path, *, is_full: bool) -> Costs:
    """Plays a run and its due probes."""
    overrides = {} if is_full else {"base_visit_frames": SHORT_VISIT}
    plans = plan_seeds(SUITE, [SEED], overrides)
    experiment = replace(
        Experiment.create(plans, AGENT, out=folder / "exp"),
        options=RunOptions(keep_agent="visits"),
    )
    started_s = time.process_time()
    (played,) = experiment.run_sequentially()
    run_s = time.process_time() - started_s
    assert played.state == "COMPLETED", played.error
    (run,) = find_probed_runs([folder / "exp"], ProbeRequest())
    started_s = time.process_time()
    (result,) = Probing([run]).play()
    probes_s = time.process_time() - started_s
    assert result.is_valid
    start_s = measure_start(run.run.config)
    timesteps = plans[0].total_frames
    return Costs(start_s, run_s, timesteps, probes_s, run.branches, run.size.frames)


def main() -> None:
    """Prints the costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    with tempfile.TemporaryDirectory() as folder:
        costs = measure(Path(folder), is_full=parser.parse_args().full)
    print(f"start of an emulator: {1000 * costs.start_s:.0f} ms")
    print(f"run: {costs.run_s:.1f} s for {costs.run_timesteps:,} timesteps")
    print(
        f"due probes: {costs.probes_s:.1f} s for {costs.branches} branches of "
        f"{costs.branch_timesteps} timesteps"
    )
    print(f"timestep of a branch: {costs.per_timestep:.2f} of {MOST_PER_TIMESTEP}")
    print(f"due probes per run: {costs.per_run:.2f} of {MOST_PER_RUN} (with --full)")


if __name__ == "__main__":
    main()
