"""What each learner's revision is pinned to: its defaults, and how it plays.

`make record` runs this file: it pins learners and revisions that are new. A learner
whose revision is pinned already must play as it did: if it was changed on purpose,
raise its REVISION first.

Sums of learners that need numba differ in the last bits between processors, and one
different action would be another run. So every action of theirs explores, and values
are pinned, not actions.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from all_learners import LEARNERS, WITHOUT_NUMBA, choose, is_predictor, list_defaults
from made_up_squares import play_squares

PINNED = Path(__file__).parents[1] / "learners/revisions.json"
# Added since the first pins, with what was there before as the default.
ADDED = {"memory": "carry", "method": "none", "strength": None}
# Short blocks: the bandit has many of them in each game.
PLAYED = {"block_decisions": 10}
# The pull is stronger, and learning earlier, than by default: both must show.
COMPARED = {"epsilons": (1.0,), "first_update": 20, "pull": 1e-3}


def describe(name: str) -> dict[str, Any]:
    """Revision, defaults and behaviour of a learner."""
    defaults = {
        key: value
        for key, value in list_defaults(name).items()
        if key not in ADDED or value != ADDED[key]
    }
    return {
        "revision": LEARNERS[name].REVISION,
        "defaults": shorten_hash(defaults),
        **_play(name),
    }


def _play(name: str) -> dict[str, Any]:
    """Its actions, where they are the same everywhere, or its last three values."""
    module = LEARNERS[name]
    if name in WITHOUT_NUMBA and not is_predictor(name):
        played = play_squares(module, 1000, **choose(name, PLAYED))
        return {"actions": shorten_hash([int(action) for action, _ in played])}
    decisions = 300 if name in WITHOUT_NUMBA else 60
    played = play_squares(module, decisions, **choose(name, COMPARED))
    # A predictor's answer is the value.
    values = [metrics.get("value", answer) for answer, metrics in played]
    return {"values": [float(f"{value:.6g}") for value in values[-3:]]}


def shorten_hash(value: Any) -> str:
    """The beginning of the SHA-256 of a value's JSON."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def find_change(found: dict[str, Any], pinned: dict[str, Any]) -> str | None:
    """The first thing that is not as it was pinned."""
    for key in pinned | found:
        was, now = pinned.get(key), found.get(key)
        # Not to the last bit: sums differ between processors.
        if was != (pytest.approx(now, rel=1e-3, abs=1e-4) if key == "values" else now):
            return f"{key} were {was}, and are {now}: raise REVISION, then make record"
    return None


def read_pins() -> dict[str, dict[str, Any]]:
    """Name -> what its revision is pinned to."""
    pins: dict[str, dict[str, Any]] = json.loads(PINNED.read_text(encoding="utf-8"))
    return pins


def main() -> None:
    """Adds new learners and revisions; those that are pinned stay."""
    before = read_pins() if PINNED.exists() else {}
    pins = {}
    for name, module in LEARNERS.items():
        pins[name] = before.get(name, {"revision": None})
        if pins[name]["revision"] != module.REVISION:
            pins[name] = describe(name)
    PINNED.write_text(json.dumps(pins, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
