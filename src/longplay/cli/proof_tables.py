"""Verifications and diagnoses -> lines and tables, 80 columns wide."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from longplay.cli import run_tables
from longplay.cli.layout import add_row, make_table
from longplay.contract.rundir import RunDirectory, list_changed

if TYPE_CHECKING:
    from longplay.verify.doctor import Diagnosis, State, Symptom
    from longplay.verify.verification import Verification

_MARKS: dict[State, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "note": ("·", "yellow"),
    "differs": ("✗", "bold red"),
}


def show_verification(verdict: Verification) -> list[RenderableType]:
    """The result of a verification as lines."""
    lines: list[RenderableType] = [_verdict_line(verdict)]
    if verdict.difference is not None:
        lines.append(Text(f"   first difference: {verdict.difference}"))
    if verdict.report is not None and not verdict.report.is_valid:
        lines += run_tables.show_report(verdict.report)
    return lines


def _verdict_line(verdict: Verification) -> Text:
    visits = ""
    if not verdict.is_whole:
        visits = f" of visit {', '.join(map(str, verdict.visits))}"
    frames = f"{verdict.frames:,} frames{visits}"
    if verdict.passed:
        words = f" ✓ verified: {frames} {verdict.level}, all identical to the log"
        return Text(words, "green")
    return Text(f" ✗ does not reproduce: {frames} checked", "bold red")


def _list_changed(run: RunDirectory, sha256: Mapping[str, str]) -> list[str]:
    """The files that changed since the verification."""
    return list_changed(run.verification, sha256) if run.verification else []


def proof_to_json(run: RunDirectory, sha256: Mapping[str, str]) -> dict[str, Any]:
    """The trust level of a run as JSON."""
    record = run.verification
    return {
        "verification": record and record.model_dump(mode="json"),
        "changed_since": _list_changed(run, sha256),
    }


def proof_line(run: RunDirectory, sha256: Mapping[str, str]) -> Text:
    """The trust level of a run.

    Args:
        run: The run, with its verification.json.
        sha256: The current hashes of its files, compared with the verified ones.
    """
    record = run.verification
    if not run.config.is_longplay:
        words = " claimed: a run of another tool, which cannot be replayed"
        return Text(words, "dim")
    if record is None:
        return Text(" claimed: not verified yet (`longplay verify`)", "dim")
    if changed := _list_changed(run, sha256):
        words = f" claimed: changed since it was verified: {', '.join(changed)}"
        return Text(words, "bold red")
    if not record.passed:
        why = record.first_difference or ", ".join(record.findings)
        return Text(f" claimed: verification failed: {why}", "bold red")
    versions = f"longplay {record.versions.get('longplay')}"
    return Text(f" {record.level}: {record.frames:,} frames, by {versions}", "green")


def pack_line(path: Path, size_bytes: int, run_bytes: int) -> Text:
    """`run.longplay: 164,210 bytes for a run of 330,000,000 (1 : 2,009)`."""
    ratio = round(run_bytes / size_bytes)
    return Text(
        f" {path}: {size_bytes:,} bytes for a run of {run_bytes:,} (1 : {ratio:,})",
        "dim",
    )


def show_diagnosis(diagnosis: Diagnosis) -> list[RenderableType]:
    """A diagnosis as tables."""
    machine = make_table("machine", "", "check", "here", "expected", left=range(4))
    for symptom in diagnosis.machine:
        found, expected = symptom.found, symptom.expected
        add_row(machine, _mark(symptom), symptom.name, found, expected)
    columns = ("", "game", "reward", "memory", "reward", "memory")
    games = make_table("games, here and as shipped", *columns, left=(0, 1, 3, 5))
    for symptom in diagnosis.games:
        cells = (*_halves(symptom.found), *_halves(symptom.expected))
        add_row(games, _mark(symptom), symptom.name, *cells)
    return [machine, Text(), games, *_show_meanings(diagnosis), _health(diagnosis)]


def _halves(text: str) -> tuple[str, str]:
    reward, _, memory = text.partition(" ")
    return reward, memory


def _mark(symptom: Symptom) -> Text:
    return Text(*_MARKS[symptom.state])


def _show_meanings(diagnosis: Diagnosis) -> list[RenderableType]:
    """The consequence of each unexpected result."""
    meanings: list[RenderableType] = [
        Padding(Text(f"{symptom.name}: {symptom.meaning}"), (0, 0, 0, 3))
        for symptom in (*diagnosis.machine, *diagnosis.games)
        if symptom.meaning
    ]
    return [Text(), *meanings] if meanings else []


def _health(diagnosis: Diagnosis) -> Text:
    games = len(diagnosis.games)
    if diagnosis.is_healthy:
        words = f"\n ✓ healthy: {games} games play identically here"
        return Text(words, "green")
    ill = sum(symptom.state == "differs" for symptom in diagnosis.games)
    words = f"\n ✗ not healthy: {ill} of {games} games play differently here"
    return Text(words, "bold red")
