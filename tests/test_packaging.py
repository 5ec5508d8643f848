"""What pyproject.toml promises: extras, safe versions, and a wheel that works alone."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import tomllib
import urllib.request
import venv
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from longplay.errors import MissingExtraError
from longplay.learners.templates import TEMPLATES

ROOT = Path(__file__).parent.parent
SOURCES = [*(ROOT / "src").rglob("*.py"), *ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_hints_for_missing_extras_work_wherever_longplay_is(
    project: dict[str, Any],
) -> None:
    """From an index, and in a clone."""
    error = MissingExtraError.of("pages need jinja2", "report")
    assert str(error) == (
        "pages need jinja2: pip install 'longplay[report]', in a clone "
        "pip install -e '.[report]'"
    )
    sources = (path for path in SOURCES if path.suffix == ".py")
    text = "".join(path.read_text() for path in sources)
    assert "pip install '." not in text
    named = set(re.findall(r'MissingExtraError\.of\([^)]*?"(\w+)"\s*\)', text))
    assert {"ray", "learn", "report"} <= named <= set(project["optional-dependencies"])


# Closed by a release; CVE-2023-48022 is closed by none.
RAY_HOLES = {
    "CVE-2025-62593": "2.51.2",
    "CVE-2026-27482": "2.53.0",
    "CVE-2026-41486": "2.54.1",
    "CVE-2026-57516": "2.55.1",
}


@pytest.mark.parametrize("extra", ["ray", "dev"])
@pytest.mark.parametrize(("hole", "version"), RAY_HOLES.items())
def test_no_ray_with_a_known_hole(
    hole: str, version: str, extra: str, project: dict[str, Any]
) -> None:
    requirements = map(Requirement, project["optional-dependencies"][extra])
    (ray,) = (found for found in requirements if found.name == "ray")
    assert not ray.specifier.contains(version), hole


def test_constraints_admit_what_the_project_requires(project: dict[str, Any]) -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {
        pin.name.lower().replace("_", "-"): str(pin.specifier).removeprefix("==")
        for pin in map(Requirement, filter(lambda line: line[:1] != "#", lines))
    }
    extras = project["optional-dependencies"].values()
    for text in (*project["dependencies"], *(r for extra in extras for r in extra)):
        required = Requirement(text)
        assert required.specifier.contains(pinned[required.name]), text


def test_supported_pythons_are_the_same_everywhere(project: dict[str, Any]) -> None:
    prefix = "Programming Language :: Python :: 3."
    classified = [
        f"3.{classifier.removeprefix(prefix)}"
        for classifier in project["classifiers"]
        if classifier.startswith(prefix)
    ]
    assert project["requires-python"] == f">={classified[0]}"
    makefile = (ROOT / "Makefile").read_text()
    pythons = " ".join(f"python{version}" for version in classified)
    assert f"PYTHONS := {pythons} python3\n" in makefile
    workflow = (ROOT / ".github/workflows/tests.yml").read_text()
    versions = ", ".join(f'"{version}"' for version in classified)
    assert f"python: [{versions}]" in workflow


# --- without a clone ----------------------------------------------------------------


def test_templates_say_where_the_docs_are(project: dict[str, Any]) -> None:
    for path in TEMPLATES.values():
        text = path.read_text(encoding="utf-8")
        assert "docs/" not in text or project["urls"]["Documentation"] in text, path


def test_no_message_asks_for_a_clone() -> None:
    """Users of the wheel have no Makefile; docstrings are for those who have."""
    hint = re.compile(rf"\bmake ({'|'.join(list_targets())})\b")
    found = [
        f"{path.name}: {node.value}"
        for path in (ROOT / "src").rglob("*.py")
        for node in find_messages(ast.parse(path.read_text(encoding="utf-8")))
        if hint.search(node.value)
    ]
    assert found == []


def list_targets() -> list[str]:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE)
    assert "doctor-traces" in targets
    return targets


def find_messages(tree: ast.Module) -> list[ast.Constant]:
    """The texts of a module that are not docstrings."""
    docstrings = {
        id(statement.value)
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Expr)
    }
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    ]


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the wheel, its dependencies and no clone."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = ("-m", "pip", "-q", "--disable-pip-version-check")
    build = [sys.executable, *pip, "wheel", "--no-deps", "-w", folder, ROOT]
    subprocess.run(build, check=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    install = [python, *pip, "install", "-c", ROOT / "constraints.txt"]
    subprocess.run([*install, f"longplay[view] @ {wheel.as_uri()}"], check=True)
    return python.parent


@pytest.mark.exhaustive
def test_the_wheel_works_in_an_empty_environment(
    bin_folder: Path, tmp_path: Path
) -> None:
    """From a template to a first score, a report, and its pages in the viewer."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    command: dict[str, Any] = {"cwd": tmp_path, "env": environment}

    def run(*words: str) -> None:
        subprocess.run([bin_folder / "longplay", *words], check=True, **command)

    run("run", "control-smoke-v1", "--agent", "random", "--out", "random")
    run("new-agent", "my_agent.py")
    run("check-agent", "my_agent.py")
    run("run", "control-smoke-v1", "--agent", "my_agent.py", "--out", "mine")
    run("report", "random", "mine", "-o", "report")
    assert "my_agent" in (tmp_path / "report/index.html").read_text(encoding="utf-8")
    view = [bin_folder / "longplay", "view", ".", "--no-open", "--port", "0"]
    with subprocess.Popen(view, stdout=subprocess.PIPE, text=True, **command) as viewer:
        assert viewer.stdout is not None
        address = viewer.stdout.readline().split()[0]
        with urllib.request.urlopen(address, timeout=60) as page:
            assert "my_agent" in page.read().decode()
        viewer.send_signal(signal.SIGINT)
        assert viewer.wait(timeout=60) == 0


@pytest.mark.exhaustive
def test_links_of_the_description_work_on_an_index(
    bin_folder: Path, project: dict[str, Any]
) -> None:
    """README.md, whose links are relative: those of the wheel are addresses."""
    show = "from importlib.metadata import metadata; print(metadata('longplay'))"
    told = subprocess.run(
        [bin_folder / "python", "-I", "-c", show],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    relative = [link for link in links if not link.startswith(("http", "#"))]
    found = re.findall(r"\]\(([^)]+)\)", told)
    assert relative and len(found) == len(links)
    assert all(link.startswith("https://") for link in found)
    tag = f"longplay/longplay/blob/v{project['version']}/docs/tutorial.md"
    assert f"(https://github.com/{tag})" in told
