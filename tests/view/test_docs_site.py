"""The docs site in a browser: axe-core finds nothing serious, in both themes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from browsing import find_barriers, open_page

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def docs_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return folder


@pytest.mark.parametrize("stride", [8, pytest.param(2, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_docs_are_accessible(browser, docs_site, theme, stride):
    """Other pages in each theme: the theme's own parts are on all of them."""
    pages = sorted(docs_site.rglob("index.html"))
    assert len(pages) > 20
    page = open_page(browser, pages[0].as_uri(), color_scheme=theme).page
    found = {}
    for path in pages[theme == "dark" :: stride]:
        page.goto(path.as_uri())
        found[path.parent.name] = find_barriers(page, is_ours=False)
    assert {name: barriers for name, barriers in found.items() if barriers} == {}
