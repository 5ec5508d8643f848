"""The parts that pages of one suite share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compared_runs import Compared, make_compared
from generated_runs import edit
from longplay.lab.analysis.comparison import Request, compare
from longplay.lab.analysis.runs import RunReader
from longplay.lab.report.site.pages import make_environment
from longplay.lab.report.site.sections import (
    describe_command,
    make_section,
    summarise_suite,
    table_differences,
)
from longplay.tables import TextTable
from written_runs import make_config, write_run

LONG = "a_name_that_is_longer_than_a_cell"


def texts(**configs: object) -> list[list[str]]:
    table = table_differences({label: {"setting": v} for label, v in configs.items()})
    assert table is not None
    return [[cell.text for cell in row] for row in table.rows]


def test_long_settings_are_cut_unless_they_would_look_alike():
    assert texts(a=f"x{LONG}", b=f"y{LONG}") == [
        ["setting", "xa_name_that_is_longer_…", "ya_name_that_is_longer_…"]
    ]
    assert texts(a=f"{LONG}_1", b=f"{LONG}_2", c=None) == [
        ["setting", f"{LONG}_1", f"{LONG}_2", "–"]
    ]


@pytest.mark.parametrize(("rows", "is_folded"), [(40, False), (41, True)])
def test_long_tables_of_probes_are_folded(rows, is_folded):
    parts = make_environment().get_template("parts.html").module
    table = TextTable.of("pairs of states", ("pair",), [(f"{n}",) for n in range(rows)])
    page = parts.probes([table])  # type: ignore[attr-defined]
    assert page.count("<td") == rows
    assert (f"<summary>pairs of states: {rows} rows</summary>" in page) == is_folded


def test_equal_settings_are_left_out():
    same = {"args": {"rate": 0.1}, "seed": 1}
    assert table_differences({"a": same, "b": dict(same)}) is None
    found = table_differences({"a": same, "b": {**same, "args": {"rate": 0.2}}})
    assert found is not None
    assert [[cell.text for cell in row] for row in found.rows] == [
        ["args.rate", "0.1", "0.2"]
    ]


def test_command_names_the_file_and_all_options(tmp_path: Path):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 360)
    config = {"_type": "alpha.Agent", "file": "alpha.py", "args": {"rate": 0.5}}
    edit(
        run_dir / "config.json",
        agent={"agent_id": "0" * 64, "config": config, "name": "mine"},
        agent_isolation={
            "level": "sandbox",
            "allowed": ["/private"],
            "variables": ["KEY"],
            "step_timeout_s": 2.5,
            "memory_bytes": 3 * 10**9,
        },
    )
    command = describe_command("alpha", RunReader().read([run_dir]).runs)
    assert command == (
        "longplay run stream-smoke-v1 --agent alpha.py --name mine "
        "--agent-arg rate=0.5 --set base_visit_frames=60 --set jitter_pct=0.0 "
        "--seeds 0 --isolate sandbox "
        "--sandbox-allow PATH --agent-env KEY --step-timeout 2.5 --agent-memory 3  "
        "# alpha"
    )


# --- one sentence per suite ---------------------------------------------------------


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """Rates of 1 + gain / 2 on average, paired by seed: beta is 0.75 below alpha."""
    path = tmp_path_factory.mktemp("two")
    return make_compared(path, {"alpha": 2.0, "beta": 0.5})


def test_summary_says_who_is_above_whom_and_by_how_much(two: Compared):
    (suite,) = two.comparison.suites
    alpha, beta = suite.agents
    gap = alpha.numbers["average"].mean - beta.numbers["average"].mean
    assert gap > 0
    assert summarise_suite(suite) == f"alpha is above beta by {gap:.3g} in average z."
    request = Request(two.anchors, versus="beta")
    (turned,) = compare(two.found, request).suites
    assert summarise_suite(turned) == summarise_suite(suite)


def test_summary_of_a_difference_that_may_be_none(two: Compared):
    (suite,) = two.comparison.suites
    alpha, beta = suite.agents
    update = {"mean": -0.1, "low": -0.3, "high": 0.1, "method": "t"}
    unclear = beta.difference.model_copy(update=update)
    changed = beta.model_copy(update={"difference": unclear})
    found = suite.model_copy(update={"agents": (alpha, changed)})
    assert summarise_suite(found) == (
        "alpha and beta do not clearly differ in average z: 0.10 ±0.20."
    )


def test_summary_of_one_agent_and_of_errors(two: Compared):
    (suite,) = two.comparison.suites
    alpha, beta = suite.agents
    alone = suite.model_copy(update={"agents": (alpha,)})
    assert summarise_suite(alone).startswith("alpha: average z ")
    assert summarise_suite(alone).endswith(", 3 runs.")
    numbers = {"error": alpha.numbers["average"]}
    worse = {"error": beta.numbers["average"]}
    errors = suite.model_copy(
        update={
            "lead": "error",
            "error": "nmse",
            "agents": (
                alpha.model_copy(update={"numbers": numbers, "difference": None}),
                beta.model_copy(update={"numbers": worse, "difference": None}),
            ),
        }
    )
    text = summarise_suite(errors)
    assert text.startswith("beta is below alpha by ")
    assert text.endswith(" in median nmse, without an interval; lower is better.")


def test_section_puts_the_lead_and_its_difference_first(two: Compared):
    section = make_section("id", two.shown, (), lambda _: "claimed")
    assert section.agents.columns[:4] == ("agent", "average", "Δ average", "runs")
    assert any(text.startswith("z: 0 is") for text in section.meanings)
    without = two.shown.suite.model_copy(update={"agents": ()})
    section = make_section("id", replace(two.shown, suite=without), (), lambda _: "")
    assert [text.partition(":")[0] for text in section.meanings] == ["final score"]
