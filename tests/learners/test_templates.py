"""`longplay new-agent`: starting files that run as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longplay.learners.templates import TEMPLATES, make_own


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_passes_check_agent(
    name: str, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    path = tmp_path / f"own_{name.replace('-', '_')}.py"
    answer = invoke("new-agent", path, "--template", name)
    assert answer.exit_code == 0
    assert f"check-agent {path}" in answer.stdout.replace("\n", "")
    checked = invoke("check-agent", path, "--json")
    assert checked.exit_code == 0, checked.stdout
    passed = [item["passed"] for item in checked.json]
    assert set(passed) == {True}
    assert "REVISION" not in path.read_text()
    assert f"--agent {path.name}" in path.read_text()


def test_a_control_agent_is_the_default(
    tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    path = tmp_path / "mine.py"
    invoke("new-agent", path)
    assert path.read_text() == make_own(TEMPLATES["control"].read_text(), "mine.py")


def test_from_a_template_to_a_first_score(
    tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    path, out = tmp_path / "mine.py", tmp_path / "out"
    invoke("new-agent", path)
    path.write_text(
        path.read_text().replace("step_size: float = 0.05", "step_size=0.1")
    )
    answer = invoke("run", "control-smoke-v1", "--agent", path, "--out", out, "--json")
    assert answer.exit_code == 0
    (run,) = answer.json["runs"]
    assert set(run["score"]["per_game_cumulative_reward"]) == {
        *("pong", "breakout", "space_invaders"),
    }


def test_nothing_is_overwritten(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    path = tmp_path / "mine.py"
    path.write_text("precious")
    answer = invoke("new-agent", path)
    assert answer.exit_code == 2
    assert "exists; it is not overwritten" in answer.stderr.replace("\n", " ")
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("file", "template", "message"),
    [
        (
            "mine.py",
            "stream-p",
            "unknown template 'stream-p'; did you mean 'stream-q'",
        ),
        ("mine.txt", "dqn", "FILE: expected a name that ends with .py"),
        ("no/mine.py", "dqn", "cannot be written: No such file or directory"),
    ],
)
def test_bad_requests(
    file: str,
    template: str,
    message: str,
    tmp_path: Path,
    invoke: Callable[..., Any],
) -> None:
    answer = invoke("new-agent", tmp_path / file, "--template", template)
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())
    assert not (tmp_path / file).exists()
