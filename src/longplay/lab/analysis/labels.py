"""Agents of one table -> distinct labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from longplay.errors import show_name
from longplay.lab.analysis.runs import AgentKey

Named = tuple[AgentKey, Mapping[str, Any]]


def label_agents(agents: Sequence[Named]) -> list[str]:
    """One label per agent, all different.

    Of agents with the same name, a label adds the arguments, isolation or tuning in
    which they differ, and the agent id or a number where that is not enough.

    Args:
        agents: Key and config of each.
    """
    labels = []
    for key, config in agents:
        namesakes = [agent for agent in agents if agent[0].name == key.name]
        extras = _tell_apart((key, config), namesakes)
        label = f"{key.name} ({', '.join(extras)})" if extras else key.name
        labels.append(show_name(label))
    with_ids = [
        f"{label} {(key.agent_id or '')[:6]}".rstrip()
        if labels.count(label) > 1
        else label
        for label, (key, _) in zip(labels, agents, strict=True)
    ]
    return [
        f"{label} #{with_ids[: n + 1].count(label)}"
        if with_ids.count(label) > 1
        else label
        for n, label in enumerate(with_ids)
    ]


def describe_tuning(tuning_frames: int | None) -> str:
    """The tuning budget of an agent."""
    return "unknown" if tuning_frames is None else f"{tuning_frames:,}"


def _tell_apart(agent: Named, namesakes: Sequence[Named]) -> list[str]:
    key, config = agent
    keys = [other for other, _ in namesakes]
    all_args = [_args_of(other) for _, other in namesakes]
    args = _args_of(config)
    names = sorted({name for other in all_args for name in other})
    extras = [
        f"{name}={json.dumps(args[name])}"
        for name in names
        if name in args and any(o.get(name) != args[name] for o in all_args)
    ]
    if len({other.isolation for other in keys}) > 1:
        extras.append(f"isolation {key.isolation}")
    if len({other.tuning_frames for other in keys}) > 1:
        extras.append(f"tuned {describe_tuning(key.tuning_frames)}")
    return extras


def _args_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    args = config.get("args")
    return args if isinstance(args, Mapping) else {}


def describe_seeds(seeds: Sequence[int | None]) -> str:
    """`0–4, 7`; a run without a seed is a `?`."""
    parts: list[str] = []
    known = sorted(seed for seed in seeds if seed is not None)
    start = 0
    for position, seed in enumerate(known):
        if position + 1 < len(known) and known[position + 1] == seed + 1:
            continue
        first = known[start]
        parts.append(str(seed) if first == seed else f"{first}–{seed}")
        start = position + 1
    return ", ".join([*parts, *("?" for seed in seeds if seed is None)])
