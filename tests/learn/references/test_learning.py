"""Training: returns by hand, a policy that learns, resuming from a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from longplay.console.base import ConsoleStep
from longplay.console.scripted import ScriptedConsole
from longplay.errors import ConfigError
from longplay.reference.network import ExactNetwork
from references.training.features import LiveInputs
from references.training.fitting import Corpus, FitRecipe, ValueFit
from references.training.freezing import fold_numbers, freeze_network
from references.training.frozen_play import PlayedVisit
from references.training.network import RamNetwork
from references.training.play import Outcomes
from references.training.qlearning import (
    QTraining,
    find_ends,
    lambda_returns,
)
from references.training.recipe import Recipe, ReturnsEnd

SHORT = Recipe(
    timesteps=8192,
    emulators=8,
    rollout_timesteps=16,
    minibatches=2,
    learning_rate=3e-3,
    exploration_share=0.4,
)


class LeverConsole(ScriptedConsole):
    """The memory shows which of two levers pays; a game has 10 timesteps."""

    actions: Sequence[int] = (2, 5)

    def start_visit(self, game_id: str, emulator_seed: int) -> None:
        self._draws = np.random.default_rng(emulator_seed)
        self.reset()

    def reset(self) -> None:
        self._timesteps_left, self._shown = 10, int(self._draws.integers(256))

    def step(self, action: int) -> ConsoleStep:
        pays = self.actions[self._shown >> 7]
        self._timesteps_left -= 1
        self._shown = int(self._draws.integers(256))
        return 4.0 * (action == pays), self._timesteps_left == 0, 1

    def lives(self) -> int:
        return 1

    def ram(self) -> memoryview:
        return memoryview(bytes([self._shown, 9]))


def train(recipe: Recipe) -> QTraining:
    training = QTraining("levers", LeverConsole, (2, 5), recipe)
    while not training.is_done:
        training.advance()
    return training


class LoggingConsole(LeverConsole):
    """Keeps the actions that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[int] = []

    def step(self, action: int) -> ConsoleStep:
        self.given.append(action)
        return super().step(action)


@pytest.mark.parametrize(("hold", "held_share"), [(1, 17 / 18), (8, 17 / 18 / 4.5)])
def test_every_second_emulator_holds_random_actions(
    hold: int, held_share: float
) -> None:
    consoles: list[LoggingConsole] = []

    def make_console() -> LoggingConsole:
        consoles.append(LoggingConsole())
        return consoles[-1]

    # Nothing but exploration: an action differs from the one before in 17 of 18 draws.
    recipe = Recipe(
        timesteps=1, emulators=6, rollout_timesteps=600, exploration_hold=hold
    )
    QTraining("levers", make_console, range(18), recipe).advance()
    shares = [np.mean(np.diff(console.given) != 0) for console in consoles]
    assert np.allclose(shares[::2], 17 / 18, atol=0.06)
    assert np.allclose(shares[1::2], held_share, atol=0.06)


@pytest.mark.parametrize(
    ("returns_end", "ends"),
    [
        ("life", [False, True, True]),
        ("game", [False, False, True]),
        ("never", [False, False, False]),
    ],
)
def test_returns_end_with_a_life_with_a_game_or_never(
    returns_end: ReturnsEnd, ends: list[bool]
) -> None:
    # Nothing happens, a life is lost, the game is over.
    is_over, life_lost = np.array([False, False, True]), np.array([False, True, False])
    outcomes = Outcomes(np.zeros(3), is_over, life_lost)
    assert find_ends(outcomes, returns_end).tolist() == ends


def test_lambda_returns_by_hand() -> None:
    rewards = np.array([[1.0], [0.0], [2.0]], np.float32)
    ends = np.array([[False], [True], [False]])
    next_values = np.array([[4.0], [8.0], [6.0]], np.float32)
    returns = lambda_returns(rewards, ends, next_values, 0.5, 0.25)
    # 2 + ½·6 = 5; the end cuts: 0; 1 + ½·(¼·0 + ¾·4) = 2.5
    assert returns[:, 0].tolist() == [2.5, 0.0, 5.0]


@pytest.fixture(scope="module")
def trained() -> QTraining:
    torch.set_num_threads(1)
    return train(SHORT)


def test_a_policy_learns_which_lever_pays(trained: QTraining) -> None:
    # 40 frames a game: a random policy gets about 20, one that reads the memory 39.
    assert np.mean(trained.recent_scores) > 34


def test_frozen_policy_chooses_as_the_trained_one(trained: QTraining) -> None:
    sample = trained.sample_pairs(2)
    frozen = ExactNetwork(freeze_network(trained.network, sample))
    with torch.no_grad():
        outputs = trained.network(trained.network.read(sample)).numpy()
    found = np.array([frozen.evaluate(pair) for pair in sample])
    assert np.abs(found - outputs).max() < 0.02 * outputs.std()
    assert (found.argmax(1) == outputs.argmax(1)).mean() > 0.98


def test_folding_numbers_into_bits_changes_no_sum() -> None:
    rng = np.random.default_rng(0)
    # a byte with a bit that is always set, one with a bit never set
    current = rng.integers(0, 256, (50, 128), np.uint8)
    current[:, 0] |= 0x20
    current[:, 1] &= 0xF7
    pairs = np.concatenate([current, current[::-1]], axis=1)
    live = LiveInputs()
    live.update(pairs)
    network = RamNetwork(2, live, seed=1)
    with torch.no_grad():
        expected = (network.read(pairs) @ network.weight1 + network.bias1).numpy()
    weights, bias = fold_numbers(network)
    bits = np.unpackbits(pairs, axis=1)[:, live.ids[: live.bit_count]]
    assert np.allclose(bits @ weights + bias, expected, atol=1e-4)


def test_a_network_grows_without_forgetting() -> None:
    live = LiveInputs()
    first = np.zeros((2, 256), np.uint8)
    first[1, [0, 128]] = 1
    live.update(first)
    network = RamNetwork(2, live, seed=1)
    optimiser = torch.optim.RAdam(network.parameters())
    network(network.read(first)).sum().backward()
    optimiser.step()
    with torch.no_grad():
        before = network(network.read(first[:1])).numpy()
    more = first.copy()
    more[1, [7, 135]] = 129
    assert live.update(more)
    network.grow(optimiser)
    with torch.no_grad():
        after = network(network.read(first[:1])).numpy()
    assert len(network.weight1) == 3 * 2 + 2 * 2
    assert np.array_equal(before, after)
    assert optimiser.state[network.weight1]["exp_avg"].shape == network.weight1.shape


def test_training_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    training = QTraining("levers", LeverConsole, (2, 5), SHORT)
    training.advance()
    training.save(tmp_path / "checkpoint")
    resumed = [QTraining("levers", LeverConsole, (2, 5), SHORT) for _ in range(2)]
    for again in resumed:
        again.restore(tmp_path / "checkpoint")
        assert again.timestep == training.timestep
        again.advance()
    first, second = (dict(again.network.named_parameters()) for again in resumed)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["bias1"], training.network.bias1)


@pytest.fixture
def countdown() -> PlayedVisit:
    """A game whose memory tells how far off the one reward at its end is."""
    left = np.tile(np.arange(19, -1, -1, dtype=np.uint8), 100)
    ram = np.zeros((2000, 128), np.uint8)
    ram[:, 0] = left
    return PlayedVisit(ram, np.zeros(2000, np.uint8), 5.0 * (left == 0), left == 0)


def make_fit(visit: PlayedVisit) -> ValueFit:
    corpus = Corpus([visit] * 4, 0.9)
    live = LiveInputs()
    live.update(corpus.rows())
    recipe = FitRecipe(discount=0.9, batch_rows=64, halvings=1, max_epochs=12)
    network = RamNetwork(1, live, seed=0)
    return ValueFit(network, corpus, Corpus([visit], 0.9), recipe)


def test_values_are_fitted_until_the_held_out_error_stays(
    countdown: PlayedVisit,
) -> None:
    fit = make_fit(countdown)
    while not fit.is_done:
        fit.advance()
    with torch.no_grad():
        values = fit.best(fit.best.read(countdown.pairs()[1:20]))[:, 0].numpy()
    # the value k timesteps before the reward of sign 1 is 0.9**k
    assert np.allclose(values, 0.9 ** countdown.ram[1:20, 0], atol=0.06)
    assert min(fit.errors) < 0.01 * fit.errors[0]


def test_a_fit_goes_on_from_its_best_network(
    countdown: PlayedVisit, tmp_path: Path
) -> None:
    fit, again = make_fit(countdown), make_fit(countdown)
    fit.advance()
    fit.save(tmp_path / "fit")
    again.restore(tmp_path / "fit")
    assert again.errors == fit.errors
    assert torch.equal(again.best.weight1, fit.best.weight1)
    again.advance()
    assert len(again.errors) == 3


def test_visits_without_a_known_return_are_refused(countdown: PlayedVisit) -> None:
    endless = countdown._replace(is_over=np.zeros(2000, np.bool_))
    short = PlayedVisit(*(column[:900] for column in endless))
    with pytest.raises(ConfigError, match="found neither in visits of 900"):
        Corpus([short], 0.9)
