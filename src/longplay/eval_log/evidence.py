"""Run directory -> the evidence behind its record: hashes, versions, a verification.

Hashes of row files are those that the run wrote into run_summary.json when it ended, so
that no event is read. A verification counts if it covers exactly these files; anything
else is *claimed*.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from longplay.contract.documents import ProofLevel, Sha256, Utc
from longplay.contract.files import hash_file
from longplay.contract.rundir import (
    RunDirectory,
    has_evidence,
    list_changed,
)
from longplay.contract.typed_record import Record
from longplay.errors import DocumentError


class Trust(Record):
    """How far a run was verified."""

    level: ProofLevel = Field(
        default="claimed", description="claimed, replayed or re-executed."
    )
    verified_with: dict[str, str] | None = Field(
        default=None, description="Versions of the verifier."
    )
    verified_utc: Utc | None = Field(
        default=None, description="Time of the verification."
    )


class Evidence(Record):
    """Hashes and versions by which a record can be checked; null where unknown."""

    config_sha256: Sha256 | None = Field(description="SHA-256 of config.json.")
    score_sha256: Sha256 | None = Field(
        description="SHA-256 of score.json, or of a tuning run's tuning.json."
    )
    rows_sha256: dict[str, Sha256] | None = Field(
        description="Row file -> its SHA-256, as recorded at the end of the run."
    )
    chain_head: str | None = Field(description="Last chain value of digests.jsonl.")
    contract_hash: str | None = Field(
        description="Hash of games, realised schedule, mechanics and scoring."
    )
    ale_py: str | None = Field(description="Version of the emulator.")
    rom_sha256: dict[str, Sha256] | None = Field(
        description="Game -> SHA-256 of its ROM."
    )
    isolation: dict[str, Any] | None = Field(
        description="How the agent was isolated: level, landlock_abi, allowed."
    )
    trust: Trust = Field(description="How far the run was verified.")


def read_evidence(run: RunDirectory) -> Evidence:
    """The evidence of a run, from its documents.

    Raises:
        DocumentError: A document is damaged.
    """
    config = run.config if run.has_config else None
    summary = run.summary
    isolation = None
    if config is not None:
        extra = config.model_dump(mode="json", include={"agent_isolation"})
        isolation = extra.get("agent_isolation")
    return Evidence(
        config_sha256=hash_file(run.path / "config.json") if config else None,
        score_sha256=summary.score_sha256 if summary else None,
        rows_sha256=_hash_rows(run) or None,
        chain_head=summary.chain_head if summary else None,
        contract_hash=config.benchmark_contract_hash if config else None,
        ale_py=(config.versions or {}).get("ale_py") if config else None,
        rom_sha256=config.rom_sha256 if config else None,
        isolation=isolation,
        trust=read_trust(run),
    )


def _hash_rows(run: RunDirectory) -> dict[str, str]:
    """Row file -> its recorded SHA-256; empty if none is recorded."""
    rows = run.summary.rows if run.summary else None
    return {name: digest.sha256 for name, digest in (rows or {}).items()}


def read_trust(run: RunDirectory) -> Trust:
    """The level of a run's verification.json, if it covers the files as they are."""
    record = run.verification
    level = run.read_trust() if has_evidence(run.summary) else "claimed"
    if record is None or level == "claimed":
        return Trust()
    return Trust(
        level=level,
        verified_with=record.versions,
        verified_utc=record.verified_utc,
    )


# A higher level includes the lower ones.
_RANKS: dict[str, int] = {"claimed": 0, "replayed": 1, "re-executed": 2}


def check_trust(run: RunDirectory, required: ProofLevel) -> None:
    """Checks that a run was verified, by the hashes of its files on disk.

    Raises:
        DocumentError: It has no evidence, was not verified, or changed since.
    """
    record = run.verification
    if not has_evidence(run.summary):
        found = "no evidence: it has no digests or hashes"
    elif record is None:
        found = "no verification.json"
    elif changed := list_changed(record, run.hash_verified_files()):
        found = f"other files than the verified ones: {', '.join(changed)}"
    elif not record.passed:
        found = f"a failed one: {record.first_difference or ', '.join(record.findings)}"
    elif _RANKS.get(record.level, 1) < _RANKS[required]:
        found = record.level
    else:
        return
    raise DocumentError(
        f"verification.json: expected a verification of level {required}, found {found}"
    )
