"""Rows of a run as plain dicts, however the run was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """All rows of one JSONL file."""
    rows: list[Row] = msgspec.json.Decoder().decode_lines(path.read_bytes())
    return rows
