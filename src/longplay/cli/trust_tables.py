"""Verdicts, proofs and diagnoses -> lines and tables, 80 columns wide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from longplay.cli import tables
from longplay.contract.rundir import RunDirectory

if TYPE_CHECKING:
    from longplay.trust.verification import Verification


def show_verification(verdict: Verification) -> list[RenderableType]:
    """A verdict for people."""
    lines: list[RenderableType] = [_verdict_line(verdict)]
    if verdict.difference is not None:
        lines.append(Text(f"   first difference: {verdict.difference}"))
    if verdict.report is not None and not verdict.report.is_valid:
        lines += tables.show_report(verdict.report)
    return lines


def _verdict_line(verdict: Verification) -> Text:
    visits = ""
    if not verdict.is_whole:
        visits = f" of visit {', '.join(map(str, verdict.visits))}"
    frames = f"{verdict.frames:,} frames{visits}"
    if verdict.passed:
        how = "decided again" if verdict.method == "re-execution" else "played again"
        return Text(f" ✓ true: {frames} {how}, all as logged", "green")
    return Text(f" ✗ not true: {frames} judged", "bold red")


def _list_changed(run: RunDirectory, sha256: Mapping[str, str]) -> list[str]:
    """The files that are not any more what a verdict was about."""
    judged = run.verification.sha256 if run.verification else {}
    return [name for name in judged if sha256.get(name) != judged[name]]


def proof_to_json(run: RunDirectory, sha256: Mapping[str, str]) -> dict[str, Any]:
    """How far a run is proven, for machines."""
    record = run.verification
    return {
        "verification": record and record.model_dump(mode="json"),
        "changed_since": _list_changed(run, sha256),
    }


def proof_line(run: RunDirectory, sha256: Mapping[str, str]) -> Text:
    """How far a run is proven.

    Args:
        run: Its verification.json says what was found.
        sha256: The hashes of its files now; the verdict is about those it names.
    """
    record = run.verification
    if record is None:
        return Text(" claimed: not verified yet (`longplay verify`)", "dim")
    if changed := _list_changed(run, sha256):
        words = f" claimed: changed since it was verified: {', '.join(changed)}"
        return Text(words, "bold red")
    if not record.passed:
        why = record.first_difference or ", ".join(record.findings)
        return Text(f" claimed: verified, and found not true: {why}", "bold red")
    versions = f"longplay {record.versions.get('longplay')}"
    return Text(f" {record.level}: {record.frames:,} frames, by {versions}", "green")
