"""Experiments -> does the matrix order the agents as `longplay compare` does?

    python benchmarks/atlas_order.py PATH…

Paths are runs, experiments, packs or folders of them, such as `results/control-v1`. For
every suite, prints a table of the agents with the number that `compare` leads with, the
matrix's standardised reward, which is fitted to the same runs, and the rank by either.
Exits with 1 if the orders of a suite differ; docs/eval_log.md says when they may.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from longplay.contract.files import render_line, write_chunks
from longplay.contract.usage import UsageSummary
from longplay.eval_log.records import EpisodeRecord, hash_task_config
from longplay.eval_log.tasks import TaskConfig, TaskMetadata
from longplay.lab.analysis.comparison import Request, compare, runs_by_label
from longplay.lab.analysis.intervals import Estimate
from longplay.lab.analysis.records import SuiteComparison
from longplay.lab.analysis.runs import FoundRuns, MeasuredRun, RunReader
from longplay.lab.atlas.atlas import list_agents, make_atlas
from longplay.lab.atlas.matrix import read_matrix
from longplay.lab.report.site.verdicts import open_pack
from longplay.lab.report.tables import format_estimate, head_metric
from longplay.scoring.anchors import Anchors, shipped_anchors
from longplay.tables import TextTable, format_number

WIDTH = 80


@dataclass(frozen=True)
class Orders:
    """The agents of a suite by two numbers, the best first.

    Attributes:
        suite: The suite.
        lead: The number that `compare` leads with, as a heading.
        compared: Agent -> that number.
        matrix: Agent -> its standardised reward; None if no other agent shares a task.
    """

    suite: str
    lead: str
    compared: dict[str, Estimate]
    matrix: dict[str, float | None]

    @property
    def agree(self) -> bool:
        """Whether both orders are the same."""
        return list(self.compared) == list(self.matrix)


def order_agents(found: FoundRuns, anchors: Anchors) -> list[Orders]:
    """Both orders, for every suite with two agents or more."""
    orders = []
    for suite in compare(found, Request(anchors)).suites:
        compared = _order_compared(suite)
        if len(compared) > 1:
            lead = head_metric(suite.lead, suite.headline, suite.error)
            matrix = _order_matrix(found, suite, compared)
            orders.append(Orders(suite.suite, lead, compared, matrix))
    return orders


def _order_compared(suite: SuiteComparison) -> dict[str, Estimate]:
    sign = -1 if suite.lead_is_better == "more" else 1
    numbers = {
        agent.label: agent.numbers[suite.lead]
        for agent in suite.agents
        if suite.lead in agent.numbers
    }
    return dict(
        sorted(numbers.items(), key=lambda item: (sign * item[1].mean, item[0]))
    )


def _order_matrix(
    found: FoundRuns, suite: SuiteComparison, labels: Collection[str]
) -> dict[str, float | None]:
    records = [
        _make_record(run, label)
        for label, runs in runs_by_label(found, suite).items()
        for run in runs
        if label in labels
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        write_chunks(path, map(render_line, records))
        atlas = make_atlas(read_matrix([path]))
    return {row["agent"]: row["standardised_reward"] for row in list_agents(atlas)}


def _make_record(run: MeasuredRun, label: str) -> EpisodeRecord:
    """The record of a run, also of one in a pack; agents are distinguished by label."""
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
        usage=UsageSummary(),
        trajectory_id=task.task_id,
        timestamp=0.0,
    )


def show_orders(orders: Orders) -> TextTable:
    """A row per agent, in the order of `compare`."""
    word = "the matrix has the same order" if orders.agree else "the orders differ"
    columns = ("agent", orders.lead, "rank", "standardised reward", "rank")
    ranks = {agent: rank for rank, agent in enumerate(orders.matrix, start=1)}
    rows = [
        (
            agent,
            format_estimate(estimate),
            rank,
            format_number(orders.matrix[agent], 3),
            ranks[agent],
        )
        for rank, (agent, estimate) in enumerate(orders.compared.items(), start=1)
    ]
    return TextTable.of(f"{orders.suite}: {word}", columns, rows)


def main(paths: Sequence[str]) -> int:
    found = RunReader(open_pack).read(map(Path, paths))
    orders = order_agents(found, shipped_anchors())
    console = Console(width=WIDTH)
    for suite in orders:
        console.print(show_orders(suite))
    return 0 if all(suite.agree for suite in orders) else 1


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
