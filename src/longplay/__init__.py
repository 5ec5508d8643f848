"""longplay: a continual-learning benchmark on Atari.

import longplay

result = longplay.run("stream-smoke-v1", "random", seed=0)
print(result.score.final_score)
rewards = longplay.read_run(result.run_dir).events.numpy("reward")["reward"]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longplay.contract.rundir import read_run
    from longplay.experiments.experiment import run
    from longplay.scoring.scores import score_run
    from longplay.validation import validate_run
    from longplay.verify.verification import verify_run

# Imported when first used: importing longplay costs next to nothing.
_HOMES = {
    "read_run": "longplay.contract.rundir",
    "run": "longplay.experiments.experiment",
    "score_run": "longplay.scoring.scores",
    "validate_run": "longplay.validation",
    "verify_run": "longplay.verify.verification",
}

__all__ = ["read_run", "run", "score_run", "validate_run", "verify_run"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'longplay' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
