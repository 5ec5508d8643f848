"""config.json -> findings: are these the settings that suite and seed determine?

A run names its suite and seed, and everything else about its plan follows from them. So
the plan is derived again and compared, and an edited schedule, other emulator seeds or
a false suite name are found even if the contract hash matches.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from longplay.console.machines import machine_of
from longplay.contract.config import RunConfig
from longplay.contract.files import shorten
from longplay.contract.findings import Finding
from longplay.contract.fingerprint import agent_id
from longplay.errors import ConfigError
from longplay.plan import plan_again, plan_probe

# Fields of config.json that suite and seed determine.
_DERIVED = (
    "suite",
    "track",
    "games",
    "schedule",
    "decision_interval",
    "delay",
    "sticky",
    "life_loss_termination",
    "full_action_space",
    "action_mapping_policy",
    "default_action_idx",
    "scoring_defaults",
    "frame_skip",
    "reward",
    "discount",
    "reference_sha256",
    "emulator_seeds",
    "stop_frame",
    "benchmark_contract_version",
    "benchmark_contract_hash",
    "config_effective",
)


def check_plan(config: RunConfig) -> Iterator[Finding]:
    """Derives a longplay run again from the suite and seed it names."""
    given = config.config_given
    if given is None or config.seed is None or config.suite is None:
        yield _refute("expected suite, seed and config_given, as longplay writes them")
        return
    try:
        plan = plan_again(given, config.seed, config.suite)
        if config.probe is not None:
            games = dict.fromkeys(visit.game_id for visit in config.schedule)
            plan = plan_probe(plan, config.probe, tuple(games))
        derived = plan.config
    except ConfigError as error:
        yield _refute(str(error), "config_given")
        return
    for name in _DERIVED:
        expected, found = getattr(derived, name), getattr(config, name)
        # As text, because to Python 2 is 2.0 and 1 is True.
        if repr(found) != repr(expected):
            yield _refute(
                f"expected {shorten(expected)} from suite and seed, "
                f"found {shorten(found)}",
                name,
            )
    yield from _check_second_delay(config)
    if config.agent is None or config.agent.agent_id != agent_id(config.agent.config):
        yield _refute(
            "expected the agent's config and an agent_id equal to its hash", "agent"
        )


def check_provenance(config: RunConfig) -> Iterator[Finding]:
    """Checks that the facts which longplay always records are there."""
    versions = config.versions or {}
    tools = ["python", "numpy", "longplay"]
    # Games that cannot be played are not those of the plan, which is found there.
    with contextlib.suppress(ConfigError):
        tools.insert(1, machine_of(config.games).name)
    if config.git is None or any(name not in versions for name in tools):
        yield _refute(
            f"expected git and the versions of {', '.join(tools)}", "versions"
        )
    for name in ("rom_md5", "rom_sha256"):
        games = getattr(config, name) or {}
        if set(games) != set(config.games):
            yield _refute(
                f"expected a hash for each of the games, found {sorted(games)}", name
            )


def _check_second_delay(config: RunConfig) -> Iterator[Finding]:
    """Checks the keys where other v1 tools look for the delay first."""
    extra = config.model_extra or {}
    runner = extra.get("runner_config")
    places = {"delay_frames": extra.get("delay_frames", config.delay)}
    if isinstance(runner, dict):
        found = runner.get("delay_frames", config.delay)
        places["runner_config.delay_frames"] = found
    for name, found in places.items():
        if repr(found) != repr(config.delay):
            yield _refute(
                f"expected no other delay than {config.delay}, found {shorten(found)}",
                name,
            )


def _refute(message: str, field: str | None = None) -> Finding:
    return Finding("suite claim", "config.json", message, field=field)
