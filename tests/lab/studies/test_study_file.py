"""study.toml: what is read, and what is refused."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from longplay.errors import ConfigError
from longplay.experiments.job import Needs
from longplay.lab.studies.file import read_study_file

WHOLE = """
name = "whole"
seeds = [0, 1]

[[agents]]
ref = "agents/mine.py"
name = "mine"
args = { epsilon = 0.05, layers = [64, 64] }
files = ["weights/*"]
cpus = 2
gpus = 0.5
memory_gb = 8

[[suites]]
id = "control-v1"
set = { base_visit_frames = 100 }

[tuning]
seeds = [1000]

[tuning.grid]
seed_bias = [1, 2]

[tuning.grid.mine]
step_size = [0.1, 0.01]
"""


def read(tmp_path: Path, text: str):
    path = tmp_path / "study.toml"
    path.write_text(text)
    return read_study_file(path)


def test_everything_is_read(tmp_path):
    study, sha256 = read(tmp_path, WHOLE)
    assert sha256 == hashlib.sha256(WHOLE.encode()).hexdigest()
    (agent,) = study.agents
    assert agent.args == {"epsilon": 0.05, "layers": [64, 64]}
    assert agent.needs == Needs(2.0, 0.5, 8.0)
    assert agent.needs.resources == {"CPU": 2, "GPU": 0.5, "memory": 8 * 10**9}
    assert study.suites[0].overrides == {"base_visit_frames": 100}
    assert (study.tuning.fraction, study.tuning.metric) == (0.25, "normalised")


def test_a_grid_is_for_all_agents_or_for_one(tmp_path):
    tuning = read(tmp_path, WHOLE)[0].tuning
    assert tuning.grid_of("mine") == {"seed_bias": [1, 2], "step_size": [0.1, 0.01]}
    assert tuning.grid_of("random") == {"seed_bias": [1, 2]}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "whole"', "", "name: expected a value, found none"),
        ("seeds = [0, 1]", "seeds = []", "seeds: expected at least 1 items"),
        ("seeds = [0, 1]", 'seeds = "0-4"', "seeds: expected a list, found '0-4'"),
        ("seeds = [0, 1]", "sedes = [0]", "sedes: expected no such key, found [0]"),
        ("cpus = 2", "cpus = 0", "agents.0.cpus: expected more than 0"),
        ("cpus = 2", "cpu = 2", "agents.0.cpu: expected no such key, found 2"),
        ("gpus = 0.5", "gpus = -1", "agents.0.gpus: expected at least 0"),
        ("[[suites]]", "[[suite]]", "suites: expected a value, found none"),
        ("seeds = [1000]", "seeds = [3]", "tuning.seeds: expected seeds of 1000 and"),
        ("seeds = [0, 1]", "seeds = [0, 1000]", "found 1000 in both"),
        ("seeds = [1000]", "seeds = [1000]\nfraction = 1.0", "tuning.fraction: expect"),
        ("seeds = [1000]", 'seeds = [1000]\nmetric = "z"', "tuning.metric: expected"),
        ("[0.1, 0.01]", "0.1", "tuning.grid.mine.step_size: expected a list of alter"),
        ("[0.1, 0.01]", "[]", "tuning.grid.mine.step_size: expected a list of alter"),
        ("seed_bias = [1, 2]", "seed_bias = 1", "tuning.grid.seed_bias: expected a li"),
        ("name =", "name", "expected TOML"),
        ("[0.1, 0.01]", "[nan]", "expected numbers, text, lists and tables"),
        ("[0.1, 0.01]", "[2024-01-01]", "expected numbers, text, lists and tables"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, old, new, message):
    assert WHOLE.count(old)
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        read(tmp_path, WHOLE.replace(old, new, 1))
    assert "study.toml" in str(raised.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"study\.toml"):
        read_study_file(tmp_path / "study.toml")
