"""Every sentence of the seed documents has a test, and the page says which."""

from __future__ import annotations

from collections import Counter

import seed_table

SENTENCES = seed_table.read_sentences()
MARKS = seed_table.find_marks()


def test_every_sentence_has_a_test():
    assert [key for key in SENTENCES if key not in MARKS] == []


def test_every_marker_names_a_sentence():
    assert [key for key in MARKS if key not in SENTENCES] == []


def test_page_is_current():
    page = seed_table.PAGE.read_text(encoding="utf-8")
    assert page == seed_table.render_page(SENTENCES, MARKS), "run `make facts`"


def test_all_documents_are_covered():
    counts = Counter(document for document, _ in SENTENCES)
    assert counts["cube"] == 48
    assert sum(counts.values()) - counts["cube"] >= 150
    assert counts.keys() == set(seed_table.HEADINGS)
