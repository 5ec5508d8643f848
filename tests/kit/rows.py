"""Rows of a run as plain dicts, and the hashes of its files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec

from longplay.contract.rundir import REPLAYED_FILES, ROW_FILES

Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """All rows of one JSONL file."""
    rows: list[Row] = msgspec.json.Decoder().decode_lines(path.read_bytes())
    return rows


def rehash(run: Path, *, add: bool = False) -> None:
    """Updates the lengths and hashes in the summary, as a careful forger does.

    Args:
        run: The run directory; a summary that is damaged or missing stays as it is.
        add: Whether to add them to a summary that has none.
    """
    path = run / "run_summary.json"
    try:
        summary = json.loads(path.read_text())
    except (OSError, ValueError):
        return
    if not isinstance(summary, dict) or not (add or "rows" in summary):
        return
    contents = {
        name: (run / name).read_bytes() if (run / name).is_file() else b""
        for name in ROW_FILES
        if name in REPLAYED_FILES or (run / name).is_file()
    }
    summary["rows"] = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in contents.items()
    }
    if (run / "score.json").is_file():
        score = (run / "score.json").read_bytes()
        summary["score_sha256"] = hashlib.sha256(score).hexdigest()
    path.write_text(json.dumps(summary, indent=2) + "\n")
