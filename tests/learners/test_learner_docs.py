"""docs/learners.md says what the code does."""

from __future__ import annotations

from learner_tables import PAGE, fill_tables


def read_page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_tables_are_those_of_the_code() -> None:
    page = read_page()
    assert page.count("<!-- learners -->") == page.count("<!-- hyper-parameters -->")
    assert page == fill_tables(page), "run `make facts`"
