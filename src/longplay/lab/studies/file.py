"""study.toml -> a checked study: agents, suites, seeds and tuning.

    name = "first-study"
    seeds = [2000, 2001, 2002]        # default: the official seeds of each suite

    [[agents]]
    ref = "agents/mine.py"            # as --agent; a file is relative to this one
    name = "mine"                     # in all tables; default: the agent's own name
    args = { epsilon = 0.05 }
    files = ["weights/*"]             # as --agent-files
    isolate = "process"               # as --isolate; also sandbox_allow
    cpus = 2                          # for each run on Ray; also gpus, memory_gb

    [[suites]]
    id = "control-v1"
    set = { base_visit_frames = 5000 }

    [tuning]
    fraction = 0.25                   # of the stream, from its start
    seeds = [1000, 1001]
    metric = "normalised"             # or "reward_rate"

    [tuning.grid.mine]                # [tuning.grid] itself: for every agent
    step_size = [0.1, 0.01]

A list means alternatives only in the grid; everywhere else it is one value.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from longplay.agents.isolation.levels import Isolation
from longplay.contract.documents import Document, IsolationLevel
from longplay.contract.files import describe_invalid, read_bounded
from longplay.errors import ConfigError, DocumentError
from longplay.experiments.job import Needs
from longplay.suites import FIRST_TUNING_SEED

Metric = Literal["normalised", "reward_rate"]

_FORBID = ConfigDict(extra="forbid", populate_by_name=True)


class StudyAgent(Document):
    """One `[[agents]]` entry."""

    model_config = _FORBID

    ref: str = Field(min_length=1, description="As for `--agent`.")
    name: str | None = Field(default=None, min_length=1)
    args: dict[str, Any] = Field(default_factory=dict)
    files: tuple[str, ...] = ()
    isolate: IsolationLevel = "none"
    sandbox_allow: tuple[str, ...] = ()
    cpus: float = Field(default=1.0, gt=0)
    gpus: float = Field(default=0.0, ge=0)
    memory_gb: float | None = Field(default=None, gt=0)

    @property
    def isolation(self) -> Isolation:
        """How it is isolated from the referee."""
        return Isolation(self.isolate, self.sandbox_allow)

    @property
    def needs(self) -> Needs:
        """What each of its runs needs on Ray."""
        return Needs(self.cpus, self.gpus, self.memory_gb)


class StudySuite(Document):
    """One `[[suites]]` entry."""

    model_config = _FORBID

    id: str = Field(min_length=1)
    overrides: dict[str, Any] = Field(default_factory=dict, alias="set")


class StudyTuning(Document):
    """The `[tuning]` table."""

    model_config = _FORBID

    fraction: float = Field(default=0.25, gt=0, lt=1)
    seeds: tuple[int, ...] = Field(min_length=1)
    metric: Metric = "normalised"
    grid: dict[str, Any] = Field(min_length=1)

    def grid_of(self, agent: str) -> dict[str, list[Any]]:
        """The alternatives of an agent: those of all agents, and its own."""
        shared = {k: v for k, v in self.grid.items() if not isinstance(v, dict)}
        return {**shared, **self.grid.get(agent, {})}


class StudyFile(Document):
    """A whole study.toml."""

    model_config = _FORBID

    name: str = Field(min_length=1)
    seeds: tuple[int, ...] | None = Field(default=None, min_length=1)
    agents: tuple[StudyAgent, ...] = Field(min_length=1)
    suites: tuple[StudySuite, ...] = Field(min_length=1)
    tuning: StudyTuning | None = None


def read_study_file(path: Path) -> tuple[StudyFile, str]:
    """Reads and checks a study file; returns it with its SHA-256.

    Raises:
        ConfigError: Names the file, the key, what was expected and what was found.
    """
    try:
        text = read_bounded(path)
        tables = tomllib.loads(text.decode("utf-8"))
        # Validated as JSON: strict types, but a list is a valid tuple.
        file = StudyFile.model_validate_json(json.dumps(tables, allow_nan=False))
        _check_tuning(file)
    except (DocumentError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: expected TOML: {error}") from error
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe_invalid(error)}") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: expected numbers, text, lists and tables: {error}"
        ) from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return file, hashlib.sha256(text).hexdigest()


def _check_tuning(file: StudyFile) -> None:
    tuning = file.tuning
    if tuning is None:
        return
    for seed in tuning.seeds:
        if seed < FIRST_TUNING_SEED:
            raise ConfigError(
                f"tuning.seeds: expected seeds of {FIRST_TUNING_SEED} and above, "
                f"found {seed}; lower ones are for results"
            )
    if shared := set(tuning.seeds) & set(file.seeds or ()):
        raise ConfigError(
            f"seeds: expected none of tuning.seeds, found {min(shared)} in both"
        )
    for name, value in tuning.grid.items():
        if isinstance(value, dict):
            for inner, alternatives in value.items():
                _check_alternatives(f"tuning.grid.{name}.{inner}", alternatives)
        else:
            _check_alternatives(f"tuning.grid.{name}", value)


def _check_alternatives(place: str, found: Any) -> None:
    if not isinstance(found, list) or not found:
        raise ConfigError(
            f"{place}: expected a list of alternatives, found {found!r}; a value that "
            "all runs share belongs into the agent's args"
        )
