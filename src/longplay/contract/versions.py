"""The names of contract and schema versions.

A contract version changes when required keys, boundary semantics, the agent's info
payload, scoring or the hash change meaning. Additional keys do not change it. Each
track has a version of its own; it says which keys config.json has, what the contract
hash covers and what a row of events.jsonl holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Track = Literal["streaming", "control", "prediction"]


class TrackContract(NamedTuple):
    """What a track's contract has beside v1's.

    Attributes:
        version: Written to config.json and score.json.
        settings: Keys of config.json that are required, and part of the hash.
    """

    version: str
    settings: tuple[str, ...] = ()


CONTRACTS: Mapping[Track, TrackContract] = {
    "streaming": TrackContract("v1"),
    "control": TrackContract(
        "control-v1", ("track", "frame_skip", "reward", "discount")
    ),
    "prediction": TrackContract(
        "prediction-v1",
        ("track", "frame_skip", "reward", "discount", "reference_sha256"),
    ),
}

# Version -> the settings it requires and hashes beside those of v1.
VERSIONS: Mapping[str, tuple[str, ...]] = dict(CONTRACTS.values())

# Shape of longplay's own documents (run_summary.json, status.json, …). Readers refuse
# a greater number than they know.
SCHEMA_VERSION = 1
