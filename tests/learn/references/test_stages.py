"""The chain from nothing to shipped files, in seconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longplay.console.scripted import ScriptedConsole
from longplay.contract.files import write_document
from longplay.errors import ConfigError, DocumentError
from longplay.reference.facts import AuditedState
from longplay.reference.library import DATA, load_reference, read_facts
from references.auditing import summarise
from references.training import stages
from references.training.array_file import read_arrays
from references.training.collecting import collect_reference
from references.training.driver import make_references
from references.training.fitting import FitRecipe
from references.training.play import FRAME_SKIP
from references.training.recipe import Recipe
from references.training.visit_rewards import measure_policy
from references.workspace import Workspace, read_progress

RECIPE = Recipe(timesteps=512, emulators=4, rollout_timesteps=16)
FIT = FitRecipe(batch_rows=64, halvings=0, max_epochs=2)
PLAN = stages.PlayPlan(
    games=2,
    visit_timesteps=60,
    visits=2,
    held_out_visits=1,
    audit_visits=1,
    states_per_visit=2,
    continuations=2,
)
# Real games do not end within a few timesteps, so a whole horizon must fit in.
LONGER_PLAN = PLAN.model_copy(update={"visit_timesteps": 1100})


def make_console() -> ScriptedConsole:
    return ScriptedConsole(frame_skip=FRAME_SKIP)


def test_the_chain_on_the_scripted_console(tmp_path: Path) -> None:
    place = Workspace(tmp_path, "pong")
    assert place.next_stage() == "train"
    stages.train(place, RECIPE, make_console, (0, 1, 2))
    stages.freeze(place, PLAN, make_console)
    stages.values(place, PLAN, FIT, make_console)
    assert place.next_stage() == "audit"
    policy, facts = stages.read_policy(place)
    assert policy.actions == (0, 1, 2)
    assert facts.score.games == 2
    assert read_progress(tmp_path)[0]["stage"] == "values"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    place = Workspace(tmp_path_factory.mktemp("work"), "kangaroo")
    stages.train(place, RECIPE)
    stages.freeze(place, PLAN)
    stages.values(place, LONGER_PLAN, FIT)
    stages.audit(place, PLAN)
    return place


def test_the_chain_on_a_game_ends_with_what_is_shipped(
    finished: Workspace, tmp_path: Path
) -> None:
    collect_reference(finished, tmp_path)
    facts = load_reference("kangaroo", tmp_path).facts
    assert facts.audit.summary.states == 2
    assert facts.values.timesteps == 2200
    assert facts.policy.recipe["timesteps"] == 512
    # Rollout values of the same networks stay.
    rollouts = read_facts("kangaroo", DATA).rollouts
    kept = facts.model_copy(update={"rollouts": rollouts})
    write_document(tmp_path / "kangaroo.json", kept)
    collect_reference(finished, tmp_path)
    assert read_facts("kangaroo", tmp_path).rollouts == rollouts


def test_the_same_stage_again_gives_the_same_bytes(
    finished: Workspace, tmp_path: Path
) -> None:
    again = Workspace(tmp_path, "kangaroo")
    stages.train(again, RECIPE)
    stages.freeze(again, PLAN)
    for stage in ("train", "freeze"):
        assert again.result(stage).read_bytes() == finished.result(stage).read_bytes()


def test_a_frozen_policy_can_explore_more_than_in_training(
    finished: Workspace, tmp_path: Path
) -> None:
    other = Workspace(tmp_path, "kangaroo")
    stages.train(other, RECIPE)
    stages.freeze(other, PLAN.model_copy(update={"exploration": 0.5}))
    frozen, facts = read_arrays(other.result("freeze"))
    usual, usual_facts = read_arrays(finished.result("freeze"))
    assert (facts["exploration"], usual_facts["exploration"]) == (0.5, 0.02)
    assert facts["recipe"] == usual_facts["recipe"]
    assert all(np.array_equal(frozen[name], usual[name]) for name in usual)


@pytest.mark.parametrize("stage", ["freeze", "values", "audit", "visits"])
def test_a_stage_names_the_one_that_is_missing(tmp_path: Path, stage: str) -> None:
    place = Workspace(tmp_path, "pong")
    run: dict[str, Callable[[], Any]] = {
        "freeze": lambda: stages.freeze(place, PLAN),
        "values": lambda: stages.values(place, PLAN, FIT),
        "audit": lambda: stages.audit(place, PLAN),
        "visits": lambda: measure_policy(place, (1000, 1001)),
    }
    with pytest.raises(
        ConfigError, match=r"expected .* found none; run `python -m ref"
    ):
        run[stage]()


def test_unfinished_games_are_not_collected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pong: expected all stages to be done"):
        collect_reference(Workspace(tmp_path, "pong"), tmp_path / "data")


def audited(value: float, mean_return: float, variance: float) -> AuditedState:
    return AuditedState(
        visit=0,
        timestep=0,
        value=value,
        mean_return=mean_return,
        sampling_variance=variance,
        continuations=32,
    )


def test_audit_figures_by_hand() -> None:
    # means 0, 2, 4: variance 8/3; errors 1, 0, 1: mean square 2/3; sampling 1/6
    states = [audited(1, 0, 0.1), audited(2, 2, 0.2), audited(5, 4, 0.2)]
    summary = summarise(states)
    assert summary.bias == pytest.approx(2 / 3)
    assert summary.rmse_corrected == pytest.approx((1 / 2) ** 0.5)
    assert summary.r2 == pytest.approx(1 - (2 / 3) / (8 / 3))
    assert summary.r2_corrected == pytest.approx(1 - (1 / 2) / (8 / 3 - 1 / 6))


def test_audit_has_no_r2_where_states_do_not_differ() -> None:
    summary = summarise([audited(1, 1, 0.5), audited(1, 1.1, 0.5)])
    assert summary.r2_corrected is None
    assert summarise([audited(1, 1, 0.0)]).r2 is None


def test_missing_torch_is_an_error_with_the_command(
    monkeypatch: pytest.MonkeyPatch, tool: Callable[..., Any], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    answer = tool("train", "--game", "pong", "--work", str(tmp_path / "work"))
    assert answer.exit_code == 2
    assert "pip install -r tools/requirements.txt" in answer.stderr
    assert not (tmp_path / "work").exists()


def test_the_driver_does_what_is_open_and_gives_up_on_what_fails(
    tmp_path: Path,
) -> None:
    done, broken = Workspace(tmp_path, "pong"), Workspace(tmp_path, "breakout")
    for stage in ("train", "freeze", "values", "audit"):
        done.result(stage).touch()
    broken.result("train").write_bytes(b"not safetensors")
    games = ["pong", "breakout"]
    failed = make_references(tmp_path, games, ("train", "freeze"), workers=2)
    assert failed == ["breakout"]
    log = broken.path("freeze.log").read_text()
    # three tries, then the game is left alone
    assert log.count("error: trained.safetensors: not readable") == 3
    assert broken.next_stage() == "freeze"
    assert not done.path("freeze.log").exists()


def test_making_references_that_fail_is_an_error(
    tmp_path: Path, tool: Callable[..., Any]
) -> None:
    Workspace(tmp_path, "breakout").result("train").write_bytes(b"not safetensors")
    answer = tool("make", "--work", tmp_path, "--game", "breakout")
    assert answer.exit_code == 1
    assert "gave up after three failures: breakout" in answer.stderr


@pytest.mark.parametrize("command", ["train", "make"])
def test_games_of_other_tracks_are_refused_at_once(
    tmp_path: Path, tool: Callable[..., Any], command: str
) -> None:
    answer = tool(command, "--work", tmp_path, "--game", "defender")
    assert answer.exit_code == 2
    assert "unknown game of the prediction track 'defender'" in answer.stderr


def test_a_game_that_another_process_is_at_is_left_alone(
    tmp_path: Path, tool: Callable[..., Any]
) -> None:
    with Workspace(tmp_path, "pong").hold():
        answer = tool("train", "--work", tmp_path, "--game", "pong")
    assert answer.exit_code == 2
    assert "pong: another process is working on it" in answer.stderr


def test_arrays_that_are_a_pipe_or_too_large_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 2**33)
    for name, message in (("pipe", "found a pipe"), ("sparse", "found 8,589,934,592")):
        with pytest.raises(DocumentError, match=message):
            read_arrays(tmp_path / name)
