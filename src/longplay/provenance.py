"""The code that made a result: package versions and git state.

A permalink is `https://github.com/OWNER/REPOSITORY/tree/COMMIT`.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from pathlib import Path

from longplay.contract.config import GitState

_GIT_TIMEOUT_S = 10

# Recorded if installed; the first nine are the Atlas EvalLog's.
TRACKED_PACKAGES = tuple(
    """
    cube-harness cube litellm anthropic openai browsergym-core playwright pydantic
    ray longplay ale-py numpy torch numba gymnasium
    """.split()
)

_GITHUB = re.compile(
    r"(?:(?:https?|ssh|git|git\+ssh)://(?:[^/]*@)?(?:www\.|ssh\.)?github\.com(?::\d+)?/"
    r"|(?:[^/@:]+@)?github\.com:/?)"
    r"(?P<owner>[\w.-]+)/(?P<repository>[\w.-]+?)(?:\.git)?/?",
    flags=re.IGNORECASE,
)


def longplay_version() -> str:
    """The version of this package, as installed."""
    return importlib.metadata.version("longplay")


def read_package_versions() -> dict[str, str]:
    """Tracked package -> version, if it is installed; without importing it."""
    versions = {}
    for package in TRACKED_PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def read_git_state(directory: Path) -> GitState:
    """Commit, cleanliness and remote of a checkout.

    All None without git, a checkout or a commit. Untracked files do not make a
    checkout dirty: runs are written into `runs/`, so every checkout would be dirty
    from the second run on.
    """
    commit = _run_git(directory, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return GitState()
    changes = _run_git(directory, "status", "--porcelain", "--untracked-files=no")
    remote = _run_git(directory, "config", "--get", "remote.origin.url")
    return GitState(
        commit=commit,
        is_dirty=None if changes is None else bool(changes),
        remote_url=remote and strip_user_info(remote),
    )


def make_permalink(git: GitState) -> str | None:
    """A permanent URL of the commit on GitHub; None for other hosts."""
    found = _GITHUB.fullmatch(git.remote_url or "")
    if found is None or git.commit is None:
        return None
    return (
        f"https://github.com/{found['owner']}/{found['repository']}/tree/{git.commit}"
    )


def strip_user_info(url: str) -> str:
    """Removes `user:password@` and the query of a URL, which may contain a token."""
    if re.match(r"\w[\w+.-]*://", url):
        url = re.sub(r"[?#].*$", "", url)
        return re.sub(r"^(\w[\w+.-]*://)[^/]*@", r"\1", url)
    # The short form of ssh: user@host:path
    return re.sub(r"^[^/]*@(?=[^/:@]+:)", "", url)


def _run_git(directory: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(directory), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
