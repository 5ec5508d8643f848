"""One run seed -> independent seeds, one per purpose.

Every generator of a run is made from these; nothing draws from global random state.
Each purpose has its own spawn key of NumPy's, so adding one never changes another.
"""

from __future__ import annotations

import numpy as np

from longplay.errors import ConfigError

MAX_SEED = 2**31 - 1

# 3 and 4 are used in making references.
_EMULATOR, _AGENT, _POLICY = 0, 1, 2
_BRANCH_EMULATOR, _BRANCH_POLICY = 5, 6


def check_seed(seed: object) -> int:
    """Returns the seed if it is an int in 0 … 2**31 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ConfigError(f"seed: expected an int, found {seed!r}")
    if not 0 <= seed <= MAX_SEED:
        raise ConfigError(f"seed: expected 0 … {MAX_SEED}, found {seed}")
    return seed


def _derive(seed: int, *spawn_key: int) -> int:
    sequence = np.random.SeedSequence(seed, spawn_key=spawn_key)
    # 31 bits: ALE takes its seed as a signed 32-bit int.
    return int(sequence.generate_state(1, np.uint32)[0] >> 1)


def emulator_seed(run_seed: int, visit_idx: int) -> int:
    """The seed of the emulator that plays one visit."""
    return _derive(run_seed, _EMULATOR, visit_idx)


def agent_seed(run_seed: int) -> int:
    """The seed given to the agent."""
    return _derive(run_seed, _AGENT)


def policy_seed(run_seed: int, visit_idx: int) -> int:
    """The seed of the reference policy that plays one visit."""
    return _derive(run_seed, _POLICY, visit_idx)


def branch_emulator_seed(run_seed: int, game_idx: int, branch: int) -> int:
    """The seed of the emulator that plays one branch of a probe.

    Args:
        run_seed: The seed of the run that is probed.
        game_idx: Position of the game in the suite's games.
        branch: Number of the branch of that game, from 0.
    """
    return _derive(run_seed, _BRANCH_EMULATOR, game_idx, branch)


def branch_policy_seed(run_seed: int, game_idx: int, branch: int) -> int:
    """The seed of the reference policy that plays one branch of a probe."""
    return _derive(run_seed, _BRANCH_POLICY, game_idx, branch)
