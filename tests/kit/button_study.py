"""A study of two agents on a short suite; the button of one of them is tuned."""

from __future__ import annotations

from pathlib import Path

from longplay.lab.studies.study import Study, play_here

STUDY = """
name = "buttons"
seeds = [1002]

[[agents]]
ref = "random"

[[agents]]
ref = "repeat"

[[suites]]
id = "stream-smoke-v1"
set = { base_visit_frames = 60 }

[tuning]
fraction = 0.5
seeds = [1000, 1001]
metric = "reward_rate"

[tuning.grid.repeat]
action = [1, 5]
"""


def play_study(folder: Path) -> Path:
    """Plays the study, and returns its directory."""
    path = folder / "study.toml"
    path.write_text(STUDY)
    study = Study.from_file(path, folder / "buttons")
    result = study.run(play_here())
    assert not result.is_failed
    return study.path
