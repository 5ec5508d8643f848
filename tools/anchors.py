"""Packs of results/ -> the entries of suites in anchors-1.json.

    python tools/anchors.py SUITE…    adds these suites

An entry is frozen: it is never changed, and other numbers need another name. It needs
the packs of all official seeds.
The lower anchor comes from the packs of the random agent on the suite. The upper one of
a control suite comes from packs of prediction-v1, where the reference policies play,
whatever the agent predicts; that of a streaming suite from the packs of specialists.
Nothing is replayed: windows are in the packs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

import longplay.scoring
from anchor_runs import measure_suite
from longplay.contract.files import write_document
from longplay.lab.analysis.runs import MeasuredRun, RunReader
from longplay.lab.report.site.verdicts import open_pack
from longplay.scoring.anchors import ANCHORS_NAME, SuiteAnchors, read_anchors
from longplay.scoring.normalisation import make_scale
from longplay.suites import get_suite
from results import RESULTS

SHIPPED = Path(longplay.scoring.__file__).parent / "data" / f"{ANCHORS_NAME}.json"
# Any agent of prediction-v1.
PREDICTOR = "linear-td"


def measure_packs(suite_id: str, results: Path = RESULTS) -> SuiteAnchors:
    """The anchors of a suite, from the packs of both anchors."""
    suite = get_suite(suite_id)
    uppers = (
        [results / "specialists" / game for game in suite.games]
        if suite.track == "streaming"
        else [results / "prediction-v1" / PREDICTOR]
    )
    randoms = read([results / suite_id / "random"], results)
    if {run.seed for run in randoms} != set(suite.official_seeds):
        sys.exit(f"{suite_id}: expected packs of random on all official seeds")
    return measure_suite(randoms, read(uppers, results))


def read(folders: Iterable[Path], results: Path) -> tuple[MeasuredRun, ...]:
    found = RunReader(open_pack).read(list(folders))
    for left in found.left_out:
        sys.exit(f"{left.path}: {left.reason}")
    return found.runs


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suites", nargs="+", metavar="SUITE")
    anchors = read_anchors(SHIPPED)
    for suite_id in parser.parse_args().suites:
        entry = measure_packs(suite_id)
        if anchors.suites.get(suite_id, entry) != entry:
            sys.exit(
                f"{suite_id} has other numbers in {ANCHORS_NAME}, which is frozen: "
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
