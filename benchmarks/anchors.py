"""Runs of the random agent and of upper anchors -> an entry of anchors-1.json.

    python benchmarks/anchors.py --random PATH… --upper PATH… [-o FILE]

`--random` are runs of the random agent on one suite, on its official seeds. `--upper`
are runs of `prediction-v1` for `control-v1` (its reference policies play them), and
runs of specialists on single games for a streaming suite. The suite's entry in FILE is
replaced, the others are kept; by default FILE is the shipped document.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import longplay.analysis
from longplay.analysis.anchor_runs import measure_suite
from longplay.analysis.anchors import ANCHORS_NAME, read_anchors
from longplay.analysis.curves import cache_folder
from longplay.analysis.normalisation import make_scale
from longplay.analysis.runs import MeasuredRun, RunReader
from longplay.contract.files import write_document

SHIPPED = Path(longplay.analysis.__file__).parent / "data" / f"{ANCHORS_NAME}.json"


def read(paths: list[Path]) -> tuple[MeasuredRun, ...]:
    found = RunReader(cache_folder()).read(paths) if paths else None
    for left in found.left_out if found else ():
        print(f"left out: {left.path}: {left.reason}")
    return found.runs if found else ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--random", type=Path, nargs="+", required=True)
    parser.add_argument("--upper", type=Path, nargs="+", default=[])
    parser.add_argument("-o", "--output", type=Path, default=SHIPPED)
    given = parser.parse_args()
    runs = read(given.random)
    entry = measure_suite(runs, read(given.upper))
    anchors = read_anchors(given.output)
    suite = runs[0].conditions.suite
    anchors = anchors.model_copy(update={"suites": {**anchors.suites, suite: entry}})
    write_document(given.output, anchors)
    scale = make_scale(anchors, suite, runs[0].config.games)
    for game in scale.games:
        numbers = entry.games[game]
        print(f"{game}: b {numbers.lower:.5g}, u {numbers.upper or float('nan'):.5g}")
    for game, reason in scale.reasons.items():
        print(f"no z: {game}: {reason}")


if __name__ == "__main__":
    main()
