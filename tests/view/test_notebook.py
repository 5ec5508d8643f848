"""examples/first_hour.ipynb: its code cells run, and no output is stored with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_hour.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]


def test_cells_run_in_order(tmp_path: Path) -> None:
    """As one program: a kernel does nothing else with plain cells."""
    program = tmp_path / "first_hour.py"
    program.write_text("\n\n".join("".join(cell["source"]) for cell in CODE))
    printed = subprocess.check_output(
        [sys.executable, "-W", "error", program],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg"},
        text=True,
    )
    assert "2400 timesteps" in printed
    assert "linear-sarsa - random" in printed
    assert (tmp_path / "first_hour.png").read_bytes().startswith(b"\x89PNG")


def test_no_output_is_stored() -> None:
    assert [cell for cell in CODE if cell["outputs"] or cell["execution_count"]] == []
