"""Runs of one agent, and their probes -> what it has learned, kept and forgotten.

Results are divided by u - b where a suite has anchors; games without are then left out.
Every number is a mean over the pairs of a run, then over runs: Student's t below 30
runs. The share forgotten is a ratio of sums over runs, with a jackknife over runs. The
numbers of one run have standard errors over branches instead: how well that run's
numbers are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from longplay.errors import DocumentError
from longplay.lab.analysis.comparison import runs_by_label
from longplay.lab.analysis.intervals import (
    Estimate,
    Reals,
    estimate_mean,
    estimate_ratio,
    standard_error,
)
from longplay.lab.analysis.records import (
    Amount,
    Comparison,
    MatrixCell,
    MemoryNumbers,
    PairNumbers,
    RunMemory,
    SuiteComparison,
)
from longplay.lab.analysis.runs import FoundRuns, MeasuredRun
from longplay.lab.probes.memory import (
    KINDS,
    SIGNIFICANT_ERRORS,
    Memory,
    Pair,
    find_memory,
)
from longplay.lab.probes.reading import (
    ProbeOpener,
    RunProbes,
    open_directory,
    read_probes,
)
from longplay.scoring.anchors import Anchors
from longplay.scoring.normalisation import make_scale

# Why a number is not there.
_NO_PAIR = "no pair of states was probed"
_LITTLE = "what was learned is not above two standard errors"

Unit = Literal["z", "reward per frame", "-mse / variance"]


@dataclass(frozen=True)
class Probed:
    """A run with probes.

    Attributes:
        seed: Its seed.
        memory: Its pairs.
        probes: The results themselves.
    """

    seed: int | None
    memory: Memory
    probes: RunProbes


def add_memory(
    comparison: Comparison,
    found: FoundRuns,
    anchors: Anchors,
    open_probe: ProbeOpener = open_directory,
) -> Comparison:
    """A comparison with the numbers of probes, where runs have them.

    Args:
        comparison: Of these runs.
        found: The runs.
        anchors: The anchors that define z.
        open_probe: Opens a probe.

    Raises:
        DocumentError: A probe is damaged.
    """
    suites = tuple(
        _add_to_suite(suite, runs_by_label(found, suite), anchors, open_probe)
        for suite in comparison.suites
    )
    return comparison.model_copy(update={"suites": suites})


def _add_to_suite(
    suite: SuiteComparison,
    runs: Mapping[str, Sequence[MeasuredRun]],
    anchors: Anchors,
    open_probe: ProbeOpener,
) -> SuiteComparison:
    spans = find_spans(suite, anchors)
    unit: Unit = "reward per frame" if spans is None else "z"
    if suite.error is not None:
        unit = "-mse / variance"
    agents = []
    for agent in suite.agents:
        probed = list(_read_all(runs.get(agent.label, ()), spans, open_probe))
        memory = measure_memory(probed, suite.games, unit, spans) if probed else None
        agents.append(agent.model_copy(update={"memory": memory}))
    return suite.model_copy(update={"agents": tuple(agents)})


def find_spans(suite: SuiteComparison, anchors: Anchors) -> dict[str, float] | None:
    """Game -> u - b, of the games that have it; None if results stay as they are."""
    scale = make_scale(anchors, suite.suite, suite.games, suite.emulator)
    if suite.error is not None or not scale.has_z.any():
        return None
    known = zip(scale.games, scale.has_z.tolist(), scale.span.tolist(), strict=True)
    return {game: span for game, has_z, span in known if has_z}


def _read_all(
    runs: Sequence[MeasuredRun],
    spans: Mapping[str, float] | None,
    open_probe: ProbeOpener,
) -> Iterator[Probed]:
    for run in runs:
        probes = read_probes(run.path, run.chain_head, open_probe)
        if probes is not None:
            schedule = run.config.played_schedule
            memory = find_memory(schedule, probes.matrix, spans)
            yield Probed(run.seed, memory, probes)


def measure_memory(
    runs: Sequence[Probed],
    games: Sequence[str],
    unit: Unit = "reward per frame",
    spans: Mapping[str, float] | None = None,
) -> MemoryNumbers:
    """The numbers of one agent's runs.

    Args:
        runs: At least one, all of one size.
        games: The games, in the order of the suite.
        unit: The unit of all numbers.
        spans: Game -> u - b, by which results were divided.

    Raises:
        DocumentError: Their probes have different sizes.
    """
    sizes = {(run.probes.branches, run.probes.frames) for run in runs}
    if len(sizes) > 1:
        raise DocumentError(
            "probes of one agent: expected one size, found (branches, frames) "
            f"{', '.join(map(str, sorted(sizes)))}; probe all runs alike"
        )
    ((branches, frames),) = sizes
    numbers, absent = estimate_memory([run.memory for run in runs])
    own = {game: [_only(run.memory, game) for run in runs] for game in games}
    return MemoryNumbers(
        unit=unit,
        branches=branches,
        frames=frames,
        seeds=tuple(run.seed for run in runs),
        numbers=numbers,
        games={g: e for g, memories in own.items() if (e := _estimate_kinds(memories))},
        runs=tuple(map(_measure_run, runs)),
        pairs=tuple(pair for run in runs for pair in _list_pairs(run)),
        matrix=tuple(cell for run in runs for cell in _list_cells(run, games, spans)),
        absent=absent,
    )


def estimate_memory(
    memories: Sequence[Memory],
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Numbers over runs; and why a number is not there."""
    numbers = _estimate_kinds(memories)
    absent = {kind: _NO_PAIR for kind in KINDS if kind not in numbers}
    share, reason = _estimate_share(memories)
    if share is None:
        absent["share_forgotten"] = reason
    else:
        numbers["share_forgotten"] = share
    return numbers, absent


def _estimate_kinds(memories: Sequence[Memory]) -> dict[str, Estimate]:
    """Number -> its mean over the runs that have it."""
    found = {}
    for kind in KINDS:
        means = [_mean_of(getattr(memory, kind)) for memory in memories]
        estimate = estimate_mean([mean for mean in means if mean is not None])
        if estimate is not None:
            found[kind] = estimate
    return found


def _mean_of(pairs: Sequence[Pair]) -> float | None:
    if not pairs:
        return None
    return sum(float(pair.difference.mean()) for pair in pairs) / len(pairs)


def _estimate_share(memories: Sequence[Memory]) -> tuple[Estimate | None, str]:
    """The share forgotten over runs; or why there is none."""
    pairs = [memory.sums for memory in memories if memory.forgetting]
    if not pairs:
        return None, _NO_PAIR
    if len(pairs) == 1:
        (memory,) = (memory for memory in memories if memory.forgetting)
        share = memory.share_forgotten
        return (None, _LITTLE) if share is None else (Estimate(mean=share, n=1), "")
    forgotten, learned = zip(*pairs, strict=True)
    error = standard_error(learned)
    assert error is not None  # there are two
    if sum(learned) / len(learned) <= SIGNIFICANT_ERRORS * error:
        return None, _LITTLE
    return estimate_ratio(forgotten, learned), ""


def _only(memory: Memory, game: str) -> Memory:
    """The pairs of one game."""
    return Memory(
        *(
            tuple(pair for pair in getattr(memory, kind) if pair.game == game)
            for kind in KINDS
        )
    )


def _measure_run(run: Probed) -> RunMemory:
    return RunMemory(
        seed=run.seed,
        numbers={
            kind: Amount(mean=mean.mean, error=mean.error)
            for kind in KINDS
            if (mean := run.memory.mean(kind)) is not None
        },
        share_forgotten=run.memory.share_forgotten,
    )


def _list_pairs(run: Probed) -> Iterator[PairNumbers]:
    for kind in KINDS:
        for pair in getattr(run.memory, kind):
            yield PairNumbers(
                seed=run.seed,
                kind=kind,
                game=pair.game,
                state=pair.state,
                other=pair.other,
                amount=_average(pair.difference),
            )


def _list_cells(
    run: Probed, games: Sequence[str], spans: Mapping[str, float] | None
) -> Iterator[MatrixCell]:
    for state in run.probes.places:
        for game in games:
            values = run.probes.matrix.get((state, game))
            span = 1.0 if spans is None else spans.get(game)
            if values is not None and span is not None:
                amount = _average(values / span)
                yield MatrixCell(seed=run.seed, state=state, game=game, amount=amount)


def _average(values: Reals) -> Amount:
    return Amount(mean=float(values.mean()), error=standard_error(values))
