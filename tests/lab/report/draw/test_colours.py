"""Colours and markers: one per agent name, in every figure and page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from longplay.errors import ConfigError
from longplay.lab.report.draw.colours import (
    MARKERS,
    OKABE_ITO,
    RANDOM_COLOUR,
    Style,
    agent_colour,
    game_colour,
    read_styles,
    style_agents,
)
from longplay.suites import SUITES


def test_games_have_colours_of_their_own():
    games = {game for suite in SUITES.values() for game in suite.games}
    assert len({game_colour(game) for game in games}) == len(games)
    assert game_colour("pong") == game_colour("pong")
    assert re.fullmatch("#[0-9a-f]{6}", game_colour("an unknown game"))


def test_lines_without_names_have_the_colours_of_okabe_and_ito():
    assert [agent_colour(n) for n in range(8)] == list(OKABE_ITO)
    assert agent_colour(8) == agent_colour(0)


def test_an_agent_looks_the_same_beside_any_others():
    alone = style_agents(["dqn"])["dqn"]
    for others in (["random"], ["linear-sarsa", "stream-q"], ["mine", "zebra"]):
        assert style_agents([*others, "dqn"])["dqn"] == alone
    assert style_agents(["mine"]) == style_agents(["mine"])


def test_the_order_of_agents_does_not_matter():
    labels = ["mine", "yours", "dqn", "random", "blind", "theirs"]
    assert style_agents(labels) == style_agents(reversed(labels))


def test_agents_of_one_comparison_look_different():
    """Seven have colours of their own; with more, colour and marker tell them apart."""
    labels = [f"agent-{n}" for n in range(30)]
    few = style_agents(labels[:7])
    assert {style.colour for style in few.values()} == set(OKABE_ITO[:7])
    assert len({style.mark for style in few.values()}) == 7
    assert len(set(style_agents(labels).values())) == 30


def test_random_is_grey_and_takes_no_colour():
    found = style_agents(["random", "random (shipped)", "mine"])
    assert found["random"].colour == RANDOM_COLOUR
    assert found["random (shipped)"] == found["random"]
    assert found["mine"].colour in OKABE_ITO


def test_a_file_names_styles(tmp_path: Path):
    file = tmp_path / "styles.toml"
    file.write_text(
        '[mine]\ncolour = "#0072B2"\nmarker = "star"\n\n["a (b=1)"]\ncolour = "#123456"'
    )
    given = read_styles(file)
    assert given["mine"] == Style("#0072B2", MARKERS.index("star"))
    assert given["a (b=1)"].colour == "#123456"
    found = style_agents(["mine", "dqn"], given)
    assert found["mine"] == given["mine"]
    # The colour of dqn is taken: it has the next one.
    assert found["dqn"].colour == OKABE_ITO[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour = 1", "colour: expected an object, found 1"),
        ('[mine]\ncolour = "blue"', "mine.colour"),
        (
            '[mine]\ncolour = "#0072B2"\nmarker = "dot"',
            "mine.marker: expected 'circle'",
        ),
        ('[mine]\ncolour = "#0072B2"\ncolor = "red"', "mine.color"),
        ("[mine", "expected TOML"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, message: str):
    file = tmp_path / "styles.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        read_styles(file)
    assert str(file) in str(error.value)


def test_a_file_that_does_not_exist(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"none\.toml"):
        read_styles(tmp_path / "none.toml")
