"""Plays the runs of results/, packs them, collects their numbers, verifies the packs.

    python tools/results.py play [--suite S] [--agent A] [--folder runs/results]
    python tools/results.py collect
    python tools/results.py verify [--sample N] [--workers N] [--verdicts DIR]

`play` plays what is missing on the official seeds, one run after the other, and can be
stopped and restarted: a run that was started is resumed, and a run whose pack exists is
never played again. Where the plan says so, a run keeps the agent's state at the end of
every visit, and is probed. `results/manifest.json` lists the packs, their hashes and
scores. The arguments of agents were chosen on tuning seeds (`tools/tuning`).
`collect` writes the numbers of new packs into the package; nothing is replayed.
`verify` replays every pack and those of its probes, on all cores, and compares rows and
curves with the pack, and the pack with the manifest.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from pydantic import Field

import longplay.lab.analysis
from longplay.contract.documents import SCHEMA_VERSION, Document
from longplay.contract.files import read_document, write_document
from longplay.contract.layout import probes_of
from longplay.contract.names import name_agent
from longplay.contract.rundir import RunDirectory
from longplay.errors import LongplayError, PackError
from longplay.lab.analysis.results import (
    NON_LEARNERS,
    RATES,
    RESULTS_FILE,
    ByGame,
    ResultRun,
    Results,
)
from longplay.lab.analysis.runs import MeasuredRun, RunReader
from longplay.lab.report.site.verdicts import (
    Judge,
    Verdict,
    check_verdict_folder,
    open_pack,
)
from longplay.learners.parts.limits import MEMORIES, METHODS
from longplay.suites import SUITES, get_suite
from longplay.verify.pack import pack_run, replayed_pack
from longplay.verify.verification import Verification
from measured_runs import ROOT, Job, measure, run_longplay

RESULTS = ROOT / "results"
_ERRORS = ("nmse", "value_nmse")
SHIPPED = Path(longplay.lab.analysis.__file__).parent / "data" / RESULTS_FILE

LEARNERS = ("linear-sarsa", "stream-q", "stream-q-l2init", "dqn")
PREDICTORS = ("linear-td", "stream-td")
SPECIALIST = "stream-q"
SPECIALIST_SEEDS = (0, 1, 2)
SPECIALIST_FRAMES = 600_000
# (agent, method) -> arguments that tuning has chosen (tools/tuning/chosen.md), without
# those that are defaults.
TUNED: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("linear-sarsa", "none"): {"step_size": 0.1},
    ("linear-prost", "none"): {},
    ("dqn", "none"): {},
    ("dqn", "rehearsal"): {"strength": 0.25},
}
# They have no settings, or those of earlier results.
_NOT_TUNED = (*NON_LEARNERS, "blind", "linear-td")
# Learner -> the memory that tuning has chosen, for the agents of the goals.
CHOSEN_MEMORY: Mapping[str, str] = {
    "linear-sarsa": "reset",
    "linear-prost": "library",
    "dqn": "library",
}
# (agent, method) -> timesteps that were played to choose them.
TUNING_TIMESTEPS: Mapping[tuple[str, str], int] = {
    ("linear-sarsa", "none"): 972_000,
    ("linear-prost", "none"): 972_000,
    ("dqn", "none"): 972_000,
    ("dqn", "rehearsal"): 486_000,
}
# Suite -> agents whose memory is probed, among those that learn and keep something.
PROBED: Mapping[str, tuple[str, ...]] = {
    "control-3x3-v1": ("blind", "linear-sarsa", "linear-prost", "dqn"),
    "control-6x3-v1": ("linear-prost",),
    "prediction-6x3-v1": ("lstd-td", "linear-td"),
}
# Suite -> branches and their frames, where a pilot has chosen others than the defaults
# (docs/probes.md).
PROBE_SIZES: Mapping[str, tuple[int, int]] = {
    "control-3x3-v1": (3, 2_000),
    "control-6x3-v1": (3, 2_000),
}


@dataclass(frozen=True)
class Variant:
    """An agent with the arguments that its results are named after.

    Attributes:
        agent: The agent's name.
        memory: The argument of this name.
        method: The argument of this name; "none" for learners that have no methods.
        is_tuned: Whether it has the settings of `TUNED`; agents of earlier results do
            not.
    """

    agent: str
    memory: str = "carry"
    method: str = "none"
    is_tuned: bool = True

    @property
    def name(self) -> str:
        """Such as `dqn`, `dqn-rehearsal` or `linear-prost-library`."""
        parts = [self.agent]
        parts += [] if self.method == "none" else [self.method]
        parts += [] if self.memory == "carry" else [self.memory]
        return "-".join(parts)

    @property
    def waits_for_tuning(self) -> bool:
        """Whether its settings are still to be chosen."""
        is_settled = not self.is_tuned or self.agent in _NOT_TUNED
        return not is_settled and (self.agent, self.method) not in TUNED

    @property
    def args(self) -> dict[str, Any]:
        """Those that are not the defaults, and what tuning has chosen."""
        own = {"memory": self.memory, "method": self.method}
        usual = {"memory": "carry", "method": "none"}
        chosen = TUNED.get((self.agent, self.method), {}) if self.is_tuned else {}
        return {k: v for k, v in own.items() if v != usual[k]} | dict(chosen)

    @property
    def tuning_timesteps(self) -> int | None:
        """Timesteps that were played to choose its arguments; a method's come on top.

        None for an agent that was not tuned in `tools/tuning`.
        """
        if not self.is_tuned:
            return None
        keys = dict.fromkeys(((self.agent, "none"), (self.agent, self.method)))
        played = [TUNING_TIMESTEPS[key] for key in keys if key in TUNING_TIMESTEPS]
        return sum(played) if played else None


@dataclass(frozen=True)
class PlannedRun:
    """One run of the results.

    Attributes:
        suite_id: The suite it is played on.
        variant: The agent.
        seed: An official seed.
        game: The only game of a specialist; None for a run of the whole suite.
        is_probed: Whether it is measured what the agent keeps.
    """

    suite_id: str
    variant: Variant
    seed: int
    game: str | None = None
    is_probed: bool = False

    @property
    def name(self) -> str:
        """The path of its pack in results/, without the ending."""
        if self.game is None:
            return f"{self.suite_id}/{self.variant.name}/seed-{self.seed}"
        return f"specialists/{self.game}/seed-{self.seed}"

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that make a suite of one long visit."""
        if self.game is None:
            return ()
        frames = f"base_visit_frames={SPECIALIST_FRAMES}"
        return (f'games=["{self.game}"]', "num_cycles=1", frames, "jitter_pct=0")

    def make_job(self, folder: Path) -> Job:
        """What plays it."""
        return Job(
            self.suite_id,
            self.variant.agent,
            self.seed,
            folder / self.name,
            self.settings,
            agent_args=self.variant.args,
            keeps_states=self.is_probed,
            name=None if self.variant.name == self.variant.agent else self.variant.name,
            tuning_frames=self.variant.tuning_timesteps,
        )


def _with_memories(agent: str) -> tuple[Variant, ...]:
    return tuple(Variant(agent, memory) for memory in MEMORIES)


def _with_defaults(*agents: str) -> tuple[Variant, ...]:
    return tuple(Variant(agent, is_tuned=False) for agent in agents)


# Suite -> agents, in the order in which they are played.
PLAN: Sequence[tuple[str, tuple[Variant, ...]]] = (
    ("control-v1", _with_defaults(*NON_LEARNERS, *LEARNERS)),
    ("stream-3x2-v1", _with_defaults(*NON_LEARNERS, *LEARNERS)),
    ("control-6x3-v1", _with_defaults(*NON_LEARNERS, *LEARNERS[:-1])),
    ("stream-8x3-v1", _with_defaults(*NON_LEARNERS, "linear-sarsa")),
    ("prediction-v1", _with_defaults(*PREDICTORS)),
    (
        "control-3x3-v1",
        (
            *map(Variant, (*NON_LEARNERS, "blind")),
            *_with_memories("linear-sarsa"),
            *_with_memories("linear-prost"),
            *_with_memories("dqn"),
            *(Variant("dqn", method=method) for method in METHODS[1:]),
        ),
    ),
    (
        "control-6x3-v1",
        (
            *_with_memories("linear-prost"),
            Variant("linear-sarsa", "reset"),
            Variant("dqn"),
            Variant("blind"),
        ),
    ),
    ("control-v1", (Variant("linear-prost"), Variant("blind"))),
    (
        "stream-3x2-v1",
        (
            *(Variant("linear-prost"), Variant("blind")),
            Variant("dqn", method="rehearsal"),
        ),
    ),
    ("prediction-v1", (Variant("lstd-td"), Variant("lstd-td", "reset"))),
    ("prediction-6x3-v1", (*_with_memories("lstd-td"), Variant("linear-td"))),
)


def is_probed(suite_id: str, variant: Variant) -> bool:
    """Whether it is measured what an agent keeps.

    `reset` keeps nothing by construction, and what does not learn has nothing to keep.
    """
    if variant.memory == "reset" or variant.agent in NON_LEARNERS:
        return False
    return variant.agent in PROBED.get(suite_id, ())


def plan() -> Iterator[PlannedRun]:
    """All runs, in the order in which they are played."""
    for suite_id, variants in PLAN:
        for variant in variants:
            for seed in get_suite(suite_id).official_seeds:
                probed = is_probed(suite_id, variant)
                yield PlannedRun(suite_id, variant, seed, is_probed=probed)
    for game in get_suite("stream-8x3-v1").games:
        for seed in SPECIALIST_SEEDS:
            (variant,) = _with_defaults(SPECIALIST)
            yield PlannedRun("stream-8x3-v1", variant, seed, game)


class PackedRun(Document):
    """A pack of results/."""

    path: str = Field(description="Relative to the manifest.")
    sha256: str
    bytes: int
    suite: str = Field(description="As in config.json; a specialist's has a hash.")
    agent: str
    agent_id: str
    seed: int
    contract_hash: str
    headline: float | None = Field(description="The track's own, from score.json.")


class PackedProbe(Document):
    """A pack of a probe: what the agent of a run knew at one moment."""

    path: str = Field(description="Relative to the manifest.")
    sha256: str
    bytes: int
    run: str = Field(description="The path of the run's pack.")
    state: str = Field(description="`fresh`, or `visit-<n>` after that visit.")


class Manifest(Document):
    """The content of `results/manifest.json`."""

    schema_version: int = SCHEMA_VERSION
    packs: tuple[PackedRun, ...] = ()
    probes: tuple[PackedProbe, ...] = Field(default=(), exclude_if=lambda v: not v)


def read_manifest(results: Path) -> Manifest:
    path = results / "manifest.json"
    return read_document(path, Manifest) if path.exists() else Manifest()


def describe_pack(path: Path, run: RunDirectory) -> PackedRun:
    """The manifest's entry of a pack, from the pack and the run's documents."""
    config, content = run.config, path.read_bytes()
    if config.agent is None or config.suite is None or config.seed is None:
        sys.exit(f"{path}: its config.json lacks agent, suite or seed")
    agent, args = name_agent(config.agent.config), config.agent.config["args"]
    own = {key: args[key] for key in ("memory", "method") if key in args}
    game = None if config.suite in SUITES else config.games[0]
    planned = PlannedRun(config.suite, Variant(agent, **own), config.seed, game)
    return PackedRun(
        path=f"{planned.name}.longplay",
        sha256=hashlib.sha256(content).hexdigest(),
        bytes=len(content),
        suite=config.suite,
        agent=agent,
        agent_id=config.agent.agent_id,
        seed=config.seed,
        contract_hash=config.benchmark_contract_hash,
        headline=run.score.headline if run.score else None,
    )


def add_pack(results: Path, name: str, run: RunDirectory) -> None:
    """Verifies and packs a run, and lists it in the manifest."""
    target = write_pack(results, name, run.path)
    packed = describe_pack(target, run)
    with FileLock(results / ".lock"):  # two processes may play
        manifest = read_manifest(results)
        packs = {known.path: known for known in manifest.packs} | {packed.path: packed}
        ordered = tuple(packs[path] for path in sorted(packs))
        write_manifest(results, manifest.model_copy(update={"packs": ordered}))


def add_probes(results: Path, name: str, folder: Path) -> None:
    """Verifies and packs the probes of a run, and lists them once all are there."""
    added = []
    home = probes_of(results / f"{name}.longplay")
    place = home.relative_to(results.absolute()).as_posix()
    for run_dir in sorted(find_probes(folder)):
        state = run_dir.name
        content = write_pack(results, f"{place}/{state}", run_dir).read_bytes()
        added.append(
            PackedProbe(
                path=f"{place}/{state}.longplay",
                sha256=hashlib.sha256(content).hexdigest(),
                bytes=len(content),
                run=f"{name}.longplay",
                state=state,
            )
        )
    with FileLock(results / ".lock"):
        manifest = read_manifest(results)
        probes = {probe.path: probe for probe in (*manifest.probes, *added)}
        ordered = tuple(probes[path] for path in sorted(probes))
        write_manifest(results, manifest.model_copy(update={"probes": ordered}))


def find_probes(folder: Path) -> Iterator[Path]:
    """The run directories of the probes of an experiment."""
    return (path for path in folder.glob("probes/*/*") if path.is_dir())


def write_pack(results: Path, name: str, run_dir: Path) -> Path:
    """Verifies and packs a run, unless an interrupted try has done so."""
    target = results / f"{name}.longplay"
    target.parent.mkdir(parents=True, exist_ok=True)
    # A pack that is not listed was written just before an interruption.
    if not target.exists():
        pack_run(run_dir, target)
    return target


def write_manifest(results: Path, manifest: Manifest) -> None:
    write_document(results / "manifest.json", manifest)


def play(runs: Sequence[PlannedRun], folder: Path, results: Path) -> None:
    """Plays, probes and packs what is missing.

    Ends with an error, before anything is played, if settings are still to be chosen:
    an official seed is played once.
    """
    waiting = dict.fromkeys(r.variant.name for r in runs if r.variant.waits_for_tuning)
    if waiting:
        sys.exit(
            f"tuning has not chosen the settings of {', '.join(waiting)}; "
            "name other runs with --suite and --agent"
        )
    manifest = read_manifest(results)
    known = {packed.path for packed in manifest.packs}
    probed = {probe.run for probe in manifest.probes}
    missing = [run for run in runs if f"{run.name}.longplay" not in known]
    print(f"{len(runs) - len(missing)} of {len(runs)} packs are there", flush=True)
    for run in runs:
        if run in missing:
            add_pack(results, run.name, measure(run.make_job(folder)))
        if run.is_probed and f"{run.name}.longplay" not in probed:
            probe(run, folder / run.name)
            add_probes(results, run.name, folder / run.name)


def probe(run: PlannedRun, folder: Path) -> None:
    """Probes a run, or goes on where that was interrupted."""
    words = ["probe", str(folder.absolute()), "--quiet"]
    if run.suite_id in PROBE_SIZES:
        branches, frames = PROBE_SIZES[run.suite_id]
        words += ["--branches", str(branches), "--frames", str(frames)]
    run_longplay(*words)


def collect(results: Path) -> None:
    """Adds the packs that are not in the package's data; drops those that are gone."""
    known = {run.pack_sha256: run for run in read_document(SHIPPED, Results).runs}
    # The anchors have the numbers of specialists.
    packs = [p for p in read_manifest(results).packs if p.suite in SUITES]
    runs = [known.get(p.sha256) or _measure_pack(p, results) for p in packs]
    write_document(SHIPPED, Results(runs=tuple(runs)))
    print(f"{len(runs)} runs in {SHIPPED.name}")


def _measure_pack(packed: PackedRun, results: Path) -> ResultRun:
    (run,) = RunReader(open_pack).read([results / packed.path]).runs
    return record_result(run, packed.path, packed.sha256)


def record_result(run: MeasuredRun, pack: str, pack_sha256: str) -> ResultRun:
    """The numbers of a run whose rows are there."""
    games, predicts = run.config.games, run.track.predicts
    rates = run.measure()
    assert run.seed is not None
    return ResultRun(
        pack=pack,
        pack_sha256=pack_sha256,
        suite=run.conditions.suite,
        agent=run.agent.name,
        agent_id=run.agent.agent_id,
        seed=run.seed,
        emulator=run.conditions.emulator,
        roms=run.conditions.roms,
        references=run.conditions.references,
        rollouts=getattr(run.score, "rollouts_sha256", None),
        headline=run.score.headline,
        rates={}
        if predicts
        else {name: _by_game(games, getattr(rates, name)) for name in RATES},
        errors={
            name: dict(errors)
            for name in _ERRORS
            if predicts and (errors := getattr(run.score, f"per_game_{name}"))
        },
    )


def _by_game(games: Sequence[str], values: Iterable[float]) -> ByGame:
    pairs = zip(games, values, strict=True)
    return {game: None if np.isnan(value) else float(value) for game, value in pairs}


def verify(
    packs: Sequence[PackedRun],
    results: Path,
    workers: int,
    verdicts: Path | None = None,
) -> None:
    """Replays packs with their probes, a few at a time, and prints each result.

    Ends with an error if one is not what the manifest says, after all were replayed.

    Args:
        packs: The packs to replay.
        results: Their folder.
        workers: Processes.
        verdicts: Where `longplay leaderboard --verdicts` finds what was replayed.
    """
    if verdicts is not None:
        check_verdict_folder(verdicts, results)
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        probes = read_manifest(results).probes
        problems = pool.map(find_problem, packs, repeat(results), repeat(probes))
        failed = 0
        for number, (packed, problem) in enumerate(
            zip(packs, problems, strict=True), start=1
        ):
            verdict = f"does not verify: {problem}" if problem else "is verified"
            print(f"{number} of {len(packs)}: {packed.path} {verdict}", flush=True)
            failed += problem is not None
            if verdicts is not None and problem is None:
                judge = Judge(verdicts, made_by="make verify-results")
                judge.keep(results / packed.path, Verdict(level="replayed"))
    if failed:
        sys.exit(f"{failed} of {len(packs)} packs do not verify")


def find_problem(
    packed: PackedRun, results: Path, probes: Sequence[PackedProbe] = ()
) -> str | None:
    """Replays a pack and its probes; returns why they are not what the manifest says.

    Args:
        packed: The pack.
        results: Its folder.
        probes: All probes of the manifest.
    """
    path = results / packed.path
    try:
        _check_hash(path, packed.sha256)
        with replayed_pack(path) as verification:
            _check_passed(verification)
            run = RunDirectory(verification.run_dir)
            if (found := describe_pack(path, run)) != packed:
                return f"expected {packed}, as in the manifest, found {found}"
            for probe in probes:
                if probe.run == packed.path:
                    _replay_probe(results / probe.path, probe, run.path)
    except LongplayError as error:
        return str(error)
    return None


def _replay_probe(path: Path, probe: PackedProbe, origin: Path) -> None:
    _check_hash(path, probe.sha256)
    with replayed_pack(path, origin=origin) as verification:
        _check_passed(verification, f"{probe.state}: ")
        recorded = RunDirectory(verification.run_dir).config.probe
        found = None if recorded is None else recorded.state
        if found != probe.state:
            raise PackError(f"{path.name}: expected state {probe.state}, found {found}")


def _check_hash(path: Path, sha256: str) -> None:
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise PackError(f"{path.name} does not have the hash of the manifest")


def _check_passed(verification: Verification, where: str = "") -> None:
    if not verification.passed:
        raise PackError(f"{where}{verification.describe_failure()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("play", "collect", "verify"))
    parser.add_argument("--suite", help="only runs of this suite")
    parser.add_argument("--agent", help="only runs of this agent, such as dqn-library")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "results")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--sample", type=int, default=1, help="verify every n-th pack")
    parser.add_argument("--verdicts", type=Path, help="keep verdicts in this folder")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.action == "verify":
        packs = read_manifest(given.results).packs
        verify(packs[:: given.sample], given.results, given.workers, given.verdicts)
        return
    if given.action == "collect":
        collect(given.results)
        return
    runs = [
        run
        for run in plan()
        if given.suite in (None, run.suite_id)
        and given.agent in (None, run.variant.name)
    ]
    play(runs, given.folder, given.results)


if __name__ == "__main__":
    main()
