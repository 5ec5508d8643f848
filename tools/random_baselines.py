"""Runs of the random agent -> the shipped data.

    python tools/random_baselines.py [--folder runs/baselines] [--workers 2]
                                          [--suites control-smoke-v1,control-v1]

Every suite but the 24-million-frame one. Runs come from the packs of results/, if the
suite has some, with all official seeds; else three seeds are played with
`longplay run`. A complete run in the folder is not played again, so this can be stopped
and restarted. Suites that are not requested keep their figures, and all keep the time
per frame that was measured once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from longplay.agents.random import RandomAgent
from longplay.console.ale import AleConsole
from longplay.contract.config import GLOBAL_ACTION_SET, ScheduledVisit
from longplay.contract.documents import ControlScore, Score
from longplay.contract.rundir import RunDirectory
from longplay.lab.report.site.verdicts import open_pack
from longplay.plan import plan_run
from longplay.scoring import baselines
from longplay.seeds import emulator_seed
from longplay.stream import Stream
from longplay.suites import get_suite
from longplay.tracks.streaming import STREAMING
from measured_runs import SEEDS, Job, measure_all
from results import RESULTS

SUITE_IDS = (
    "stream-smoke-v1",
    "stream-3x2-v1",
    "stream-8x3-v1",
    "control-smoke-v1",
    "control-v1",
    "control-6x3-v1",
)
# Frames per game and trial when speed is measured, if visits are as long: to begin a
# visit costs as much as hundreds of frames.
SPEED_FRAMES = 10_000
DATA = Path(baselines.__file__).parent / "data" / "random.json"


def measure_us_per_frame(suite_id: str, trials: int = 3) -> int:
    """Processor time of playing one frame, over the suite's games.

    Wall time would depend on the load of the machine.
    """
    config = plan_run(suite_id, 0).config
    games = tuple(dict.fromkeys(visit.game_id for visit in config.schedule))
    frames = min(SPEED_FRAMES, config.schedule[0].visit_frames)
    trials_us = []
    for trial in range(trials):
        schedule = tuple(
            ScheduledVisit(
                visit_idx=k, cycle_idx=0, game_id=game_id, visit_frames=frames
            )
            for k, game_id in enumerate(games)
        )
        seeds = [emulator_seed(trial, k) for k in range(len(games))]
        played = config.model_copy(
            update={"schedule": schedule, "emulator_seeds": tuple(seeds)}
        )
        console = AleConsole(
            sticky=config.sticky,
            full_action_space=config.full_action_space,
            frame_skip=config.frame_skip or 1,
        )
        stream = Stream.from_config(played, console)
        track = STREAMING.join(RandomAgent(len(GLOBAL_ACTION_SET), trial))
        start_s = time.process_time()
        while not stream.done:
            stream.advance(track.answer(stream.percept()))
        seconds = time.process_time() - start_s
        trials_us.append(1e6 * seconds / (frames * len(games)))
    return round(statistics.median(trials_us))


def find_runs(suite_id: str, folder: Path, workers: int) -> list[RunDirectory]:
    """The packed runs of a suite, or else three that are played."""
    packs = sorted((RESULTS / suite_id / "random").glob("*.longplay"))
    if packs:
        runs = [open_pack(pack) for pack in packs]
        if {run.config.seed for run in runs} != set(get_suite(suite_id).official_seeds):
            sys.exit(f"{suite_id}: expected packs of random on all official seeds")
        return runs
    jobs = [
        Job(suite_id, "random", seed, folder / f"{suite_id}_seed-{seed}")
        for seed in SEEDS
    ]
    return measure_all(jobs, workers)


def summarise(runs: list[RunDirectory], us_per_frame: int) -> dict[str, Any]:
    """The figures of one suite over its seeds."""
    rewards: dict[str, float] = defaultdict(float)
    frames: dict[str, int] = defaultdict(int)
    for run in runs:
        assert run.summary is not None
        for visit in run.summary.visits:
            rewards[visit.game_id] += visit.reward_sum
            frames[visit.game_id] += visit.frames
    scores = [run.score for run in runs if run.score is not None]
    return {
        "seeds": [run.config.seed for run in runs],
        "contract_hashes": [run.config.benchmark_contract_hash for run in runs],
        "versions": runs[0].config.versions,
        "us_per_frame": us_per_frame,
        "final_scores": [score.final_score for score in scores],
        "forgetting_index_means": [score.forgetting_index_mean for score in scores],
        "plasticity_means": [score.plasticity_mean for score in scores],
        "games": {
            game: {
                "rate": rewards[game] / frames[game],
                "score": statistics.fmean(s.per_game_scores[game] for s in scores),
                "scores": [score.per_game_scores[game] for score in scores],
                "frames": frames[game],
            }
            for game in runs[0].config.games
        },
        **summarise_totals(scores),
    }


def summarise_totals(scores: list[Score]) -> dict[str, Any]:
    """Totals of control runs: sums per seed, and their means per game."""
    control = [score for score in scores if isinstance(score, ControlScore)]
    if not control:
        return {}
    games = control[0].per_game_cumulative_reward
    return {
        "cumulative_rewards": [score.cumulative_reward for score in control],
        "cumulative_game_scores": [score.cumulative_game_score for score in control],
        "totals": {
            game: {
                "reward": statistics.fmean(
                    score.per_game_cumulative_reward[game] for score in control
                ),
                "game_score": statistics.fmean(
                    score.per_game_cumulative_game_score[game] for score in control
                ),
            }
            for game in games
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("runs/baselines"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--suites", default=",".join(SUITE_IDS))
    options = parser.parse_args()
    data = json.loads(DATA.read_text(encoding="utf-8"))
    for suite_id in options.suites.split(","):
        runs = find_runs(suite_id, options.folder, options.workers)
        known = data["suites"].get(suite_id, {}).get("us_per_frame")
        speed = known or measure_us_per_frame(suite_id)
        data["suites"][suite_id] = summarise(runs, speed)
    DATA.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {DATA}")


if __name__ == "__main__":
    main()
