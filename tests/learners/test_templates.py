"""`longplay new-agent`: starting files that run as they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longplay.learners.templates import TEMPLATES, make_own

SHORT = ("--out", "out", "--set", "base_visit_frames=200", "--quiet", "--json")
HEADLINES = {"streaming": "final_score", "prediction": "nmse"}


# The one in PyTorch is played by `tests/learn/test_torch_agents.py`.
@pytest.mark.few(2)
@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != "torch"])
def test_from_a_template_to_a_first_score(
    name: str,
    tmp_path: Path,
    invoke: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = invoke("new-agent", "mine.py", "--template", name)
    assert answer.exit_code == 0
    assert "next: longplay check-agent mine.py" in answer.stdout
    check, first_run, run = read_commands(Path("mine.py"))
    assert check == ["check-agent", "mine.py"]
    checked = invoke(*check, "--json")
    assert checked.exit_code == 0, checked.stdout
    assert {item["passed"] for item in checked.json} == {True}
    # Seeds from 1000 on: an official one is not for development.
    expected = ["--agent", "mine.py", "--seed", "1000"]
    assert first_run[2:] == run[2:6] == expected
    played = invoke(*first_run, *SHORT)
    assert played.exit_code == 0, played.stderr
    (scored,) = played.json["runs"]
    assert scored["validation"]["valid"]
    headline = HEADLINES.get(name, "cumulative_reward")
    assert isinstance(scored["score"][headline], float)


def read_commands(path: Path) -> list[list[str]]:
    """The commands in an agent's docstring, without `longplay`."""
    lines = re.findall(r"^    longplay (.+)$", path.read_text(), re.M)
    return [line.split() for line in lines]


def test_a_control_agent_is_the_default(
    tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    path = tmp_path / "mine.py"
    invoke("new-agent", path)
    assert path.read_text() == make_own(TEMPLATES["control"].read_text(), "mine.py")


@pytest.mark.parametrize("name", ["stream-q", "dqn"])
def test_a_copy_of_a_learner_has_no_revision(
    name: str, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    invoke("new-agent", tmp_path / "mine.py", "--template", name)
    assert "REVISION" in TEMPLATES[name].read_text()
    assert "REVISION" not in (tmp_path / "mine.py").read_text()


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
