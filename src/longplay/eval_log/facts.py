"""A trajectory, agent config or benchmark of any harness -> the values of a record.

    trajectory := id, metadata, summary_stats, reward_info, start_time
                  and, where there is one: end_time, error_type, steps, evidence
    step       := has `output`, or is the output
    output     := has `actions` (an agent's) or `reward` (an environment's), and `error`
    tool       := {"name": …} or {"type": "function", "function": {"name": …}}

A trajectory's own statistics come first. Steps are read only for what these lack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

UNKNOWN_BENCHMARK = "unknown"

_MODEL_NAMES = ("llm_model", "model_name", "model")


# --- agents and benchmarks ----------------------------------------------------------


def find_llm_model(config: Mapping[str, Any]) -> str | None:
    """The language model that an agent's config names.

    It is `llm_model` anywhere, or `model` or `model_name` at the top and inside an
    `llm…` entry. Elsewhere a `model` is usually not a language model: agents keep
    their arguments in `args`.
    """
    return _find_text(config, _MODEL_NAMES) or _find_inner_model(config, False)


def _find_inner_model(config: Mapping[str, Any], inside_llm: bool) -> str | None:
    for name, inner in config.items():
        if isinstance(inner, Mapping):
            is_llm = inside_llm or str(name).startswith("llm")
            names = _MODEL_NAMES if is_llm else _MODEL_NAMES[:1]
            found = _find_text(inner, names) or _find_inner_model(inner, is_llm)
            if found is not None:
                return found
    return None


def _find_text(config: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    values = (config.get(name) for name in names)
    return next((value for value in values if isinstance(value, str)), None)


def name_benchmark_of(benchmark: Any) -> str:
    """The benchmark's own name; `unknown` if it has none."""
    metadata = getattr(benchmark, "benchmark_metadata", None)
    return getattr(metadata, "name", None) or UNKNOWN_BENCHMARK


def find_benchmark_version(benchmark: Any) -> str | None:
    """The benchmark's own version."""
    metadata = getattr(benchmark, "benchmark_metadata", None)
    version = getattr(metadata, "version", None)
    return None if version is None else str(version)


def count_tasks(benchmark: Any) -> int:
    """The tasks of a benchmark; 0 if it lists none."""
    return len(getattr(benchmark, "task_metadata", None) or ())


# --- trajectories -------------------------------------------------------------------


def find_task_id(trajectory: Any, task_metadata: Any, task_config: Any) -> str:
    """The id of a trajectory's task; empty if nothing names the task."""
    given = (trajectory.metadata or {}).get("task_id")
    for owner in (task_config, task_metadata):
        for name in ("task_id", "id"):
            given = given or getattr(owner, name, None)
    return str(given or "")


def find_seed(trajectory: Any, task_config: Any) -> int | None:
    """The seed of the task's config, else of the trajectory's metadata."""
    seed = getattr(task_config, "seed", None)
    return seed if seed is not None else (trajectory.metadata or {}).get("seed")


def list_tool_names(trajectory: Any) -> list[str]:
    """The names of a trajectory's action schemas, in order; nameless ones skipped."""
    names = []
    for tool in (trajectory.metadata or {}).get("action_schemas") or ():
        function = tool.get("function")
        inner = function.get("name") if isinstance(function, Mapping) else None
        if name := inner or tool.get("name"):
            names.append(str(name))
    return names


def find_reward(trajectory: Any) -> float:
    """The reward of a trajectory, else of its last environment output, else 0.0."""
    reward = (trajectory.reward_info or {}).get("reward")
    if reward is None:
        rewards = [getattr(output, "reward", None) for output in _outputs(trajectory)]
        reward = next((r for r in reversed(rewards) if r is not None), None)
    return float(reward or 0.0)


def count_steps(trajectory: Any) -> int:
    """All steps of a trajectory."""
    counted = (trajectory.summary_stats or {}).get("n_steps")
    return int(counted) if counted is not None else sum(1 for _ in _outputs(trajectory))


def count_outputs(trajectory: Any, attribute: str, name: str) -> int:
    """The steps whose output has an attribute: `actions` of an agent, `reward` else.

    A statistic or an attribute of the trajectory of this name comes first.
    """
    for counted in (
        (trajectory.summary_stats or {}).get(name),
        getattr(trajectory, name, None),
    ):
        if counted is not None:
            return int(counted)
    return sum(hasattr(output, attribute) for output in _outputs(trajectory))


def measure_wall_time_s(trajectory: Any) -> float | None:
    """Seconds from start to end."""
    measured = (trajectory.summary_stats or {}).get("wall_time_s")
    if measured is not None:
        return float(measured)
    start, end = trajectory.start_time, getattr(trajectory, "end_time", None)
    return None if start is None or end is None else float(end - start)


def find_error_type(trajectory: Any) -> str | None:
    """The error of the trajectory or its statistics, else the first of its steps."""
    if hasattr(trajectory, "error_type"):
        return None if trajectory.error_type is None else str(trajectory.error_type)
    if error_type := (trajectory.summary_stats or {}).get("error_type"):
        return str(error_type)
    for output in _outputs(trajectory):
        error = getattr(output, "error", None)
        if error is not None:
            return str(getattr(error, "error_type", type(error).__name__))
    return None


def _outputs(trajectory: Any) -> Iterator[Any]:
    for step in getattr(trajectory, "steps", None) or ():
        yield getattr(step, "output", step)
