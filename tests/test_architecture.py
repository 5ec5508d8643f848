"""Rooms import each other in one order, and reading needs nothing that plays."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from import_graph import (
    BENCHMARK,
    LAB,
    PACKAGE,
    PAGE,
    ROOMS,
    RoomImport,
    fill_picture,
    fill_tree,
    find_imports,
    find_violations,
)
from longplay.contract.registry import CONTRACT_VERSIONS
from longplay.tracks.catalogue import TRACKS


def read_page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_a_room_imports_only_rooms_above_it():
    assert find_violations(find_imports()) == []


def test_every_room_has_its_place_in_the_order():
    assert {found.importer for found in find_imports()} <= set(ROOMS)
    assert ROOMS.index("errors") < ROOMS.index("contract") < ROOMS.index("cli")


def test_nothing_of_the_benchmark_imports_the_lab():
    imports = {(found.importer, found.imported) for found in find_imports()}
    assert not {(a, b) for a, b in imports if a in BENCHMARK and b in LAB}
    assert ("lab/report", "lab/analysis") in imports  # the lab is found


def test_picture_of_imports_is_current():
    page = read_page()
    assert "```mermaid" in page
    assert page == fill_picture(page), "run `make facts`"


def test_tree_is_current():
    page = read_page()
    assert page.count("<!-- tree -->") == 1
    assert page == fill_tree(page), "run `make facts`"


def test_git_ignores_no_source_file():
    """The folder `runs/` at the top is output; the rooms of that name are not."""
    repository = PAGE.parents[1]
    rooms = ("src/longplay/runs/__init__.py", "tests/runs/test_new.py")
    ignored = subprocess.run(
        ["git", "-C", str(repository), "check-ignore", "--no-index", "runs/x", *rooms],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ignored.stdout.split() == ["runs/x"]


# Folders of tests that mirror no room, and what they are for.
BESIDE_ROOMS = {
    "kit": "what tests share",
    "golden": "runs that are never rewritten",
    "harness": "what commands answered, recorded",
    "docs": "README, docs and examples",
    "tools": "the workshop that made the shipped data",
    "benchmarks": "speed",
    "learn": "with torch and numba",
    "view": "with a browser",
}


def test_folders_of_tests_mirror_the_rooms():
    tests, source = Path(__file__).parent, PAGE.parents[1] / "src" / "longplay"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    strange = {folder.parts[0] for folder in folders if not (source / folder).is_dir()}
    assert strange <= set(BESIDE_ROOMS)
    loose = {path.name for path in tests.glob("*.py")}
    assert {name for name in loose if not name.startswith("test_")} == {"conftest.py"}


def test_every_room_is_a_package():
    source = PAGE.parents[1] / "src" / "longplay"
    folders = {path.parent for path in source.rglob("*.py")}
    assert [path for path in folders if not (path / "__init__.py").is_file()] == []


@pytest.mark.parametrize(
    "text",
    [
        "import longplay.cli",
        "from longplay.cli import app",
        "from longplay import cli",
        "from .. import cli",
        "from ..cli import app",
        "def late():\n    from longplay.cli.app import app",
        "if TYPE_CHECKING:\n    from longplay.cli import app",
    ],
)
def test_imports_of_every_spelling_are_found(tmp_path: Path, text: str):
    (tmp_path / "contract").mkdir()
    (tmp_path / "contract/files.py").write_text(text)
    line = text.count("\n") + 1
    expected = RoomImport("contract", "cli", f"contract/files.py:{line}")
    assert find_imports(tmp_path) == [expected]
    (violation,) = find_violations([expected], ["errors", "contract", "cli"])
    assert violation.startswith(f"contract/files.py:{line}: contract imports cli")


# --- names of tracks --------------------------------------------------------------

_NAMING_ROOMS = ("tracks", "contract", "scoring", "suites.py")


def find_track_names(package: Path) -> set[str]:
    """Files with a string that is the name of a track or of a contract version.

    Those that there are mean the English word, and a suite with the same id.
    """
    names = {*TRACKS, *CONTRACT_VERSIONS}
    return {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] not in _NAMING_ROOMS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    }


def test_tracks_are_named_in_their_own_rooms():
    assert find_track_names(PACKAGE) <= {
        "agents/functional.py",
        "cli/catalogue.py",
    }


def test_a_track_named_elsewhere_is_found(tmp_path: Path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/loop.py").write_text("if track == 'control': pass")
    (tmp_path / "runs/other.py").write_text("noun = 'controls'")
    (tmp_path / "tracks").mkdir()
    (tmp_path / "tracks/control.py").write_text("name = 'control'")
    assert find_track_names(tmp_path) == {"runs/loop.py"}


# --- reading without what plays ---------------------------------------------------

_BLOCKED = """
import sys
for name in ("ale_py", "ray", "torch", "zstandard"):
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
from longplay.cli import main
main()
"""


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "command",
    [
        ("show", "{run}"),
        ("show", "{experiment}"),
        ("status", "{experiment}"),
        ("status", "{run}"),
        ("validate", "{run}"),
        ("score", "{run}"),
        ("export", "{experiment}", "--jsonl", "{tmp}/lines.jsonl"),
        ("suites",),
        ("games",),
    ],
    ids=" ".join,
)
def test_reading_commands_need_no_emulator(
    finished_run: Path, tmp_path: Path, command: tuple[str, ...]
):
    places = {
        "run": finished_run,
        "experiment": finished_run.parents[1],
        "tmp": tmp_path,
    }
    arguments = [argument.format(**places) for argument in command]
    done = subprocess.run(
        [sys.executable, "-c", _BLOCKED, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
