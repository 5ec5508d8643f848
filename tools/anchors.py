"""Packs of results/ and anchor policies -> the entries of suites in a set of anchors.

    python tools/anchors.py SUITE…    adds these suites to anchors-2

An entry is frozen: it is never changed, and other numbers need another name. The lower
anchor comes from the packs of the random agent on all official seeds of the suite, the
rate of `explore-only` from its packs. Upper anchors come from the policies of
`results/anchor-policies`. On games without one they come from packs of prediction-v1,
where the reference policies play, whatever the agent predicts, and on streaming suites
from packs of specialists. Nothing is replayed: windows are in the packs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import longplay.scoring
from anchor_runs import measure_suite
from longplay.contract.files import read_document, write_document
from longplay.lab.analysis.runs import MeasuredRun, RunReader
from longplay.lab.report.site.verdicts import open_pack
from longplay.scoring.anchors import Anchors, SuiteAnchors
from longplay.scoring.normalisation import make_scale
from longplay.suites import Suite, get_suite
from references.training.anchor_facts import ANCHOR_TASKS, AnchorFacts
from results import RESULTS

NAME = "anchors-2"
SHIPPED = Path(longplay.scoring.__file__).parent / "data" / f"{NAME}.json"
# Any agent of prediction-v1.
PREDICTOR = "linear-td"


def measure_packs(suite_id: str, results: Path = RESULTS) -> SuiteAnchors:
    """The entry of a suite in anchors-2."""
    suite = get_suite(suite_id)
    policies = _read_policies(suite, results)
    known = {facts.game for facts in policies}
    others = [game for game in suite.games if game not in known]
    explorers = results / suite_id / "explore-only"
    return measure_suite(
        _read_randoms(suite, results),
        read(_find_uppers(suite, others, results)),
        policies,
        read([explorers]) if explorers.exists() else (),
    )


def measure_first_packs(suite_id: str, results: Path = RESULTS) -> SuiteAnchors:
    """The entry of a suite in anchors-1, which had no anchor policies."""
    suite = get_suite(suite_id)
    uppers = _find_uppers(suite, suite.games, results)
    return measure_suite(_read_randoms(suite, results), read(uppers))


def _find_uppers(suite: Suite, games: Sequence[str], results: Path) -> list[Path]:
    """The packs of the upper anchors of games without an anchor policy."""
    if suite.track == "streaming":
        return [results / "specialists" / game for game in games]
    return [results / "prediction-v1" / PREDICTOR] if games else []


def _read_randoms(suite: Suite, results: Path) -> tuple[MeasuredRun, ...]:
    randoms = read([results / suite.suite_id / "random"])
    if {run.seed for run in randoms} != set(suite.official_seeds):
        sys.exit(f"{suite.suite_id}: expected packs of random on all official seeds")
    return randoms


def _read_policies(suite: Suite, results: Path) -> Sequence[AnchorFacts]:
    """The anchor policies of a suite's games, on its track."""
    folder = results / "anchor-policies"
    return [
        read_document(folder / game / "visits.json", AnchorFacts)
        for game in suite.games
        if game in ANCHOR_TASKS
        and ANCHOR_TASKS[game].suite.track == suite.track
        and (folder / game).exists()
    ]


def read(folders: Iterable[Path]) -> tuple[MeasuredRun, ...]:
    found = RunReader(open_pack).read(list(folders))
    for left in found.left_out:
        sys.exit(f"{left.path}: {left.reason}")
    return found.runs


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suites", nargs="+", metavar="SUITE")
    anchors = (
        read_document(SHIPPED, Anchors)
        if SHIPPED.exists()
        else Anchors(name=NAME, suites={})
    )
    for suite_id in parser.parse_args().suites:
        entry = measure_packs(suite_id)
        if anchors.suites.get(suite_id, entry) != entry:
            sys.exit(
                f"{suite_id} has other numbers in {NAME}, which is frozen: "
                "give the new ones another name"
            )
        suites = {**anchors.suites, suite_id: entry}
        anchors = anchors.model_copy(update={"suites": suites})
        scale = make_scale(anchors, suite_id, get_suite(suite_id).games)
        for game in scale.games:
            numbers = entry.games[game]
            print(f"{game}: b {numbers.lower:.5g}, u {numbers.upper:.5g}")
        for game, reason in scale.reasons.items():
            print(f"no z: {game}: {reason}")
    write_document(SHIPPED, anchors)


if __name__ == "__main__":
    main()
