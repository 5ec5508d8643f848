"""The output of an agent is kept beside its run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from failing_runs import (
    ONE_VISIT,
    SUITE,
    Left,
    play,
)
from longplay.agents.output import AgentOutput

pytestmark = pytest.mark.usefixtures("working_dir")


def test_prints_are_kept_beside_the_run(
    spawn: Callable[..., Any], write_agent: Callable[..., Path], left: Left
) -> None:
    agent = write_agent(
        step="print('step', frame); return 0",
        init="print('built'); print('to stderr', file=sys.stderr)",
        more="def close(self): print('closed')",
    )
    answer = spawn(
        "run", SUITE, "--agent", agent, "--out", left.out, *ONE_VISIT, "--json"
    )
    assert answer.exit_code == 0
    assert answer.json["runs"][0]["run_dir"] == str(left.run_dir)
    kept = (left.run_dir / "agent_output.txt").read_text().splitlines()
    steps = [f"step {frame}" for frame in range(60)]
    assert kept == ["built", "to stderr", *steps, "closed"]
    for text in ("built", "to stderr", "step 5", "closed"):
        assert text not in answer.stdout + answer.stderr


def test_prints_at_import_do_not_corrupt_the_json(
    spawn: Callable[..., Any], write_agent: Callable[..., Path], left: Left
) -> None:
    agent = write_agent()
    agent.write_text("print('imported')\n" + agent.read_text())
    answer = spawn(
        "run", SUITE, "--agent", agent, "--out", left.out, *ONE_VISIT, "--json"
    )
    assert answer.exit_code == 0
    assert answer.json["runs"][0]["run_dir"] == str(left.run_dir)
    assert "imported" in (left.run_dir / "agent_output.txt").read_text()


def test_prints_of_a_failing_agent_are_kept(
    run_to_failure: Callable[..., str], write_agent: Callable[..., Path], left: Left
) -> None:
    agent = write_agent("print('my last words'); raise ValueError('boom')")
    message = run_to_failure(agent, *ONE_VISIT)
    assert "my last words" not in message
    assert "my last words" in (left.run_dir / "agent_output.txt").read_text()


def test_silent_agent_leaves_no_output_file(
    invoke: Callable[..., Any], left: Left
) -> None:
    run_dir = play(invoke, "noop", left.out).run_dir
    assert not (run_dir / "agent_output.txt").exists()


def test_output_has_a_limit(tmp_path: Path) -> None:
    for _ in range(2):  # a resumed run goes on with the same file
        output = AgentOutput(most_bytes=100)
        for _ in range(50):
            output.write("five\n")
        output.keep_in(tmp_path)
        output.write("six\n")
        output.write_error("Traceback\n")
        output.finish()
    text = (tmp_path / "agent_output.txt").read_text()
    notice = "\n[longplay keeps 100 bytes; the rest is dropped]\n"
    assert text == "five\n" * 20 + notice + "Traceback\n" * 2


def test_limited_output_takes_no_memory() -> None:
    output = AgentOutput(most_bytes=1000)
    for _ in range(1000):
        output.write("x" * 1000)
    assert sum(map(len, output._pending)) <= 2000
