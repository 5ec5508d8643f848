"""Names that deceive: board, report, viewer and terminal show their escapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longplay.errors import escape_controls, show_name
from longplay.lab.analysis.labels import label_agents
from longplay.lab.analysis.runs import AgentKey
from viewer_requests import open_viewer
from written_runs import make_config, write_run

SUITE = "control-smoke-v1"
# Bidi override, zero-width space, variation selector, Hangul filler, clear screen.
HIDDEN = ("\u202e", "\u200b", "\ufe0f", "\u3164", "\x1b")
NAME = "a".join(HIDDEN)
SHOWN = r"\u202ea\u200ba\ufe0fa\u3164a\x1b"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A deceptive agent on the official seeds, in a folder of that name."""
    monkeypatch.setenv("LONGPLAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "300")
    for seed in range(5):
        config = make_config(SUITE, seed, {}, NAME)
        rewards = np.full(config.total_frames, 1.0 + seed)
        write_run(tmp_path / "runs" / NAME / str(seed), config, rewards)
    (tmp_path / "runs" / f"bad{NAME}.longplay").write_bytes(b"")
    return tmp_path / "runs"


def check_text(text: str) -> None:
    assert SHOWN in text
    assert not set(HIDDEN) & set(text)


@pytest.mark.parametrize("character", [*HIDDEN, "\u2066", "\u2800", "\U000e0101"])
def test_characters_that_hide_are_escaped(character: str) -> None:
    assert escape_controls(f"a{character}b") == f"a{ascii(character)[1:-1]}b"


def test_shown_name_has_at_most_200_characters() -> None:
    assert show_name("x" * 200) == "x" * 200
    assert show_name("x" * 10**6) == "x" * 199 + "…"
    assert len(show_name("\u202e" * 10**6)) == 200


def test_long_labels_are_cut_and_stay_different() -> None:
    agents = [(AgentKey("a", n), {"args": {"x": "y" * 10**5 + n}}) for n in "12"]
    labels = label_agents(agents)
    assert len(set(labels)) == 2
    assert max(map(len, labels)) <= 210


def test_board(invoke, runs, tmp_path):
    answer = invoke("leaderboard", runs, "-o", tmp_path / "site")
    assert answer.exit_code == 0
    check_text(answer.stdout)
    check_text((tmp_path / "site/index.html").read_text())


def test_report_and_terminal(invoke, runs, tmp_path):
    assert invoke("report", runs, "-o", tmp_path / "report", "--quiet").exit_code == 0
    check_text((tmp_path / "report/index.html").read_text())
    check_text(invoke("compare", runs).stdout)
    check_text(invoke("show", runs / NAME / "0").stdout)


def test_viewer(runs):
    viewer = open_viewer(runs)
    address = viewer.run_address(runs / NAME / "0")
    query = "&".join(
        f"run={viewer.run_address(r)[6:]}" for r in (runs / NAME).iterdir()
    )
    for page in ("/", address, f"/compare?{query}"):
        reply = viewer.get(page)
        assert reply.status == 200
        check_text(reply.text)


def test_text_that_reaches_a_page_as_json_is_escaped(runs):
    viewer = open_viewer(runs)
    figure = viewer.get(f"{viewer.run_address(runs / NAME / '0')}/timeline.json")
    assert figure.status == 200
    assert not set(HIDDEN) & set(str(figure.json))
