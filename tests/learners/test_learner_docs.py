"""docs/learners.md says what the code does."""

from __future__ import annotations

import pytest

from all_learners import LEARNERS
from learner_tables import PAGE, fill_tables, list_hyper_parameters


def read_page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_tables_are_those_of_the_code() -> None:
    page = read_page()
    assert page.count("<!-- learners -->") == page.count("<!-- hyper-parameters -->")
    assert page == fill_tables(page), "run `make facts`"


@pytest.mark.parametrize("name", LEARNERS)
def test_every_hyper_parameter_is_explained(name: str) -> None:
    explained = read_page().split("| hyper-parameter | meaning |")[1].split("\n\n")[0]
    for key in list_hyper_parameters(name):
        assert f"`{key}`" in explained, key
