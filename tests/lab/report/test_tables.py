"""Tables of a comparison: digits, columns, LaTeX that is sound, CSV that comes back."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from longplay.errors import UnknownNameError
from longplay.lab.analysis.intervals import Estimate
from longplay.lab.analysis.records import AgentNumbers, Comparison, SuiteComparison
from longplay.lab.report.tables import (
    CSV_COLUMNS,
    check_columns,
    comparison_to_csv,
    comparison_to_latex,
    describe_suite,
    find_best,
    format_estimate,
    make_agents_table,
    make_games_table,
)
from longplay.tables import TextTable, render_latex


def estimate(mean: float, half_width: float | None = None, n: int = 5) -> Estimate:
    if half_width is None:
        return Estimate(mean=mean, n=n)
    low, high = mean - half_width, mean + half_width
    return Estimate(mean=mean, low=low, high=high, n=n, method="t")


def agent(label: str, shift: float = 0.0, **changes) -> AgentNumbers:
    numbers = {
        "headline": estimate(1234.5 + shift, 56.7),
        "average": estimate(0.31234 + shift, 0.0456),
        "change_at_revisit": estimate(-0.1 / 3, 0.2),
    }
    fields = {
        "label": label,
        "agent_id": "0" * 64,
        "is_shipped": False,
        "isolation": "none",
        "tuning_frames": None,
        "seeds": (0, 1, 2, 3, 4),
        "left_out": {},
        "numbers": numbers,
        "per_run": {},
        "games": {"pong": {"rate": estimate(-0.02 + shift, 0.003)}, "qbert": {}},
        "profile": None,
        "absent": {"retention": "this suite has no revisits"},
        "difference": estimate(shift, 0.1) if shift else None,
        "headline_difference": estimate(100 * shift, 40) if shift else None,
        "improvement": estimate(0.75, 0.2) if shift else None,
    }
    return AgentNumbers(**{**fields, **changes})


def suite(*agents: AgentNumbers, **changes) -> SuiteComparison:
    fields = {
        "title": "control-v1",
        "suite": "control-v1",
        "track": "control",
        "frame_noun": "timestep",
        "emulator": "0.12.1",
        "roms": None,
        "references": None,
        "headline": "cumulative_reward",
        "headline_is_better": "more",
        "error": None,
        "lead": "average",
        "versus": agents[0].label,
        "games": ("pong", "qbert"),
        "games_without_z": {"qbert": "u - b is too small"},
        "notes": ("a note",),
        "agents": agents,
    }
    return SuiteComparison(**{**fields, **changes})


BOTH = suite(agent("alpha_1"), agent("50% & more", 0.25))
COMPARISON = Comparison(anchors="anchors-1", suites=(BOTH,), left_out=())


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (estimate(0.31234, 0.0456), "0.312 ±0.046"),
        (estimate(0.31234, 0.96), "0.31 ±0.96"),
        (estimate(-1234.5, 56.7), "−1,234 ±57"),
        (estimate(-1234.5, 567.0), "−1,230 ±570"),
        (estimate(-0.0001, 0.5), "0.00 ±0.50"),
        (estimate(0.125), "0.125"),
        (estimate(12345.0), "12,345"),
        (estimate(0.0), "0"),
        (estimate(2.0, 0.0), "2.00"),
        (estimate(0.0, 0.0), "0"),
        (estimate(0.8, 2e-17), "0.800"),
        (
            Estimate(mean=0.3, low=0.2, high=0.5, n=40, method="bootstrap"),
            "0.30 (0.20…0.50)",
        ),
        (None, "–"),
    ],
)
def test_numbers_have_the_digits_their_interval_supports(number, text):
    assert format_estimate(number) == text


def test_agents_table():
    table = make_agents_table(BOTH)
    assert table.columns == (
        "agent",
        "runs",
        "cumulative reward",
        "average",
        "change at revisit",
        "Δ cumulative reward",
        "Δ average",
        "P(better)",
    )
    first, second = ([cell.text for cell in row] for row in table.rows)
    assert first[:4] == ["alpha_1", "5", "1,234 ±57", "0.312 ±0.046"]
    assert first[-2:] == ["–", "–"]
    assert second[-3:] == ["25 ±40", "0.25 ±0.10", "0.75 ±0.20"]
    assert table.rows[1][3].value == pytest.approx(0.56234)


def test_single_agent_has_no_comparison():
    assert make_agents_table(suite(agent("alone"))).columns[-1] == "change at revisit"


def test_runs_that_do_not_count_show():
    lossy = agent("alpha", left_out={"errored": (3, 4), "missing": (7,)})
    table = make_agents_table(suite(lossy))
    assert table.rows[0][1].text == "5/8, 2 errored"
    told = list(describe_suite(suite(lossy)))
    assert told == [
        "alpha: 2 errored (seed 3–4), 1 missing (seed 7); not in the means",
        "a note",
        "games without z: qbert",
        "no retention: this suite has no revisits",
    ]


def test_games_table():
    table = make_games_table(BOTH)
    assert table.columns == ("game", "agent", "reward per timestep")
    assert [row[0].text for row in table.rows] == ["pong", "pong", "qbert", "qbert"]
    assert table.rows[0][2].text == "−0.0200 ±0.0030"
    assert table.rows[2][2].text == "–"


def test_wide_table_is_split_and_keeps_its_names():
    table = make_agents_table(BOTH)
    blocks = table.split(45)
    assert len(blocks) > 1
    for block in blocks:
        assert sum(block.widths()) + 2 * len(block.columns) <= 45
        assert block.columns[0] == "agent"
    rest = [column for block in blocks for column in block.columns[1:]]
    assert tuple(rest) == table.columns[1:]
    # A column wider than all the room still gets a table.
    assert [len(block.columns) for block in table.split(1)] == [2] * 7


# --- LaTeX ----------------------------------------------------------------------


def parse_tabular(text: str) -> list[list[str]]:
    """Rows of the one tabular in a text; raises if it is not sound."""
    body = re.fullmatch(
        r"% [^\n]*\n\\begin\{tabular\}\{([lr]+)\}\n\\toprule\n(.*)\n\\midrule\n(.*)\n"
        r"\\bottomrule\n\\end\{tabular\}\n",
        text,
        re.S,
    )
    assert body is not None
    rows = [body[2], *body[3].splitlines()]
    cells = []
    for row in rows:
        assert row.endswith(r" \\")
        parts = re.split(r"(?<!\\)&", row.removesuffix(r" \\"))
        assert len(parts) == len(body[1])
        for part in parts:
            assert part.count("$") % 2 == part.count(r"\$") % 2
            assert not re.search(r"(?<!\\)[%#_]", part)
        cells.append([part.strip() for part in parts])
    return cells


def test_latex_is_a_sound_tabular():
    rows = parse_tabular(render_latex(make_agents_table(BOTH)))
    assert rows[0][:2] == ["agent", "runs"]
    assert rows[1][0] == r"alpha\_1"
    assert rows[2][0] == r"50\% \& more"
    assert rows[1][2] == r"1,234 $\pm$57"
    assert len(parse_tabular(render_latex(make_games_table(BOTH)))) == 5


def test_latex_of_a_comparison_has_a_table_per_suite():
    two = COMPARISON.model_copy(update={"suites": (BOTH, BOTH)})
    assert comparison_to_latex(two).count(r"\begin{tabular}") == 2
    assert comparison_to_latex(two, with_games=True).count(r"\begin{tabular}") == 4


def of_runs(label: str, *values: float, **changes) -> AgentNumbers:
    """An agent with an average for each of the seeds 0, 1, 2, …"""
    per_run = {"average": values, "optimality_gap": values}
    mean = sum(values) / len(values)
    numbers = {name: estimate(mean, 0.1) for name in per_run}
    seeds = tuple(range(len(values)))
    return agent(label, per_run=per_run, numbers=numbers, seeds=seeds, **changes)


# Differences from the best, seed by seed: all 0.5; and -0.1, 0.1, -0.1 or so.
BEST = of_runs("best", 1.0, 2.0, 3.0)
WORSE = of_runs("worse", 0.5, 1.5, 2.4)
EQUAL = of_runs("equal", 1.1, 1.9, 2.9)


def test_the_best_are_those_that_pairs_of_runs_do_not_tell_apart():
    """All three overlap by far; paired by seed, one is worse beyond doubt."""
    three = suite(WORSE, BEST, EQUAL)
    assert find_best(three, "average") == {"best", "equal"}
    # Less is better here: the two others are worse than the lowest.
    assert find_best(three, "optimality_gap") == {"worse"}


def test_none_is_the_best_of_one_agent_of_equal_ones_or_of_too_few_runs():
    assert find_best(suite(BEST), "average") == set()
    assert find_best(suite(BEST, EQUAL), "average") == set()
    two = [of_runs("a", 1.0, 2.0), of_runs("b", 5.0, 6.0)]
    assert find_best(suite(*two), "average") == set()
    assert find_best(suite(*two), "retention") == set()


def test_latex_is_sorted_by_the_lead_with_the_best_in_bold():
    unknown = agent("unknown", numbers={"headline": estimate(1.0)})
    three = suite(WORSE, unknown, BEST)
    text = comparison_to_latex(
        COMPARISON.model_copy(update={"suites": (three,)}),
        chosen=("average", "improvement"),
    )
    lines = text.splitlines()
    assert lines[1].startswith("% bold: the best, and agents whose difference from it")
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert body[0].startswith(r"best & \textbf{2.00 $\pm$0.10} & ")
    assert body[1].startswith(r"worse & 1.47 $\pm$0.10 & ")
    assert body[2].startswith("unknown & -- & ")


def test_columns_can_be_chosen():
    table = make_agents_table(BOTH, ("improvement", "runs", "final"))
    assert table.columns == ("agent", "P(better)", "runs")
    assert [cell.text for cell in table.rows[1]] == ["50% & more", "0.75 ±0.20", "5"]
    check_columns(COMPARISON, ("improvement", "runs"))
    with pytest.raises(UnknownNameError, match="unknown column 'averag'; did you mean"):
        check_columns(COMPARISON, ("runs", "averag"))


def test_errors_against_rollout_values_come_first():
    given = {name: estimate(1.0, 0.2) for name in ("headline", "error")}
    two = [
        agent(label, numbers=given, headline_difference=estimate(0.5, 0.1))
        for label in ("one", "two")
    ]
    shown = suite(*two, error="value_nmse", lead="error", headline="nmse")
    heads = make_agents_table(shown).columns
    assert heads[2:4] == ("median value nmse", "nmse")
    by_network = suite(*two, error="nmse", lead="error", headline="nmse")
    assert make_agents_table(by_network).columns[2] == "nmse"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX here")
def test_latex_compiles(tmp_path: Path):
    odd = suite(agent("β 学 é Δ"), agent("a_b & λ~"))
    both = COMPARISON.model_copy(update={"suites": (BOTH, odd)})
    text = comparison_to_latex(both, with_games=True)
    head = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
    (tmp_path / "table.tex").write_text(f"{head}\n{text}\n" + r"\end{document}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)


# --- CSV ------------------------------------------------------------------------


def test_csv_comes_back_exactly():
    rows = list(csv.DictReader(io.StringIO(comparison_to_csv(COMPARISON))))
    assert tuple(rows[0]) == CSV_COLUMNS
    found: dict[tuple[str, str, str], Estimate] = {}
    for row in rows:
        found[row["agent"], row["game"], row["metric"]] = Estimate(
            mean=float(row["mean"]),
            low=float(row["low"]) if row["low"] else None,
            high=float(row["high"]) if row["high"] else None,
            n=int(row["n"]),
            method=row["method"],
        )
    expected: dict[tuple[str, str, str], Estimate] = {}
    for one in BOTH.agents:
        for metric, number in one.numbers.items():
            expected[one.label, "", metric] = number
        if one.difference and one.headline_difference and one.improvement:
            expected[one.label, "", "difference"] = one.difference
            expected[one.label, "", "headline_difference"] = one.headline_difference
            expected[one.label, "", "improvement"] = one.improvement
        for game, numbers in one.games.items():
            for metric, number in numbers.items():
                expected[one.label, game, metric] = number
    assert found == expected
    assert rows[0]["seeds"] == "0 1 2 3 4"


def test_csv_quotes_special_characters():
    odd = suite(agent('a "b", c\nd'))
    text = comparison_to_csv(COMPARISON.model_copy(update={"suites": (odd,)}))
    assert next(csv.DictReader(io.StringIO(text)))["agent"] == 'a "b", c\nd'


def test_empty_table_has_widths():
    assert TextTable("t", ("a", "bc"), ()).widths() == [1, 2]
