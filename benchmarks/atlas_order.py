"""Experiments -> does the matrix order the agents as `longplay compare` does?

    python benchmarks/atlas_order.py PATH…

Paths are runs, experiments, packs or folders of them. For every suite, prints the order
by the number that `compare` leads with and the order by the matrix's standardised
reward, which is fitted to the same runs. Exits with 1 if a suite's orders differ;
docs/eval_log.md says when they may.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from longplay.analysis.anchors import Anchors, shipped_anchors
from longplay.analysis.comparison import Request, compare, runs_by_label
from longplay.analysis.curves import cache_folder
from longplay.analysis.records import SuiteComparison
from longplay.analysis.runs import FoundRuns, MeasuredRun, RunReader
from longplay.contract.files import render_line, write_chunks
from longplay.eval_log.atlas import make_atlas
from longplay.eval_log.matrix import read_matrix
from longplay.eval_log.records import EpisodeRecord, hash_task_config
from longplay.eval_log.tasks import TaskConfig, TaskMetadata
from longplay.report.verdicts import open_pack


@dataclass(frozen=True)
class Orders:
    """The agents of a suite, the best first."""

    suite: str
    lead: str
    compared: tuple[str, ...]
    matrix: tuple[str, ...]

    @property
    def agree(self) -> bool:
        """Whether both orders are the same."""
        return self.compared == self.matrix


def order_agents(found: FoundRuns, anchors: Anchors) -> list[Orders]:
    """Both orders, for every suite with two agents or more."""
    suites = compare(found, Request(anchors)).suites
    return [
        Orders(
            suite.suite, suite.lead, _order_compared(suite), _order_matrix(found, suite)
        )
        for suite in suites
        if sum(suite.lead in agent.numbers for agent in suite.agents) > 1
    ]


def _order_compared(suite: SuiteComparison) -> tuple[str, ...]:
    sign = -1 if suite.lead_is_better == "more" else 1
    means = {
        agent.label: sign * agent.numbers[suite.lead].mean
        for agent in suite.agents
        if suite.lead in agent.numbers
    }
    return tuple(sorted(means, key=lambda label: (means[label], label)))


def _order_matrix(found: FoundRuns, suite: SuiteComparison) -> tuple[str, ...]:
    records = [
        _make_record(run, label)
        for label, runs in runs_by_label(found, suite).items()
        for run in runs
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        write_chunks(path, map(render_line, records))
        atlas = make_atlas(read_matrix([path]))
    return tuple(atlas.labels[row] for row in atlas.order)


def _make_record(run: MeasuredRun, label: str) -> EpisodeRecord:
    """The record of a run, also of one in a pack; agents are told apart by label."""
    task = TaskMetadata.from_config(run.config)
    reward = run.score.reward
    return EpisodeRecord(
        experiment_id=label,
        agent_id=label,
        agent_name=label,
        task_id=task.task_id,
        task_version_hash=hash_task_config(TaskConfig.from_config(run.config)),
        seed=run.seed,
        split=task.split,
        task_description=None,
        tool_names=[],
        success=reward > 0,
        reward=reward,
        error_type=None,
        n_steps=run.score.frames,
        n_agent_steps=0,
        n_env_steps=0,
        wall_time_s=None,
        usage={},
        trajectory_id=task.task_id,
        timestamp=0.0,
    )


def main(paths: Sequence[str]) -> int:
    found = RunReader(cache_folder(), open_pack).read(map(Path, paths))
    differ = 0
    for orders in order_agents(found, shipped_anchors()):
        word = "same order" if orders.agree else "orders differ"
        differ += not orders.agree
        print(f"{orders.suite}: {word}")
        print(f"  compare, by {orders.lead}: {', '.join(orders.compared)}")
        print(f"  matrix: {', '.join(orders.matrix)}")
    return 1 if differ else 0


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
