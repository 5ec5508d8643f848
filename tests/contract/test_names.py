"""Any text -> a name that is safe as a folder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile_inputs import HOSTILE_NAMES
from longplay.contract.names import folder_name


def stays_inside(name: str) -> bool:
    return (
        0 < len(name.encode()) <= 120
        and name.isascii()
        and name.isprintable()
        and not set(name) & set('/\\:*?"<>| ')
        and name[0] not in ".-~"
        and name[-1] not in ". "
        and name.partition(".")[0].upper() not in {"CON", "PRN", "AUX", "NUL", "COM1"}
    )


@pytest.mark.parametrize("text", HOSTILE_NAMES)
def test_hostile_name_is_made_safe(text):
    assert stays_inside(folder_name(text))
    assert folder_name(text) != text


@given(st.text(max_size=200))
def test_any_text_is_a_safe_folder_name(text):
    assert stays_inside(folder_name(text))


@given(st.lists(st.text(alphabet="ab/.:~-", max_size=6), unique=True))
def test_different_texts_have_different_folders(texts):
    texts += [folder_name(text) for text in texts if folder_name(text) not in texts]
    assert len({folder_name(text) for text in texts}) == len(texts)


@pytest.mark.parametrize(
    "name", ["stream-smoke-v1_seed-0", "stream-smoke-v1+1a2b3c4d_seed-12"]
)
def test_ids_of_longplay_are_folder_names(name):
    assert folder_name(name) == name
