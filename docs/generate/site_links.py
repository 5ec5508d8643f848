"""Hooks of mkdocs: links to source files lead to the repository; the search has a name.

On GitHub `../examples/x.py` works as it is; on the docs site there is no such file. A
link to a file that does not exist fails the build. The theme leaves its search dialog
without a name, which screen readers would read out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_SEARCH = 'data-md-component="search" role="dialog"'
_LINK = re.compile(r"\]\(\.\./([^)#\s]+)")


class BrokenLinkError(Exception):
    """A page links to a file that the repository does not have."""


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Rewrites the links of one page; mkdocs calls it by this name."""
    return link_to_repository(markdown, page.file.src_path, config.repo_url)


def link_to_repository(markdown: str, page: str, repo_url: str) -> str:
    """The page with links out of docs/ turned into links to the repository."""

    def rewrite(found: re.Match[str]) -> str:
        target = found[1]
        if not (ROOT / target).exists():
            raise BrokenLinkError(f"docs/{page}: there is no file {target}")
        return f"]({repo_url.rstrip('/')}/blob/main/{target}"

    return _LINK.sub(rewrite, markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Names the search dialog of a finished page; mkdocs calls it by this name."""
    return output.replace(_SEARCH, f'{_SEARCH} aria-label="Search"')
