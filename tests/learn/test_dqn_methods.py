"""Methods for continual learning: each is compared with torch, and does its work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from longplay.agents.source.loading import load_agent
from longplay.errors import ConfigError
from longplay.learners import dqn
from longplay.learners.parts.dqn_methods import (
    DEFAULTS,
    Method,
    OnlineEWC,
    ReDo,
    Rehearsal,
)
from longplay.learners.parts.limits import METHODS
from longplay.learners.parts.networks import ConvNetwork
from longplay.runs.continuation import Continuation, find_differences
from longplay.runs.trial import CONTROL_TRIAL
from made_up_visits import Player, describe
from stream_q_torch import TorchNetwork

SMALL: dict[str, Any] = {
    **{"hidden": 16, "block_decisions": 7, "batch_size": 8, "capacity": 90},
    **{"first_update": 20, "returns": 2},
}


def play(method: str, *visits: int, strength: float | None = None) -> Any:
    """The state of dqn after visits of so many timesteps, each of another game."""
    player = Player(dqn, **SMALL, method=method, strength=strength)
    for game, timesteps in enumerate(visits, start=1):
        player.visit(game, timesteps)
    return player.state


def flatten_gradient(network: TorchNetwork) -> Any:
    for parameter in network.parameters():
        parameter.data = parameter.grad
    return network.flatten()


# --- rehearsal ----------------------------------------------------------------------


def test_the_reservoir_is_a_uniform_sample_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Rehearsal, "CAPACITY", 500)
    state = dqn.init((210, 160, 3), 18, 0, **SMALL, method="rehearsal")
    frame = np.zeros((42, 42), np.float32)
    for k in range(10_002):
        state.replay.add(frame, is_first=k == 0)
        state.method.observe(state, 0.0, is_switch=False)
        state.replay.complete(0, float(k), is_over=False)
    # With a discount of 0 the reward of a transition is its number.
    kept = state.method.rewards
    assert state.method.seen == 10_000
    assert len(set(kept)) == 500
    # A tenth of each tenth: χ² with 9 degrees of freedom is below 27.9 in 99.9 %.
    counts = np.histogram(kept, bins=10, range=(0, 10_000))[0]
    assert ((counts - 50) ** 2 / 50).sum() < 27.9


def test_what_is_rehearsed_is_what_the_replay_had() -> None:
    state = play("rehearsal", 60)
    replay, method = state.replay, state.method
    assert method.seen == 58
    starts = np.arange(58)
    batch = replay.take(starts, state.training.discount)
    stored = method.images[:58].astype(np.float32) * np.float32(1 / 255)
    assert np.array_equal(stored, batch.images)
    following = method.next_images[:58].astype(np.float32) * np.float32(1 / 255)
    assert np.array_equal(following, batch.next_images)
    assert np.array_equal(method.actions[:58], batch.actions)
    assert np.array_equal(method.rewards[:58], batch.rewards)
    assert np.array_equal(method.discounts[:58], batch.discounts)


def test_half_of_a_batch_is_old() -> None:
    # The replay holds 90 frames, all of the second game.
    state = play("rehearsal", 100, 200)
    background = [1 * 40 / 255, 2 * 40 / 255]
    batch = state.method.draw(state, 400, 0.9)
    games = np.abs(batch.images[:, 41, 41, 0, None] - background).argmin(axis=1)
    assert (games[:200] == 1).all()
    # A third of what was seen is of the first game.
    assert 40 <= (games[200:] == 0).sum() <= 95


# --- EWC ----------------------------------------------------------------------------


def test_importance_is_the_squared_gradient_of_autograd() -> None:
    state = play("ewc", 50)
    numbers = np.array([3, 17, 40, 40])
    found = OnlineEWC.find_fisher(state, numbers)
    expected = np.zeros_like(found)
    for number in numbers:
        twin = TorchNetwork(state.network)
        outputs = twin(torch.tensor(state.replay.stack(np.array([number]))))[0]
        parts = state.parts.of_action[state.replay.actions[number]]
        outputs[torch.tensor(parts)].sum().backward()
        expected += flatten_gradient(twin) ** 2 / len(numbers)
    assert np.abs(found - expected).max() < 1e-4 * expected.max()


def test_the_springs_are_the_gradient_of_the_penalty() -> None:
    state = play("ewc", 50, 50, strength=0.3)
    method = state.method
    weights = torch.tensor(state.network.weights, requires_grad=True)
    importance, anchor = map(torch.tensor, (method.importance, method.anchor))
    penalty = 0.3 / 2 * (importance * (weights - anchor) ** 2).sum()
    penalty.backward()
    gradient = np.ones_like(state.network.weights)
    method.add_gradient(state, gradient)
    assert weights.grad is not None
    assert gradient == pytest.approx(1 + weights.grad.numpy(), rel=1e-4, abs=1e-6)
    assert method.measure(state)["ewc_penalty"] == pytest.approx(penalty.item(), 1e-3)
    assert penalty.item() > 0


def test_importance_is_of_the_game_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    find = OnlineEWC.find_fisher

    def note(state: Any, numbers: Any) -> Any:
        asked.append(numbers)
        return find(state, numbers)

    monkeypatch.setattr(OnlineEWC, "find_fisher", staticmethod(note))
    play("ewc", 40, 30, 200, 2)
    assert (asked[0].min(), asked[0].max()) == (0, 39)
    assert (asked[1].min(), asked[1].max()) == (40, 69)
    # The last 90 frames, the new game's first among them, less what a stack needs.
    assert asked[2].min() >= 270 + 1 - 90 + 3
    assert asked[2].max() == 269


def test_importance_adds_up_and_decays() -> None:
    state = play("ewc", 40, 2)
    first = state.method.importance.copy()
    assert first.mean() == pytest.approx(1.0, rel=1e-3)
    state = play("ewc", 40, 40, 2)
    # 0.95 of the first, and a second of the same mean.
    assert state.method.importance.mean() == pytest.approx(1.95, rel=1e-3)


def test_ewc_holds_weights_that_mattered() -> None:
    plain, held = play("none", 100, 300), play("ewc", 100, 300, strength=100.0)
    before = held.method.anchor
    matters = held.method.importance > np.quantile(held.method.importance, 0.9)
    moved = [np.abs(state.network.weights - before) for state in (plain, held)]
    assert moved[1][matters].mean() < 0.2 * moved[0][matters].mean()
    # Of the others the half that mattered least is free.
    spare = held.method.importance <= np.quantile(held.method.importance, 0.3)
    assert moved[1][spare].mean() > 0.5 * moved[0][spare].mean()


# --- ReDo ---------------------------------------------------------------------------


def make_images() -> Any:
    images = np.random.default_rng(3).normal(size=(32, 42, 42, 4))
    return images.astype(np.float32)


def silence(network: ConvNetwork, layer: int, unit: int) -> None:
    """Makes a unit negative everywhere."""
    weights, bias = network.layers[layer].views(network.weights)
    weights[unit], bias[unit] = 0.0, -50.0


def test_dormant_units_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    state, images = play("redo", 60), make_images()
    silence(state.network, 1, 5)
    state.network.forward(images)
    found = state.network.find_dormant(0.1)
    activities: list[Any] = []
    rectify = torch.nn.functional.leaky_relu

    def note(x: Any) -> Any:
        activities.append(rectify(x).detach())
        return rectify(x)

    monkeypatch.setattr(torch.nn.functional, "leaky_relu", note)
    TorchNetwork(state.network)(torch.tensor(images))
    assert len(activities) == len(found) == 4
    for silent, output in zip(found, activities, strict=True):
        rest = [k for k in range(output.ndim) if k != 1]
        activity = output.clamp(min=0).mean(dim=rest)
        expected = activity <= 0.1 * activity.mean()
        assert silent.tolist() == expected.tolist()
    assert found[1][5]


def test_redo_revives_dormant_units() -> None:
    state, images = play("redo", 60), make_images()
    network, adam = state.network, state.adam
    for layer, unit in ((1, 5), (3, 7)):
        silence(network, layer, unit)
    network.forward(images)
    before = network.find_dormant(0.1)
    assert before[1][5] and before[3][7]
    adam.mean[:] = adam.square[:] = 1.0
    old = network.weights.copy()
    state.method.revive(state)
    assert state.method.revived == sum(silent.sum() for silent in before)
    network.forward(images)
    after = network.find_dormant(0.1)
    assert not after[1][5] and not after[3][7]
    # Into the unit: new weights. Out of it: none. Adam forgets both, and only them.
    for number, silent in enumerate(before):
        incoming, bias = network.layers[number].views(network.weights)
        means, _ = network.layers[number].views(adam.mean)
        assert (np.abs(incoming[silent]).max(axis=1, initial=0) > 0).all()
        assert not bias[silent].any() and not means[silent].any()
        following = network.layers[number + 1]
        for vector in (network.weights, adam.mean, adam.square):
            outgoing, _ = following.views(vector)
            shaped = outgoing.reshape(len(outgoing), -1, len(silent))
            assert not shaped[:, :, silent].any()
    untouched = adam.mean == 1.0
    assert untouched.mean() > 0.5
    assert np.array_equal(network.weights[untouched], old[untouched])


def test_redo_acts_every_few_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReDo, "PERIOD", 5)
    times: list[int] = []
    monkeypatch.setattr(ReDo, "revive", lambda self, state: times.append(self.updates))
    play("redo", 80)
    # An update every four decisions, from the twentieth on.
    assert times == [5, 10, 15]


# --- shrink and perturb -------------------------------------------------------------


def test_shrink_perturb_shrinks_and_perturbs() -> None:
    state = play("shrink-perturb", 60, strength=0.25)
    old, target = state.network.weights.copy(), state.target_weights.copy()
    assert state.adam.updates > 0
    state.method.observe(state, 0.9, is_switch=False)
    assert np.array_equal(state.network.weights, old)
    state.method.observe(state, 0.9, is_switch=True)
    added = state.network.weights - np.float32(0.75) * old
    assert np.abs(state.target_weights - np.float32(0.75) * target - added).max() < 1e-6
    # A quarter of new weights: uniform within ±1 / √inputs, biases 0.
    for layer in state.network.layers:
        noise, bias = layer.views(added)
        bound = 0.25 / layer.depth**0.5
        assert np.abs(noise).max() == pytest.approx(bound, rel=0.05)
        assert noise.std() == pytest.approx(bound / 3**0.5, rel=0.1)
        assert np.abs(bias).max() < 1e-6
    assert state.adam.updates == 0
    assert not state.adam.mean.any() and not state.adam.square.any()


# --- all of them --------------------------------------------------------------------


@pytest.fixture
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rehearsal, "CAPACITY", 50)
    monkeypatch.setattr(ReDo, "PERIOD", 5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("short_periods")
def test_they_resume_bit_for_bit(method: str, tmp_path: Path) -> None:
    straight, resumed = (Player(dqn, **SMALL, method=method) for _ in range(2))
    for visit, game in enumerate((1, 2, 1)):
        straight.visit(game, 60)
        stops = {k: tmp_path / f"{visit}-{k}" for k in (7, 33, 59)}
        resumed.visit(game, 60, stops=stops)
    assert resumed.answers == straight.answers
    assert describe(resumed.state) == describe(straight.state)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "none"])
@pytest.mark.usefixtures("short_periods")
def test_they_pass_check_agent(method: str, tmp_path: Path) -> None:
    loaded = load_agent("dqn", {**SMALL, "method": method})
    continuation = Continuation(CONTROL_TRIAL, lambda: loaded.build(5), 5)
    played = continuation.play(tmp_path)
    assert not any(find_differences(played, continuation.resume(tmp_path)))


@pytest.mark.parametrize(
    ("method", "kept"),
    [(Rehearsal, "rewards"), (Rehearsal, "seen"), (OnlineEWC, "anchor")],
)
@pytest.mark.usefixtures("short_periods")
def test_lost_state_shows(
    method: type[Method], kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "rehearsal" if method is Rehearsal else "ewc"
    straight, resumed = (Player(dqn, **SMALL, method=name) for _ in range(2))
    monkeypatch.setattr(method, "SAVED", [n for n in method.SAVED if n != kept])
    for player, stops in ((straight, None), (resumed, {30: tmp_path / "state"})):
        player.visit(1, 60)
        player.visit(2, 60, stops=stops)
    assert describe(straight.state) != describe(resumed.state)


def test_every_method_is_known_by_the_same_name() -> None:
    assert tuple(DEFAULTS) == METHODS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "ewk"}, "method: expected one of none, rehearsal, ewc, redo, shri"),
        ({"method": "ewc", "strength": 0}, "strength: expected null or a number above"),
        ({"strength": 0.5}, "strength: expected a method that it belongs to, found 0"),
        (
            {"method": "rehearsal", "strength": 1},
            "strength: expected a share below 1 for method rehearsal, found 1",
        ),
        (
            {"method": "ewc", "memory": "reset"},
            "memory: expected carry with method ewc, found reset; a method is for one",
        ),
    ],
)
def test_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dqn.init((210, 160, 3), 18, 0, **arguments)


def test_an_older_state_is_loaded(tmp_path: Path) -> None:
    """Saved before there were methods and `restart`."""
    state = play("none", 60)
    dqn.save(state, tmp_path)
    path, text = tmp_path / "state.json", ""
    text = path.read_text()
    for added in (
        ', "memory": "carry"',
        ', "method": "none"',
        ', "strength": null',
        ', "replay.is_cut": false',
    ):
        assert added in text
        text = text.replace(added, "")
    path.write_text(text)
    assert describe(dqn.load(tmp_path)) == describe(state)
