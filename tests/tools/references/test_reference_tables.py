"""What is printed about references is what their facts say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import references
from longplay.errors import ConfigError
from longplay.reference.library import read_all_facts
from made_up_references import make_facts
from references.reference_tables import fill_table, render_summary, render_table
from references.workspace import Workspace

PAGE = Path(__file__).parents[3] / "docs/prediction.md"


def test_rows_are_filled_from_the_facts() -> None:
    row = render_table([make_facts(b"")]).splitlines()[2]
    assert row == (
        "| pong | 4.0 ± 0.3 | 2.0 ± 0.4 | +4.0 s.e. | 0.500 / 1.000 | 0.000 | +0.250 "
        "| 0.200 | – | – |"
    )


def test_filling_keeps_the_rest_of_the_page() -> None:
    page = "a\n<!-- references -->\nold\n<!-- end of references -->\nz\n"
    filled = fill_table(page, [make_facts(b"")])
    assert filled.startswith(
        f"a\n<!-- references -->\n{render_table([make_facts(b'')])}"
    )
    assert filled.endswith("\n<!-- end of references -->\nz\n")
    assert fill_table(filled, [make_facts(b"")]) == filled


def test_summary_names_the_median_the_weak_and_the_missing() -> None:
    weak = make_facts(b"", "qbert")
    score = weak.policy.score.model_copy(update={"mean": 2.9})  # 1.8 s.e. above 2.0
    policy = weak.policy.model_copy(update={"score": score})
    audit = weak.audit.model_copy(
        update={"summary": weak.audit.summary.model_copy(update={"r2_corrected": 0.5})}
    )
    weak = weak.model_copy(update={"policy": policy, "audit": audit})
    summary = " ".join(render_summary([make_facts(b""), weak]).split())
    assert summary.startswith("Median R² over 2 games: 0.50. Policies that are not two")
    assert "above the random agent: qbert." in summary
    assert "without a reference so far: breakout, space_invaders, ms_pacman" in summary


def test_the_printed_table_is_that_of_the_shipped_facts() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill_table(page, read_all_facts()) == page, (
        "run `python -m references collect … --page docs/prediction.md`"
    )


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a line <!-- references -->"):
        fill_table("# another page\n", [make_facts(b"")])


def test_show_lists_every_shipped_game(invoke: Callable[..., Any]) -> None:
    answer = invoke("reference", "show", "--json")
    games = [entry["game"] for entry in answer.json]
    assert games == [facts.game for facts in read_all_facts()]
    assert invoke("reference", "show").exit_code == 0


def test_show_tells_how_far_the_making_is(
    tmp_path: Path, tool: Callable[..., Any]
) -> None:
    Workspace(tmp_path, "pong").report("train", timesteps=4096)
    shown = tool("show", "--work", tmp_path).stdout
    assert ["pong", "train", "timesteps", "4096"] in map(str.split, shown.splitlines())
    answer = tool("show", "--work", tmp_path, "--json")
    assert answer.json == [{"game": "pong", "stage": "train", "timesteps": 4096}]


def test_show_of_a_folder_without_progress_is_an_error(
    tmp_path: Path, tool: Callable[..., Any]
) -> None:
    for options in ((), ("--json",)):
        answer = tool("show", "--work", tmp_path, *options)
        assert answer.exit_code == 2
        assert "found no progress" in answer.stderr + answer.stdout


def test_using_references_needs_no_torch() -> None:
    code = (
        "import sys, longplay.reference.driver\n"
        "import references.reference_tables\n"
        "import references.recording, longplay.cli.catalogue\n"
        "assert 'torch' not in sys.modules"
    )
    tools = {"PYTHONPATH": str(Path(references.__file__).parents[1])}
    command = [sys.executable, "-c", code]
    subprocess.run(command, check=True, env={**os.environ, **tools})
