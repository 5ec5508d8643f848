"""The documents of a run -> findings: do they agree, with each other and the plan?

A run names its suite and seed, and everything else about its plan follows from them. So
the plan is derived again and compared, and an edited schedule, other emulator seeds or
a false suite name are found even if the contract hash matches.

`check_agreement` checks everything that can be checked without reading rows, before an
export writes a line: the plan, request and experiment against the settings, totals
against the visits, their rewards against the curves, and files against the lengths and
hashes in run_summary.json.
`validate` and `verify` read the rows as well.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from longplay.console.machines import machine_of
from longplay.contract.config import RunConfig
from longplay.contract.curves import CURVES_FILE, parse_curve_rows
from longplay.contract.digests import read_last_chain
from longplay.contract.documents import (
    ControlScore,
    Document,
    RunStatus,
    RunSummary,
    Score,
)
from longplay.contract.files import hash_file, read_bounded, read_document, shorten
from longplay.contract.findings import Finding, Kind
from longplay.contract.fingerprint import agent_id
from longplay.contract.layout import (
    EXPERIMENT_CONFIG,
    RUN_REQUEST,
    ExperimentConfig,
    RunRequest,
)
from longplay.contract.rundir import RunDirectory
from longplay.errors import ConfigError, DocumentError
from longplay.plan import name_benchmark, name_trajectory, plan_again, plan_probe

# Counts in run_summary.json, for the run and for each visit.
COUNTS = ("frames", "decision_frames", "emulator_frames", "episodes")
# Relative difference up to which two tools' sums of the same rewards may differ.
_TOLERANCE = 1e-12

# Field -> what it must be, and what it is.
Pairs = Mapping[str, tuple[Any, Any]]


def compare(kind: Kind, file: str, source: str, pairs: Pairs) -> Iterator[Finding]:
    """The fields of a document that are not what follows from another source."""
    for field, (expected, found) in pairs.items():
        if not is_equal(expected, found):
            message = (
                f"expected {shorten(expected)} from {source}, found {shorten(found)}"
            )
            yield Finding(kind, file, message, field=field)


def is_equal(expected: Any, found: Any) -> bool:
    """Whether two values of documents are equal, up to the rounding of sums."""
    if isinstance(expected, Document) and isinstance(found, Document):
        return is_equal(dict(expected), dict(found))
    if isinstance(expected, tuple) and isinstance(found, tuple):
        return len(expected) == len(found) and all(map(is_equal, expected, found))
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return expected.keys() == found.keys() and all(
            is_equal(expected[key], found[key]) for key in expected
        )
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(expected, found, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(expected == found)


# --- config.json against suite and seed -------------------------------------------

# Fields of config.json that suite and seed determine.
_DERIVED = tuple(
    """
    suite track games schedule decision_interval delay sticky life_loss_termination
    full_action_space action_mapping_policy default_action_idx scoring_defaults
    frame_skip reward discount reference_sha256 emulator_seeds stop_frame
    benchmark_contract_version benchmark_contract_hash config_effective
    """.split()
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


# --- Documents against each other -------------------------------------------------


def check_agreement(run: RunDirectory, experiment: ExperimentConfig | None) -> None:
    """Checks the documents of a run that has ended.

    Args:
        run: The run.
        experiment: The plan of its experiment.

    Raises:
        DocumentError: Names the file and the field of the first contradiction.
    """
    for finding in _find_contradictions(run, experiment):
        raise DocumentError(str(finding))


def _find_contradictions(
    run: RunDirectory, experiment: ExperimentConfig | None
) -> Iterator[Finding]:
    summary, is_complete = run.summary, True
    if run.status is not None:
        is_complete = run.status.state == "COMPLETED"
    if run.has_config:
        yield from check_plan(run.config)
        yield from _check_request(run)
        if experiment is not None:
            yield from _check_experiment(run.config, experiment)
        if summary is not None:
            yield from _check_totals(run.config, summary, is_complete)
    if summary is not None and summary.rows is not None:
        yield from _check_sizes(run, summary)
        yield from check_chain_head(run.path, summary)
        yield from _check_rewards(run.path / CURVES_FILE, summary)
    if run.status is not None and is_complete:
        yield from check_status(run.config, run.status)
        if summary is not None:
            yield from check_result(run.path, run.config, summary)
        if summary is not None and run.score is not None and not run.config.is_tuning:
            yield from _check_score(run.config, summary, run.score)


def _check_request(run: RunDirectory) -> Iterator[Finding]:
    if not (run.path / RUN_REQUEST).exists():
        return
    config, request = run.config, read_document(run.path / RUN_REQUEST, RunRequest)
    trajectory_id = name_trajectory(config.suite or "", config.seed or 0)
    names = ("seed", "suite", "config_given", "agent")
    pairs = {name: (getattr(config, name), getattr(request, name)) for name in names}
    pairs["trajectory_id"] = (trajectory_id, request.trajectory_id)
    yield from compare("suite claim", RUN_REQUEST, "config.json", pairs)


def _check_experiment(config: RunConfig, plan: ExperimentConfig) -> Iterator[Finding]:
    pairs = {
        "suite": (plan.suite, name_benchmark(config)),
        "config_given": (plan.config_given, config.config_given),
        "agent": (plan.agent, config.agent),
    }
    yield from compare("suite claim", "config.json", EXPERIMENT_CONFIG, pairs)


def _check_totals(
    config: RunConfig, summary: RunSummary, is_complete: bool
) -> Iterator[Finding]:
    visits, planned = summary.visits, config.played_schedule
    totals = {
        name: (sum(getattr(visit, name) for visit in visits), getattr(summary, name))
        for name in COUNTS
    }
    yield from compare("summary", "run_summary.json", "its visits", totals)
    pairs: dict[str, tuple[Any, Any]] = {}
    if len(visits) > len(planned) or (is_complete and len(visits) < len(planned)):
        message = f"expected {len(planned)} from config.json, found {len(visits)}"
        yield Finding("summary", "run_summary.json", message, field="visits")
    for position, (visit, due) in enumerate(zip(visits, planned, strict=False)):
        for name in ("visit_idx", "cycle_idx", "game_id"):
            both = (getattr(due, name), getattr(visit, name))
            pairs[f"visits.{position}.{name}"] = both
        if is_complete:
            pairs[f"visits.{position}.frames"] = (due.visit_frames, visit.frames)
    yield from compare("summary", "run_summary.json", "config.json", pairs)


def _check_sizes(run: RunDirectory, summary: RunSummary) -> Iterator[Finding]:
    for name, recorded in (summary.rows or {}).items():
        path = run.path / name
        found = path.stat().st_size if path.is_file() else None
        pairs = {"length in bytes": (recorded.bytes, found)}
        yield from compare("summary", name, "run_summary.json", pairs)


def check_chain_head(run_dir: Path, summary: RunSummary) -> Iterator[Finding]:
    """Compares the head of the chain with the last row of digests.jsonl."""
    path = run_dir / "digests.jsonl"
    if path.is_file():
        pairs = {"chain_head": (read_last_chain(path), summary.chain_head)}
        yield from compare("summary", "run_summary.json", path.name, pairs)


def _check_rewards(curves: Path, summary: RunSummary) -> Iterator[Finding]:
    """Checks the rewards of the visits against the sums over their windows."""
    rows = parse_curve_rows(read_bounded(curves)) if curves.is_file() else []
    for position, (visit, row) in enumerate(zip(summary.visits, rows, strict=False)):
        total = math.fsum(row.reward_sums)
        # Rewards that are not whole numbers were added in another order.
        if not math.isclose(total, visit.reward_sum, rel_tol=1e-9, abs_tol=1e-6):
            pairs = {f"visits.{position}.reward_sum": (total, visit.reward_sum)}
            yield from compare("summary", "run_summary.json", CURVES_FILE, pairs)


def check_status(config: RunConfig, status: RunStatus) -> Iterator[Finding]:
    """Compares status.json of a complete run with the schedule."""
    names = ("frame", "frames_total")
    pairs = {name: (config.total_frames, getattr(status, name)) for name in names}
    yield from compare("state", "status.json", "config.json", pairs)


def check_result(
    run_dir: Path, config: RunConfig, summary: RunSummary
) -> Iterator[Finding]:
    """Compares the hash of the run's result with the recorded one."""
    path = run_dir / config.result_file
    if summary.score_sha256 and path.is_file():
        pairs = {"score_sha256": (hash_file(path), summary.score_sha256)}
        yield from compare("summary", "run_summary.json", path.name, pairs)


def _check_score(
    config: RunConfig, summary: RunSummary, score: Score
) -> Iterator[Finding]:
    names = ("benchmark_contract_version", "benchmark_contract_hash")
    pairs: dict[str, tuple[Any, Any]] = {
        "frames": (config.total_frames, score.frames),
        "complete": (True, score.complete),
        **{name: (getattr(config, name), getattr(score, name)) for name in names},
    }
    yield from compare("score", "score.json", "config.json", pairs)
    if isinstance(score, ControlScore):
        sums = _sums(summary, score)
        yield from compare("score", "score.json", "run_summary.json", sums)


def _sums(summary: RunSummary, score: ControlScore) -> dict[str, tuple[Any, Any]]:
    """The totals of a control run: by the visits' sums, and as scored."""
    pairs: dict[str, tuple[Any, Any]] = {}
    for name, source in (
        ("cumulative_reward", "reward_sum"),
        ("cumulative_game_score", "game_reward_sum"),
    ):
        per_game: dict[str, float] = {}
        for visit in summary.visits:
            total = per_game.get(visit.game_id, 0.0) + getattr(visit, source)
            per_game[visit.game_id] = total
        pairs[name] = (math.fsum(per_game.values()), getattr(score, name))
        found = getattr(score, f"per_game_{name}")
        for game_id in {**per_game, **found}:
            field = f"per_game_{name}.{game_id}"
            pairs[field] = (per_game.get(game_id), found.get(game_id))
    return pairs
