"""The frames of a run from its log and bare ALE, with none of longplay's own loops."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ale_py
import numpy as np
from ale_py import roms
from numpy.typing import NDArray

from rows import read_rows


def replay_bare(run_dir: Path) -> Iterator[NDArray[np.uint8]]:
    """What the agent saw on every frame, as logged actions on bare ALE give it."""
    config = json.loads((run_dir / "config.json").read_text())
    rows = read_rows(run_dir / "events.jsonl")
    for at, row in enumerate(rows):
        if row["visit_frame_idx"] == 0:
            ale = _start(config, row)
        yield ale.getScreenRGB()
        for _ in range(row.get("emulator_frames", 1)):
            ale.act(_game_action(config, ale, row["applied_action_idx"]))
        following = rows[at + 1] if at + 1 < len(rows) else row
        if row["segment_id"] != following["segment_id"] and not row["truncated"]:
            assert ale.game_over()
            ale.reset_game()


def _start(config: dict[str, Any], row: dict[str, Any]) -> ale_py.ALEInterface:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", config["emulator_seeds"][row["visit_idx"]])
    ale.setFloat("repeat_action_probability", config["sticky"])
    ale.setInt("frame_skip", 1)
    ale.setInt("max_num_frames_per_episode", 0)
    ale.loadROM(roms.get_rom_path(row["game_id"]))
    ale.reset_game()
    return ale


def _game_action(config: dict[str, Any], ale: ale_py.ALEInterface, action: int) -> int:
    if config["full_action_space"]:
        return action
    known = [int(known.value) for known in ale.getMinimalActionSet()]
    return action if action in known else config["default_action_idx"]
