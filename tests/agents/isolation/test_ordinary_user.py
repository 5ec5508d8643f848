"""What holds for root holds for an ordinary user: the same tests, played as one.

`test_attacks.py` plays both users by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ordinary_user import open_parents

ROOT = Path(__file__).parents[3]
KIT = ROOT / "tests" / "kit"
FILES = (
    *("ahead", "channel", "clock", "compatibility", "landlock", "remote", "seccomp"),
    *("isolated_runs", "failing_agents"),
)
PLAY = """
import os, sys
sys.path.insert(0, sys.argv[1])
from ordinary_user import become_ordinary_user
become_ordinary_user()
os.environ["HOME"] = sys.argv[2]
os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = sys.argv[2] + "/hypothesis"
assert os.geteuid() != 0
import pytest
folder = "--basetemp=" + sys.argv[2] + "/tests"
sys.exit(pytest.main(["-p", "no:cacheprovider", folder, sys.argv[3]]))
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to change user"
)
@pytest.mark.parametrize("name", FILES)
def test_protection_holds_for_an_ordinary_user(name: str, tmp_path: Path) -> None:
    (file,) = (ROOT / "tests").glob(f"*/**/test_{name}.py")
    home = tmp_path / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    open_parents(home)
    arguments = (str(KIT), str(home), str(file))
    played = subprocess.run(
        [sys.executable, "-B", "-c", PLAY, *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    assert " passed" in played.stdout
