"""What pyproject.toml promises: extras that hints name, versions that are safe."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from longplay.errors import MissingExtraError

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
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    versions = ", ".join(f'"{version}"' for version in classified)
    assert f"python: [{versions}]" in workflow
