"""JSON Schemas of the EvalLog's files, generated from the records.

A line of an exported JSONL file is described by episode_record.json's.
"""

from __future__ import annotations

from pathlib import Path

from longplay.contract.schema import SchemaSet
from longplay.eval_log.records import EpisodeRecord, ExperimentRecord

EVAL_LOG = SchemaSet(
    folder=Path(__file__).parent,
    page=Path("docs/eval_log.md"),
    documents={
        "experiment_record.json": ExperimentRecord,
        "episode_record.json": EpisodeRecord,
    },
)
