"""examples/first_hour.ipynb: its code cells run, and no output is stored with them."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_hour.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]


# What a kernel does with the value of a cell, for the two kinds of value there are.
SHOW = """
def show(value):
    if hasattr(value, "_repr_html_"):
        print(value._repr_html_())
    else:
        print("picture", value._repr_png_()[:4] == b"\\x89PNG")
"""


def make_program() -> str:
    """The cells as one program, which shows the values of cells as a kernel does."""
    parts = [SHOW]
    for cell in CODE:
        tree = ast.parse("".join(cell["source"]))
        last = tree.body[-1]
        if isinstance(last, ast.Expr) and not isinstance(last.value, ast.Call):
            tree.body[-1] = ast.parse(f"show({ast.unparse(last)})").body[0]
        parts.append(ast.unparse(tree))
    return "\n\n".join(parts)


def test_cells_run_in_order(tmp_path: Path) -> None:
    program = tmp_path / "first_hour.py"
    program.write_text(make_program())
    printed = subprocess.check_output(
        [sys.executable, "-W", "error", program],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg"},
        text=True,
    )
    assert "2400 timesteps" in printed
    assert printed.count("COMPLETED</td>") == 3
    assert "P(better)</th>" in printed
    assert "linear-sarsa - random: " in printed
    assert "picture True" in printed
    for name in ("first_hour.png", "own_figure.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "runs/first_hour_report/index.html").is_file()


def test_no_output_is_stored() -> None:
    assert [cell for cell in CODE if cell["outputs"] or cell["execution_count"]] == []
