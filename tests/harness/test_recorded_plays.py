"""Commands that play, and those that read what was played, answer as recorded."""

from __future__ import annotations

import pytest
from recorded_cases import PLAYED_CASES
from recorded_outputs import Answer, check_answers, play_cases


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    """Case -> what it answers now."""
    folder = tmp_path_factory.mktemp("harness").resolve()
    return {case.name: answer for case, answer in play_cases(folder, PLAYED_CASES)}


@pytest.mark.parametrize("name", [case.name for case in PLAYED_CASES])
def test_command_answers_what_was_recorded(
    answers: dict[str, Answer], name: str
) -> None:
    check_answers(answers[name], name)
