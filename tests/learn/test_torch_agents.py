"""The template and the example in plain PyTorch."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from learnable_games import play

from longplay.learners.templates import TEMPLATES

TEMPLATE = TEMPLATES["torch"]
EXAMPLE = Path(__file__).parents[2] / "examples/control_actor_critic_torch.py"
each_file = pytest.mark.parametrize(
    "path", [TEMPLATE, EXAMPLE], ids=["template", "example"]
)
SHAPE = (210, 160, 3)
NOT_OVER = {"terminated": False, "truncated": False}


def import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("agent_in_torch", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@each_file
def test_only_torch_is_imported(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }
    assert found <= {"dataclasses", "pathlib", "typing", "torch"}


@each_file
def test_from_a_file_to_a_first_score(
    path: Path,
    tmp_path: Path,
    invoke: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    agent = tmp_path / "mine.py"
    if path == TEMPLATE:
        assert invoke("new-agent", agent, "--template", "torch").exit_code == 0
        assert re.findall(r"--agent (\S+) --seed 1000", agent.read_text())
    else:
        agent.write_text(path.read_text(encoding="utf-8"))
    checked = invoke("check-agent", agent, "--json")
    assert not [item for item in checked.json if item["passed"] is not True]
    assert checked.exit_code == 0
    played = invoke(
        *("run", "control-smoke-v1", "--agent", agent, "--agent-arg", "device=cpu"),
        *("--seed", "1000", "--set", "base_visit_frames=250"),
        *("--out", "out", "--quiet", "--json"),
    )
    assert played.exit_code == 0, played.stderr
    assert played.json["runs"][0]["validation"]["valid"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = import_file(TEMPLATE)
    for name, value in {"CAPACITY": 60, "FIRST_UPDATE": 20, "BATCH": 4}.items():
        monkeypatch.setattr(module, name, value)
    return module


def show(k: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.full(SHAPE, k % 256, np.uint8)


def feed(module: ModuleType, state: Any, steps: range) -> list[Any]:
    answers = []
    for k in steps:
        info = {"terminated": k % 17 == 16, "truncated": k % 50 == 49}
        answers.append(
            module.step(state, show(k), show(k + 1), float(k % 3 - 1), info)[1:]
        )
    return answers


def test_the_template_continues_bit_for_bit(small: ModuleType, tmp_path: Path) -> None:
    state = small.init(SHAPE, 18, 3)
    feed(small, state, range(130))
    small.save(state, tmp_path)
    expected = feed(small, state, range(130, 200))
    loaded = small.load(tmp_path)
    assert feed(small, loaded, range(130, 200)) == expected
    for name in ("network", "target"):
        weights = getattr(state, name).state_dict()
        again = getattr(loaded, name).state_dict()
        assert all(torch.equal(weights[key], again[key]) for key in weights)


def test_stacks_of_the_template_stay_within_an_episode(small: ModuleType) -> None:
    state = small.init(SHAPE, 18, 3)
    feed(small, state, range(70))
    # Frame k shows k + 1; frames 16, 33, 49, 50 and 67 are the first of an episode.
    found = small.stack(state, torch.tensor([69, 67, 51, 53, 40]))[:, :, 0, 0]
    assert found.tolist() == [
        [68, 68, 69, 70],
        [68, 68, 68, 68],
        [51, 51, 51, 52],
        [51, 52, 53, 54],
        [38, 39, 40, 41],
    ]


def test_the_template_learns_a_contextual_bandit(tmp_path: Path) -> None:
    text = TEMPLATE.read_text(encoding="utf-8")
    shorter = {"0.05, 3000": "0.05, 500", "= 500, 4": "= 50, 2", "5, 0.97": "1, 0.8"}
    for old, new in shorter.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    agent = tmp_path / "mine.py"
    agent.write_text(text)
    # Random play earns 1/9, the best blind action 1/2, the optimum 1.
    rewards = play(str(agent), [("levers", 1000)])
    assert np.mean(rewards[:200]) < 0.4
    assert np.mean(rewards[-200:]) > 0.6
