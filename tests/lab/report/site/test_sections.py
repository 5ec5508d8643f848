"""The parts that pages of one suite share."""

from __future__ import annotations

from pathlib import Path

from generated_runs import edit
from longplay.lab.analysis.runs import RunReader
from longplay.lab.report.site.sections import describe_command, table_differences
from written_runs import make_config, write_run

LONG = "a_name_that_is_longer_than_a_cell"


def texts(**configs: object) -> list[list[str]]:
    table = table_differences({label: {"setting": v} for label, v in configs.items()})
    assert table is not None
    return [[cell.text for cell in row] for row in table.rows]


def test_long_settings_are_cut_unless_they_would_look_alike():
    assert texts(a=f"x{LONG}", b=f"y{LONG}") == [
        ["setting", "xa_name_that_is_longer_…", "ya_name_that_is_longer_…"]
    ]
    assert texts(a=f"{LONG}_1", b=f"{LONG}_2", c=None) == [
        ["setting", f"{LONG}_1", f"{LONG}_2", "–"]
    ]


def test_equal_settings_are_left_out():
    same = {"args": {"rate": 0.1}, "seed": 1}
    assert table_differences({"a": same, "b": dict(same)}) is None
    found = table_differences({"a": same, "b": {**same, "args": {"rate": 0.2}}})
    assert found is not None
    assert [[cell.text for cell in row] for row in found.rows] == [
        ["args.rate", "0.1", "0.2"]
    ]


def test_command_names_the_file_and_all_options(tmp_path: Path):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 360)
    config = {"_type": "alpha.Agent", "file": "alpha.py", "args": {"rate": 0.5}}
    edit(
        run_dir / "config.json",
        agent={"agent_id": "0" * 64, "config": config},
        agent_isolation={
            "level": "sandbox",
            "allowed": ["/private"],
            "variables": ["KEY"],
            "step_timeout_s": 2.5,
            "memory_bytes": 3 * 10**9,
        },
    )
    command = describe_command("alpha", RunReader().read([run_dir]).runs)
    assert command == (
        "longplay run stream-smoke-v1 --agent alpha.py --agent-arg rate=0.5 "
        "--set base_visit_frames=60 --set jitter_pct=0.0 --seeds 0 --isolate sandbox "
        "--sandbox-allow PATH --agent-env KEY --step-timeout 2.5 --agent-memory 3  "
        "# alpha"
    )
