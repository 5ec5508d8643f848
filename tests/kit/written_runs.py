"""Whole run directories from a list of rewards: nothing is played."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from generated_runs import GAME_ACTIONS, STARTED, make_status, write
from longplay.contract.config import RunConfig
from longplay.contract.fingerprint import agent_id
from longplay.contract.rows import EpisodeRow, EventRow, TimestepRow
from longplay.contract.rundir import RunDirectory
from longplay.plan import plan_run
from longplay.scoring.play import read_play
from longplay.tracks.scores import compute_score
from rows import rehash

# Three games, two cycles, visits of 60 frames: a window is a frame.
SHORT = {"base_visit_frames": 60, "jitter_pct": 0.0}
VERSIONS = {"longplay": "0.1.0", "ale_py": "0.12.1"}


def make_config(
    suite: str = "stream-smoke-v1",
    seed: int = 0,
    overrides: Mapping[str, Any] = SHORT,
    agent: str = "alpha",
) -> RunConfig:
    """The config of a run of an agent that is called so."""
    config = {"_type": f"agents.{agent}", "args": {}}
    document = plan_run(suite, seed, overrides).config.model_dump(mode="json")
    document["agent"] = {"config": config, "agent_id": agent_id(config)}
    return RunConfig.model_validate_json(
        msgspec.json.encode({**document, "versions": VERSIONS})
    )


def name_short_suite(overrides: Mapping[str, Any] = SHORT) -> str:
    """The name that all seeds of a changed stream-smoke-v1 share."""
    return plan_run("stream-smoke-v1", 0, overrides).benchmark_name


def write_run(
    run_dir: Path, config: RunConfig, rewards: Sequence[float], **documents: Any
) -> Path:
    """A run that was played until its rewards are used up.

    Args:
        run_dir: Where to.
        config: Its settings.
        rewards: One per frame.
        **documents: Keys of config.json to add.
    """
    run_dir.mkdir(parents=True)
    write(run_dir / "config.json", {**config.model_dump(mode="json"), **documents})
    rows = list(_make_rows(config, np.asarray(rewards, np.float64).tolist()))
    encode = msgspec.json.Encoder().encode_lines
    events = encode(rows)
    (run_dir / "events.jsonl").write_bytes(events)
    visits = [
        [row for row in rows if row.visit_idx == v.visit_idx] for v in config.schedule
    ]
    played = [visit for visit in visits if visit]
    (run_dir / "episodes.jsonl").write_bytes(encode([_episode(v) for v in played]))
    # Not a chain of digests, but another one for other rows.
    head = hashlib.sha256(events).hexdigest()
    write(run_dir / "run_summary.json", _summarise([_visit(v) for v in played], head))
    write(run_dir / "status.json", make_status("COMPLETED"))
    if len(rows) == config.total_frames:
        score = compute_score(read_play(RunDirectory(run_dir)))
        write(run_dir / "score.json", score)
        rehash(run_dir, add=True)
    return run_dir


def _make_rows(config: RunConfig, rewards: list[float]) -> Any:
    frame = 0
    for visit in config.schedule:
        for visit_frame in range(min(visit.visit_frames, len(rewards) - frame)):
            common = EventRow(
                global_frame_idx=frame,
                game_id=visit.game_id,
                visit_idx=visit.visit_idx,
                cycle_idx=visit.cycle_idx,
                visit_frame_idx=visit_frame,
                episode_id=visit.visit_idx,
                segment_id=visit.visit_idx,
                is_decision_frame=True,
                decided_action_idx=0,
                applied_action_idx=0,
                reward=rewards[frame],
                terminated=False,
                truncated=visit_frame == visit.visit_frames - 1,
                lives=3,
            )
            frame += 1
            if config.track == "streaming":
                yield common
            else:
                yield TimestepRow(*msgspec.structs.astuple(common), common.reward, 4)


def _episode(rows: list[EventRow]) -> EpisodeRow:
    return EpisodeRow(
        rows[0].game_id,
        rows[0].visit_idx,
        rows[0].global_frame_idx,
        rows[-1].global_frame_idx,
        len(rows),
        sum(row.reward for row in rows),
        "truncated",
    )


def _visit(rows: list[EventRow]) -> dict[str, Any]:
    total = sum(row.reward for row in rows)
    return {
        "visit_idx": rows[0].visit_idx,
        "game_id": rows[0].game_id,
        "cycle_idx": rows[0].cycle_idx,
        "frames": len(rows),
        "decision_frames": len(rows),
        "emulator_frames": len(rows),
        "reward_sum": total,
        "game_reward_sum": total,
        "episodes": 1,
        "wall_time_s": 0.5,
        "started_utc": STARTED,
        "action_names": GAME_ACTIONS.get(rows[0].game_id, ["NOOP"]),
        "metrics": {},
    }


def _summarise(visits: list[dict[str, Any]], chain_head: str) -> dict[str, Any]:
    frames = sum(visit["frames"] for visit in visits)
    return {
        "schema_version": 1,
        "frames": frames,
        "decision_frames": frames,
        "emulator_frames": frames,
        "episodes": len(visits),
        "wall_time_s": 3.0,
        "fps": 4000.0,
        "segments": len(visits),
        "tries": 1,
        "started_utc": STARTED,
        "ended_utc": STARTED,
        "chain_head": chain_head,
        "visits": visits,
    }
