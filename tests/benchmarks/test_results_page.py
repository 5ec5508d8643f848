"""docs/results.md and README's table: from numbers known by hand, and up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

import results_page
from longplay.report.reference_tables import fill_marked
from longplay.suites import SUITES
from written_runs import make_config, write_run

SUITE = "control-smoke-v1"
# pong, breakout, space_invaders: 500 timesteps each.
REWARDS = {
    "random": {0: (0.0, 0.1, 0.1), 1: (0.0, 0.1, 0.2), 2: (0.0, 0.1, 0.3)},
    "good": {0: (0.0, 0.5, 0.1), 1: (0.0, 0.5, 0.2), 2: (0.0, 0.5, 0.3)},
    "odd": {0: (0.0, 0.0, 0.9), 1: (0.0, 0.0, 0.1), 2: (0.0, 0.0, 0.2)},
}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for agent, seeds in REWARDS.items():
        for seed, rates in seeds.items():
            config = make_config(SUITE, seed, {}, agent)
            rewards = [rate for rate in rates for _ in range(500)]
            write_run(tmp_path / SUITE / agent / f"seed-{seed}", config, rewards)
    monkeypatch.setattr(results_page, "RESULTS", tmp_path)


def test_agents_are_judged_by_the_interval_of_paired_differences(results) -> None:
    text = results_page.render_results()
    assert f"$ longplay run {SUITE} --agent good --seeds 0-2  # good" in text
    assert "`good`: cumulative reward above random by 200" in text
    assert "`odd`: cumulative reward not distinguishable from random" in text


def test_games_that_somebody_learns_are_told_from_those_that_nobody_does(
    results,
) -> None:
    text = results_page.render_results()
    assert "`good` is above random on breakout, below on no game." in text
    assert "`odd` is above random on no game, below on breakout." in text
    assert "No agent is above random on pong, space_invaders." in text
    assert "These are 6 comparisons" in text


def test_learners_are_compared_with_each_other(results) -> None:
    text = results_page.render_results()
    (pair,) = (line for line in text.splitlines() if line.startswith("| good − odd"))
    _, _, reward, above, below, _ = (cell.strip() for cell in pair.split("|"))
    # Of 500 timesteps each: 0.5 on breakout, and −0.8, 0.1 and 0.1 on the third game.
    assert reward == "150 ±650"
    assert (above, below) == ("breakout", "no game")


def test_short_table_has_what_is_better_than_random_in_bold(results) -> None:
    head, _, *rows = results_page.render_short().splitlines()
    assert head == f"| agent | {SUITE}, cumulative reward |"
    assert [row.count("**") for row in rows] == [2, 0, 0]
    assert rows[0].startswith("| `good` | **350 ±")


@pytest.mark.parametrize("name", ["PAGE", "README"])
def test_pages_show_the_shipped_results(name: str) -> None:
    page: Path = getattr(results_page, name)
    is_page = name == "PAGE"
    tables = results_page.render_results() if is_page else results_page.render_short()
    text = page.read_text(encoding="utf-8")
    shown = fill_marked(text, "results", f"\n{tables}\n")
    assert shown == text, "out of date: `make results-page`"


def test_every_suite_with_results_has_its_figure() -> None:
    read = [results_page.read_suite(name) for name in SUITES]
    suites = [found[0] for found in read if found is not None]
    assert suites
    for suite in suites:
        assert (results_page.PAGE.parent / results_page.picture_of(suite)).is_file()
