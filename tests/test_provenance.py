"""Which code made a result, in real repositories."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from longplay.contract.config import GitState
from longplay.eval_log.records import AgentInfo
from longplay.provenance import (
    TRACKED_PACKAGES,
    make_permalink,
    read_git_state,
    read_package_versions,
    strip_user_info,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    path.mkdir()
    git(path, "init", "-q")
    return path


def git(path: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    done = subprocess.run(
        ["git", "-C", str(path), *identity, *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def commit(path: Path) -> str:
    (path / "agent.py").write_text("answer = 42\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    return git(path, "rev-parse", "HEAD")


def test_clean_checkout(repository):
    head = commit(repository)
    assert read_git_state(repository) == GitState(
        commit=head, is_dirty=False, remote_url=None
    )


def test_folder_inside_a_checkout_belongs_to_it(repository):
    head = commit(repository)
    (repository / "inner").mkdir()
    assert read_git_state(repository / "inner").commit == head


@pytest.mark.seed("001", "agent-9", "gotcha-3")
def test_changed_file_makes_it_dirty(repository):
    commit(repository)
    (repository / "agent.py").write_text("answer = 43\n")
    assert read_git_state(repository).is_dirty is True


def test_staged_file_makes_it_dirty(repository):
    commit(repository)
    (repository / "new.py").write_text("")
    git(repository, "add", "new.py")
    assert read_git_state(repository).is_dirty is True


def test_untracked_run_does_not_make_it_dirty(repository):
    commit(repository)
    (repository / "runs").mkdir()
    (repository / "runs" / "config.json").write_text("{}")
    assert read_git_state(repository).is_dirty is False


def test_checkout_without_commits_has_no_git_state(repository):
    git(repository, "remote", "add", "origin", "https://github.com/o/r")
    assert read_git_state(repository) == GitState()


def test_folder_outside_a_checkout(tmp_path):
    assert read_git_state(tmp_path) == GitState()


def test_folder_that_does_not_exist(tmp_path):
    assert read_git_state(tmp_path / "nowhere") == GitState()


def test_no_git_at_all(repository, monkeypatch):
    commit(repository)
    monkeypatch.setenv("PATH", os.devnull)
    assert read_git_state(repository) == GitState()
    info = AgentInfo.from_agent_config({"_type": "a.B"}, str(repository))
    assert (info.git_commit, info.git_remote_url, info.git_is_dirty) == (None,) * 3


@pytest.mark.seed("001", "agent-7")
def test_agent_info_links_to_the_commit(repository):
    head = commit(repository)
    url = "https://me:token@github.com/owner/agents.git"
    git(repository, "remote", "add", "origin", url)
    (repository / "agent.py").write_text("answer = 43\n")
    info = AgentInfo.from_agent_config({"_type": "a.B"}, str(repository))
    assert info.git_commit == head
    assert info.git_remote_url == f"https://github.com/owner/agents/tree/{head}"
    assert info.git_is_dirty is True
    assert "token" not in info.model_dump_json()


@pytest.mark.seed("001", "agent-13")
def test_agent_info_takes_the_working_directory(repository, monkeypatch):
    head = commit(repository)
    monkeypatch.chdir(repository)
    assert AgentInfo.from_agent_config({"_type": "a.B"}).git_commit == head


@pytest.mark.seed("001", "agent-8")
@pytest.mark.seed(
    "cube",
    "to_github_url_ssh",
    "to_github_url_https",
    "to_github_url_strips_git_suffix",
)
@pytest.mark.parametrize(
    "remote",
    [
        "https://github.com/o/r",
        "https://github.com/o/r.git",
        "https://github.com/o/r/",
        "http://www.github.com/o/r.git",
        "https://user:token@github.com/o/r.git",
        "https://GitHub.com/o/r",
        "git@github.com:o/r.git",
        "git@github.com:o/r",
        "ssh://git@github.com/o/r.git",
        "ssh://git@ssh.github.com:443/o/r.git",
        "git://github.com/o/r.git",
    ],
)
def test_github_remote_becomes_a_permalink(remote):
    state = GitState(commit=COMMIT, is_dirty=False, remote_url=strip_user_info(remote))
    assert make_permalink(state) == f"https://github.com/o/r/tree/{COMMIT}"


@pytest.mark.seed("cube", "to_github_url_non_github_returns_none")
@pytest.mark.parametrize(
    ("remote", "written"),
    [
        ("https://gitlab.com/o/r.git", "https://gitlab.com/o/r.git"),
        ("https://user:pass@gitlab.com/o/r", "https://gitlab.com/o/r"),
        ("https://user:p@ss@gitlab.com/o/r", "https://gitlab.com/o/r"),
        ("https://token@host:8443/o/r", "https://host:8443/o/r"),
        ("https://host/o/r?private_token=x#y", "https://host/o/r"),
        ("git@gitlab.com:o/r.git", "gitlab.com:o/r.git"),
        ("ssh://me@host/o/r", "ssh://host/o/r"),
        ("https://notgithub.com/o/r", "https://notgithub.com/o/r"),
        ("https://github.com.evil.org/o/r", "https://github.com.evil.org/o/r"),
        ("https://evil.org/github.com/o/r", "https://evil.org/github.com/o/r"),
        ("https://github.com/o/r/x", "https://github.com/o/r/x"),
        ("/somewhere/r", "/somewhere/r"),
    ],
)
def test_other_remote_has_no_permalink_and_loses_its_user_info(remote, written):
    state = GitState(commit=COMMIT, is_dirty=False, remote_url=strip_user_info(remote))
    assert state.remote_url == written
    assert make_permalink(state) is None


def test_remote_without_a_commit_has_no_permalink():
    state = GitState(remote_url="https://github.com/o/r")
    assert make_permalink(state) is None


def test_remote_in_a_real_checkout_loses_its_password(repository):
    commit(repository)
    git(repository, "remote", "add", "origin", "https://me:secret@example.org/r.git")
    assert read_git_state(repository).remote_url == "https://example.org/r.git"


def test_versions_of_installed_packages():
    versions = read_package_versions()
    assert versions.keys() <= set(TRACKED_PACKAGES)
    assert {"longplay", "numpy", "ale-py", "pydantic"} <= versions.keys()
    for package, version in versions.items():
        assert version == importlib.metadata.version(package)


def test_package_that_is_not_installed_is_left_out(monkeypatch):
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert read_package_versions() == {}


@pytest.mark.seed("001", "agent-21")
def test_tracked_packages_are_the_specification_s_and_ours():
    assert set(TRACKED_PACKAGES) == set(
        """cube-harness cube litellm anthropic openai browsergym-core playwright
        pydantic ray longplay ale-py numpy torch numba gymnasium""".split()
    )


def test_no_package_is_imported_for_its_version():
    code = """
import sys
from longplay.provenance import read_package_versions
read_package_versions()
print(*[name for name in ("ray", "torch", "ale_py") if name in sys.modules])
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
