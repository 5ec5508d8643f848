"""A session: the agent's output, observers, and every way a run can end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longplay.agents.source.loading import load_agent
from longplay.console.ale import AleConsole
from longplay.contract.rundir import RunDirectory
from longplay.errors import AgentError, ConfigError, ConsoleError, RunFailed
from longplay.runs.loop import Progress
from playing import play_run

ONE = {"games": ["qbert"], "num_cycles": 1, "base_visit_frames": 40, "jitter_pct": 0}
TWO = {**ONE, "games": ["qbert", "pong"]}

QUIET = """
    def step(self, *percept):
        return 0
"""


def write_agent(folder: Path, head: str, body: str = QUIET) -> str:
    path = folder / "printing_agent.py"
    init = "    def __init__(self, num_actions, seed):\n        pass\n"
    path.write_text(f"{head}\nclass Agent:\n{init}{body}")
    return str(path)


def play(folder: Path, agent: Any, settings: dict[str, Any] = ONE, **options: Any):
    out = folder / "out"
    return play_run("stream-smoke-v1", agent, out=out, overrides=settings, **options)


def output_of(folder: Path) -> str:
    (file,) = (folder / "out").rglob("agent_output.txt")
    return file.read_text()


def read_status(folder: Path) -> dict[str, Any]:
    (file,) = (folder / "out").rglob("status.json")
    return json.loads(file.read_text())


def test_failed_run_records_its_fps(tmp_path: Path) -> None:
    """Over all of its frames, not the value of the last heartbeat."""
    body = """
    def step(self, obs, reward, terminated, truncated, info):
        if info["global_frame_idx"] == 33:
            raise ValueError
        return 0
"""
    with pytest.raises(AgentError):
        play(tmp_path, write_agent(tmp_path, "", body))
    (file,) = (tmp_path / "out").rglob("run_summary.json")
    summary = json.loads(file.read_text())
    assert summary["frames"] == 33
    assert read_status(tmp_path)["fps"] == summary["fps"] > 0


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("print('at import')", "'in step'"),
        (
            "import logging\nlogging.basicConfig(force=True)",
            "logging.warning('in step')",
        ),
        ("import sys", "sys.stdout.buffer.write(b'in step')"),
        (
            "import subprocess, sys",
            "subprocess.run(['echo', 'in step'], stdout=sys.stdout, check=True)",
        ),
    ],
    ids=["print", "logging", "bytes", "subprocess"],
)
def test_output_of_an_agent_is_kept(
    head: str, line: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body = f"""
    def step(self, obs, reward, terminated, truncated, info):
        if info["global_frame_idx"] == 7:
            {line if "(" in line else f"print({line})"}
        return 0
"""
    play(tmp_path, write_agent(tmp_path, head, body))
    assert "in step" in output_of(tmp_path)
    assert ("at import" in output_of(tmp_path)) == ("at import" in head)
    assert capfd.readouterr() == ("", "")


def test_output_of_an_observer_reaches_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = """
    def step(self, obs, reward, terminated, truncated, info):
        if info["global_frame_idx"] == 7:
            import time
            time.sleep(0.4)
        return 0
"""
    agent = write_agent(tmp_path, "", body)

    def observe(progress: Progress) -> None:
        print("at", progress.game_id)  # noqa: T201

    play(tmp_path, agent, observer=observe)
    assert "at qbert" in capsys.readouterr().out
    assert not list((tmp_path / "out").rglob("agent_output.txt"))


def test_close_is_called_once_after_a_failure_and_its_output_is_kept(
    tmp_path: Path,
) -> None:
    body = """
    def step(self, *percept):
        raise ValueError("no more")
    def close(self):
        print("closing")
"""
    with pytest.raises(
        AgentError, match=r"no more \(printing_agent.py:\d+\) at frame 0"
    ):
        play(tmp_path, write_agent(tmp_path, "", body))
    assert output_of(tmp_path).count("closing") == 1
    assert "Traceback" in output_of(tmp_path)


def test_close_that_raises_fails_the_run(tmp_path: Path) -> None:
    close = "    def close(self):\n        print('once')\n        raise OSError(3)\n"
    body = f"{QUIET}\n{close}"
    with pytest.raises(AgentError, match="OSError: 3"):
        play(tmp_path, write_agent(tmp_path, "", body))
    assert output_of(tmp_path).count("once") == 1
    assert read_status(tmp_path)["state"] == "FAILED"


def test_error_in_metrics_names_the_visit_that_ended(tmp_path: Path) -> None:
    body = f"{QUIET}\n    def metrics(self):\n        raise ValueError('bad')\n"
    first = play_run("stream-smoke-v1", "noop", out=tmp_path / "plan", overrides=TWO)
    game = RunDirectory(first.run_dir).config.schedule[0].game_id
    with pytest.raises(AgentError, match=rf"bad .* at frame 40 of {game}"):
        play(tmp_path, write_agent(tmp_path, "", body), TWO)


def test_console_that_fails_at_a_visit_switch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = AleConsole.start_visit

    def fail_later(console: AleConsole, game_id: str, emulator_seed: int) -> None:
        if console.actions:
            raise ConfigError("the ROM is gone")
        start(console, game_id, emulator_seed)

    monkeypatch.setattr(AleConsole, "start_visit", fail_later)
    with pytest.raises(ConsoleError, match="the ROM is gone") as caught:
        play(tmp_path, "noop", TWO)
    assert isinstance(caught.value, RunFailed)
    status = read_status(tmp_path)
    assert (status["state"], status["frame"]) == ("FAILED", 40)
    (run_dir,) = (tmp_path / "out/episodes").iterdir()
    assert (run_dir / "events.jsonl").read_text().count("\n") == 40
    assert (run_dir / "segments.jsonl").read_text().count("\n") == 1


def test_delay_longer_than_a_visit_costs_nothing(tmp_path: Path) -> None:
    result = play(tmp_path, "repeat", {**ONE, "delay": 10**6})
    applied = RunDirectory(result.run_dir).events.numpy("applied_action_idx")
    assert set(applied["applied_action_idx"].tolist()) == {0}
    assert result.report.is_valid


def test_factory_without_a_name_is_an_agent(tmp_path: Path) -> None:
    head = "import functools"
    agent = write_agent(tmp_path, head)
    with Path(agent).open("a") as file:
        file.write("make = functools.partial(Agent)\n")
    assert load_agent(f"{agent}:make").entry.config["_type"] == "printing_agent.partial"


def test_script_without_a_main_guard_validates(
    tmp_path: Path, finished_run: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import longplay, longplay.contract.columns as columns\n"
        "columns._PARALLEL_FROM_BYTES = 0\n"
        f"print(longplay.validate_run({str(finished_run)!r}).is_valid)\n"
    )
    printed = subprocess.check_output([sys.executable, str(script)], text=True)
    assert printed == "True\n"


def test_command_spawns_readers_safely(tmp_path: Path, finished_run: Path) -> None:
    """Every process that `python -m longplay` spawns imports it again."""
    code = (
        "import longplay.contract.columns as columns, runpy, sys\n"
        "columns._PARALLEL_FROM_BYTES = 0\n"
        f"sys.argv = ['longplay', 'validate', {str(finished_run)!r}]\n"
        "if __name__ == '__main__':\n"
        "    runpy.run_module('longplay', run_name='__main__', alter_sys=True)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("valid") == 1


def test_observer_is_called_where_decisions_are_rare(tmp_path: Path) -> None:
    body = """
    def step(self, obs, reward, terminated, truncated, info):
        if info["global_frame_idx"] == 7:
            import time
            time.sleep(0.4)
        return 0
"""
    seen: list[Progress] = []
    agent = write_agent(tmp_path, "", body)
    play(tmp_path, agent, {**ONE, "decision_interval": 1000}, observer=seen.append)
    assert 17 in [progress.frame for progress in seen]
