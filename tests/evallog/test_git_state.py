"""Where a run was started: git state, with nothing secret in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from longplay.evallog.provenance import read_git_state, strip_user_info


@pytest.mark.parametrize(
    ("url", "stripped"),
    [
        ("https://user:token@host.example/a/b.git", "https://host.example/a/b.git"),
        ("https://token@host.example/a/b", "https://host.example/a/b"),
        ("https://host.example/a@b/c", "https://host.example/a@b/c"),
        ("git@host.example:a/b.git", "git@host.example:a/b.git"),
        ("ssh://me:pw@host.example/a", "ssh://host.example/a"),
    ],
)
def test_user_info_is_cut(url: str, stripped: str) -> None:
    assert strip_user_info(url) == stripped


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True)


def test_state_of_a_checkout(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert read_git_state(tmp_path).commit is None
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-qm", "one")
    git(tmp_path, "remote", "add", "origin", "https://u:secret@host.example/r.git")
    state = read_git_state(tmp_path)
    assert state.commit is not None
    assert len(state.commit) == 40
    assert (state.is_dirty, state.remote_url) == (False, "https://host.example/r.git")
    (tmp_path / "file").write_text("2")
    assert read_git_state(tmp_path).is_dirty is True


def test_no_git_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    state = read_git_state(tmp_path)
    assert (state.commit, state.is_dirty, state.remote_url) == (None, None, None)
