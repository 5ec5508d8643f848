"""30,000 to a million records: planted abilities are found, in bounded memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench_atlas import (
    Planted,
    correlate_ranks,
    generate_records,
    plant_abilities,
    read_abilities,
)

MEASURE = """
import sys, time
from longplay.cli.app import app
started = time.perf_counter()
app(["atlas", sys.argv[1], "-o", sys.argv[2], "--json"], standalone_mode=False)
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) / 1024, file=sys.stderr)
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"
)
@pytest.mark.parametrize(
    ("agents", "most_mib"),
    [
        (60, 600),
        pytest.param(200, 600, marks=pytest.mark.exhaustive),
        pytest.param(2000, 1200, marks=pytest.mark.exhaustive),
    ],
)
def test_abilities_are_found_among_many_records(tmp_path, agents, most_mib):
    planted = Planted(agents=agents, tasks=5000, observed=0.1)
    generate_records(tmp_path / "records.jsonl", planted)
    command = [sys.executable, "-c", MEASURE, "records.jsonl", "atlas"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert float(done.stderr) < most_mib  # a million records alone have 560
    fitted = read_abilities(tmp_path / "atlas" / "agents.csv", planted.agents)
    assert correlate_ranks(plant_abilities(planted), fitted) > 0.95
