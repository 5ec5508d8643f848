"""docs/results.md and README's table: from numbers known by hand, and up to date."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

import results_goals
import results_page
from longplay.lab.analysis.intervals import estimate_mean
from longplay.lab.analysis.records import MemoryNumbers
from longplay.suites import get_suite
from made_up_anchors import make_anchors, make_game
from references.reference_tables import fill_marked
from results_goals import Goal, judge_count
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
    assert "| good − random | **200** |" in text
    (odd,) = (line for line in text.splitlines() if line.startswith("| odd − random"))
    assert "**" not in odd


def test_games_that_somebody_learns_are_told_from_those_that_nobody_does(
    results,
) -> None:
    text = results_page.render_results()
    assert "| good − random | **200** | breakout | – |" in text
    (odd,) = (line for line in text.splitlines() if line.startswith("| odd − random"))
    assert odd.endswith("| – | breakout |")
    assert "No learner is above random on pong, space_invaders." in text
    assert "These are 9 comparisons of games: about 0.45 would differ by" in text


def test_that_every_game_is_learned_is_said_plainly(results, tmp_path: Path) -> None:
    for seed in range(3):
        config = make_config(SUITE, seed, {}, "strong")
        write_run(tmp_path / SUITE / "strong" / f"seed-{seed}", config, [1.0] * 1500)
    text = results_page.render_results()
    assert "On every game a learner is above random." in text
    assert "No learner is above" not in text


def test_learners_are_compared_with_each_other(results) -> None:
    text = results_page.render_results()
    (pair,) = (line for line in text.splitlines() if line.startswith("| good − odd"))
    _, _, reward, above, below, _ = (cell.strip() for cell in pair.split("|"))
    # Of 500 timesteps each: 0.5 on breakout, and −0.8, 0.1 and 0.1 on the third game.
    assert reward == "150 ±650"
    assert (above, below) == ("breakout", "–")


def test_learners_are_compared_with_an_agent_that_learns_nothing(
    results, tmp_path: Path
) -> None:
    for seed in range(3):
        config = make_config(SUITE, seed, {}, "explore-only")
        rewards = [rate for rate in (0.0, 0.5, 0.1) for _ in range(500)]
        write_run(tmp_path / SUITE / "explore-only" / f"seed-{seed}", config, rewards)
    text = results_page.render_results()
    assert "| good − random | **200** | breakout | – |" in text
    (good,) = (line for line in text.splitlines() if "| good − explore-only" in line)
    assert good.endswith("| – | – |")
    assert (
        "No learner is above both random and explore-only on pong, breakout, " in text
    )
    assert "| explore-only − random | **150 ±" in text
    assert "| good − odd" in text
    assert "explore-only − good" not in text
    _, _, _, explorer, good, _ = results_page.render_short().splitlines()
    assert explorer == "| `explore-only` | *300* |"
    assert "*350" in good and "**" not in good


def test_goals_are_counted(results, monkeypatch: pytest.MonkeyPatch) -> None:
    goals = [
        Goal(SUITE, f"{least} above random", partial(judge_count, "headline", least))
        for least in (1, 2)
    ]
    monkeypatch.setattr(results_goals, "GOALS", goals)
    text = results_page.render_results()
    assert f"| {SUITE} | 1 above random | good | reached |" in text
    assert f"| {SUITE} | 2 above random | good | **missed** |" in text


def test_games_without_z_are_listed(results) -> None:
    assert f"- No z: anchors-2 has no anchors for {SUITE}." in (
        results_page.render_results()
    )


def test_change_at_revisit_is_less_that_of_resets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3 per frame in the first cycle, 1 in the second; z: by 2; random: always 1."""
    suite = "stream-smoke-v1"
    games = dict.fromkeys(get_suite(suite).games, make_game())
    monkeypatch.setattr(
        results_page, "shipped_anchors", lambda: make_anchors(suite, **games)
    )
    monkeypatch.setattr(results_page, "RESULTS", tmp_path)
    for seed in range(3):
        config = make_config(suite, seed, {}, "fades")
        rewards = [
            rate
            for visit in config.schedule
            for rate in [3.0 - 2.0 * visit.cycle_idx] * visit.visit_frames
        ]
        write_run(tmp_path / suite / f"seed-{seed}", config, rewards)
        config = make_config(suite, seed, {}, "random")
        frames = sum(visit.visit_frames for visit in config.schedule)
        write_run(tmp_path / suite / f"random-{seed}", config, [1.0] * frames)
    text = results_page.render_results()
    (line,) = (line for line in text.splitlines() if "| fades − random" in line)
    assert "**1.00**" in line.split("|")[4]
    assert "| random −" not in text
    assert "(pictures/results-stream-smoke-v1-retention.svg)" in text
    # About 2, as visits differ in length; random has 1, the upper anchor 3.
    assert f"| agent | {suite}, average |" in (short := results_page.render_short())
    assert "| `fades` | **0.497 ±0.013** |" in short
    (read,) = results_page.read_suites()
    assert len(results_page.draw_suite(*read)) == 2


def test_short_table_has_what_is_better_than_random_in_bold(results) -> None:
    head, _, *rows = results_page.render_short().splitlines()
    assert head == f"| agent | {SUITE}, cumulative reward |"
    assert [row.split("`")[1] for row in rows] == ["random", "good", "odd"]
    assert [row.count("**") for row in rows] == [0, 2, 0]
    assert rows[1].startswith("| `good` | **350 ±")


def test_short_table_has_what_was_forgotten_where_it_was_probed(
    results, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((suite, found),) = results_page.read_suites()
    share = {"share_forgotten": estimate_mean([0.4, 0.5, 0.6])}
    memory = MemoryNumbers.model_construct(numbers=share)
    agents = tuple(
        agent.model_copy(update={"memory": memory if agent.label == "good" else None})
        for agent in suite.agents
    )
    probed = suite.model_copy(update={"agents": agents})
    monkeypatch.setattr(results_page, "read_suites", lambda: [(probed, found)])
    head, _, *rows = results_page.render_short().splitlines()
    assert head.endswith(f"| {SUITE}, share forgotten |")
    # 4.303 standard errors of 0.1 / √3
    shares = [row.split("|")[-2].strip() for row in rows]
    assert shares == ["–", "0.50 ±0.25", "–"]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["PAGE", "README"])
def test_pages_show_the_shipped_results(name: str) -> None:
    page: Path = getattr(results_page, name)
    is_page = name == "PAGE"
    tables = results_page.render_results() if is_page else results_page.render_short()
    text = page.read_text(encoding="utf-8")
    shown = fill_marked(text, "results", f"\n{tables}\n")
    assert shown == text, "out of date: `make results-page`"


@pytest.mark.exhaustive
def test_every_suite_with_results_has_its_figure() -> None:
    shown = re.findall(r"pictures/results-[\w-]+\.svg", results_page.PAGE.read_text())
    assert len(shown) >= len(results_page.read_suites()) > 0
    for picture in shown:
        assert (results_page.PAGE.parent / picture).is_file()
