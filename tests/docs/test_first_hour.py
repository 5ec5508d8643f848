"""The paths of a new user, as commands in an empty folder.

From a clone to the score of one's own agent, and from an agent in PyTorch to a report
and a figure. The path that starts with the wheel is in `test_packaging.py`.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_console_blocks import PAGES, read_blocks

from longplay.contract.files import read_json

ROOT = Path(__file__).parents[2]
ADDRESS = "https://github.com/longplay/longplay"
# Processor time: the waiting time on a busy machine says nothing.
LONGEST_CLONE_S = 90

STUDY = """\
name = "first"
seeds = [1000, 1001, 1002]

[[agents]]
ref = "my_torch_agent.py"
name = "mine"

[[agents]]
ref = "random"

[[suites]]
id = "control-smoke-v1"

[[suites]]
id = "control-smoke-v1"
set = { sticky = 0.0 }
"""


def run_commands(*commands: str, folder: Path) -> None:
    """Runs commands in one shell, which ends at the first that fails."""
    script = "\n".join(commands)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_from_a_clone_to_the_score_of_an_own_agent(tmp_path: Path) -> None:
    """The console blocks of the first page, with this clone in place of GitHub's."""
    blocks = read_blocks(PAGES["docs/index.md"])
    commands = [line for block in blocks for line in block.commands]
    assert commands[0].startswith(f"git clone {ADDRESS} && cd longplay")
    commands[0] = commands[0].replace(ADDRESS, f"{ROOT} longplay")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_commands(*commands, folder=tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (score,) = tmp_path.glob("longplay/runs/*my_agent*/episodes/*/score.json")
    assert read_json(score)["complete"] is True
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent <= LONGEST_CLONE_S


@pytest.mark.exhaustive
def test_from_an_agent_in_torch_to_a_report_and_a_figure(tmp_path: Path) -> None:
    """Two agents, three seeds, two suites."""
    pytest.importorskip("torch")
    (tmp_path / "first.toml").write_text(STUDY, encoding="utf-8")
    longplay = Path(sys.executable).with_name("longplay")
    run_commands(
        f"{longplay} new-agent my_torch_agent.py --template torch",
        f"{longplay} check-agent my_torch_agent.py",
        f"{longplay} study run first.toml --out runs/first",
        f"{longplay} report runs/first -o report",
        f"{longplay} plot runs/first -o average.pdf --kind average "
        "--suite control-smoke-v1",
        folder=tmp_path,
    )
    runs = list(tmp_path.glob("runs/first/cells/*/episodes/*/score.json"))
    assert len(runs) == 2 * 3 * 2
    assert "mine" in (tmp_path / "report/index.html").read_text(encoding="utf-8")
    assert (tmp_path / "average.pdf").read_bytes().startswith(b"%PDF")
