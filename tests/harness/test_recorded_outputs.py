"""Commands answer of what is shipped what they answered once, byte for byte.

A change that is meant to move an answer records it again (`make record`), in a commit
of its own that says why.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from pathlib import Path

import pytest
from recorded_cases import CASES, NOT_RECORDED, PACKS, SHIPPED_CASES
from recorded_outputs import (
    PACK_SCORES,
    Answer,
    check_answers,
    find_difference,
    list_recorded_cases,
    play_cases,
    read_pack_scores,
    read_recorded,
    recompute_score,
)

from longplay.cli import main


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    """Case -> what it answers now."""
    folder = tmp_path_factory.mktemp("harness").resolve()
    return {case.name: answer for case, answer in play_cases(folder, SHIPPED_CASES)}


@pytest.mark.parametrize("name", [case.name for case in SHIPPED_CASES])
def test_command_answers_what_was_recorded(
    answers: dict[str, Answer], name: str
) -> None:
    check_answers(answers[name], name)


def test_every_record_has_a_command() -> None:
    assert list_recorded_cases() == {case.name for case in CASES}


def test_packs_keep_their_scores() -> None:
    recorded = read_recorded(PACK_SCORES)
    assert recorded is not None
    assert find_difference(PACK_SCORES, recorded, read_pack_scores()) is None


@pytest.mark.exhaustive
@pytest.mark.parametrize("pack", PACKS)
def test_rows_of_a_pack_give_its_score(pack: str, tmp_path: Path) -> None:
    """Replays it: one to three minutes each."""
    recorded = read_recorded(PACK_SCORES)
    assert recorded is not None
    found = recompute_score(pack, tmp_path / "run")
    assert find_difference("score.json", json.loads(recorded)[pack], found) is None


# --- what is covered --------------------------------------------------------------


def list_commands(monkeypatch: pytest.MonkeyPatch, *group: str) -> set[str]:
    """The commands that the help names, groups resolved."""
    monkeypatch.setattr(sys, "argv", ["longplay", *group, "--help"])
    monkeypatch.setenv("COLUMNS", "200")
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main()
    names = re.findall(r"^│ ([a-z][a-z-]+)  ", text.getvalue(), re.MULTILINE)
    return {" ".join((*group, name)) for name in names}


def test_every_command_is_recorded_or_says_why_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = {"study", "reference", "findings"}
    commands = list_commands(monkeypatch) - groups
    assert {"run", "compare", "suites"} <= commands
    for group in groups:
        commands |= list_commands(monkeypatch, group)
    recorded = {
        command
        for command in commands
        if any(f"{case.command} ".startswith(f"{command} ") for case in CASES)
    }
    assert commands - recorded == set(NOT_RECORDED)


@pytest.mark.parametrize(
    ("name", "recorded", "now", "expected"),
    [
        ("a.json", '{"a": [1]}', '{"a": [1]}', None),
        (
            "a.json",
            '{"agents": [{"mean": 0.31}]}',
            '{"agents": [{"mean": 0.32}]}',
            "$.agents[0].mean: recorded 0.31, now 0.32",
        ),
        ("a.json", '{"a": 1}', '{"a": 1.0}', "$.a: recorded 1, now 1.0"),
        ("a.json", "[1]", "[1, 2]", "$: recorded 1 items, now 2"),
        ("a.json", '{"a": 1}', '{"b": 1}', "$: recorded a, now b"),
        ("a.json", "[1]", "[1]\n", "ends of lines"),
        ("a.jsonl", "[1]\n[2]\n", "[1]\n[3]\n", "$[1][0]: recorded 2, now 3"),
        ("a.csv", "a\nb\n", "a\nc\n", "line 2: recorded 'b', now 'c'"),
        ("a.csv", "a\n", "a\nc\n", "line 2: recorded None, now 'c'"),
    ],
)
def test_first_difference_is_named(
    name: str, recorded: str, now: str, expected: str | None
) -> None:
    assert find_difference(name, recorded, now) == expected
