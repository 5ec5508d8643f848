"""Runs -> seconds and memory of `longplay compare`.

    python benchmarks/bench_compare.py --copies 500     a short run, copied and changed
    python benchmarks/bench_compare.py PATH…            runs of your own

Every number comes from documents and curves, so the rows are not read.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from longplay.contract.files import hash_file, read_json, write_document

SUITE = "control-smoke-v1"
AGENTS = 10


def make_copies(folder: Path, count: int) -> Path:
    """One played run -> runs of some agents with other seeds, rows and scores."""
    out = folder / "played"
    command = [sys.executable, "-m", "longplay", "run", SUITE, "--agent", "random"]
    subprocess.run([*command, "--out", out, "--quiet"], check=True, capture_output=True)
    (played,) = (out / "episodes").iterdir()
    for number in range(count):
        agent, seed = number % AGENTS, number // AGENTS
        _change(Path(shutil.copytree(played, folder / f"copies/{number}")), agent, seed)
    return folder / "copies"


def _change(run_dir: Path, agent: int, seed: int) -> None:
    config = read_json(run_dir / "config.json")
    config |= {"seed": seed, "config_given": {"suite": SUITE, "overrides": {}}}
    config["agent"]["agent_id"] = f"{agent:064x}"
    config["agent"]["config"]["_type"] = f"agent.number_{agent}"
    write_document(run_dir / "config.json", config)
    curves = run_dir / "curves.jsonl"
    value = 1000 * agent + seed
    curves.write_bytes(curves.read_bytes().replace(b"[0.0", b"[%d.0" % value, 1))
    summary = read_json(run_dir / "run_summary.json")
    size_bytes, sha256 = curves.stat().st_size, hash_file(curves)
    summary["rows"]["curves.jsonl"] = {"bytes": size_bytes, "sha256": sha256}
    write_document(run_dir / "run_summary.json", summary)


def measure(paths: list[Path]) -> None:
    """Prints seconds and peak memory of one comparison."""
    command = [sys.executable, "-m", "longplay", "compare", *map(str, paths), "--json"]
    start = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        if status:
            sys.exit(f"{' '.join(command)} failed")
        output.seek(0)
        suites = json.load(output)["suites"]
    runs = sum(len(agent["seeds"]) for suite in suites for agent in suite["agents"])
    megabytes = usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    print(f"{runs} runs: {seconds:.1f} s, {megabytes:,.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("--copies", type=int, default=0)
    given = parser.parse_args()
    if bool(given.paths) == bool(given.copies):
        parser.error("expected paths or --copies, found both or neither")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = given.paths or [make_copies(folder, given.copies)]
        measure(paths)


if __name__ == "__main__":
    main()
