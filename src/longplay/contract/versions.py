"""Contract versions and the schema version.

A contract version changes when required keys, boundary semantics, the agent's info
payload, scoring or the hash change meaning. Additional keys do not change it. Each
track has its own version. `CONTRACT_VERSIONS` in `records` lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longplay.contract.records import EventRow, Score

# Shape of longplay's own documents (run_summary.json, status.json, …). Readers reject
# a newer version than they know.
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class ContractVersion:
    """What a contract version requires of the files of a run.

    Attributes:
        name: Written to config.json and score.json.
        settings: Keys of config.json that are required and hashed in addition to
            those of v1.
        row_type: A row of events.jsonl as longplay writes it.
        score_type: score.json.
    """

    name: str
    settings: tuple[str, ...]
    row_type: type[EventRow]
    score_type: type[Score]
