"""Which code made a result: package version and git state."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from pathlib import Path

from longplay.contract.records import GitState

_GIT_TIMEOUT_S = 10


def longplay_version() -> str:
    """The version of this package, as installed."""
    return importlib.metadata.version("longplay")


def read_git_state(directory: Path) -> GitState:
    """Commit, cleanliness and remote of a checkout; nulls where there is none."""
    commit = _ask_git(directory, "rev-parse", "HEAD")
    if commit is None:
        return GitState()
    changes = _ask_git(directory, "status", "--porcelain")
    remote = _ask_git(directory, "config", "--get", "remote.origin.url")
    return GitState(
        commit=commit,
        is_dirty=None if changes is None else bool(changes),
        remote_url=remote and strip_user_info(remote),
    )


def strip_user_info(url: str) -> str:
    """Cuts `user:password@` out of a URL; a remote may carry a token there."""
    return re.sub(r"^(\w[\w+.-]*://)[^/@]*@", r"\1", url)


def _ask_git(directory: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(directory), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
