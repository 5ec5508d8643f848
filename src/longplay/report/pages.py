"""Templates and plain values -> pages that open from disk without a server."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longplay.contract.files import make_directory, write_file
from longplay.errors import MissingExtraError, OutputError

if TYPE_CHECKING:
    from jinja2 import Environment

_STATIC = ("style.css", "page.js")


@cache
def make_environment() -> Environment:
    """The templates; all values are escaped.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("pages need jinja2: pip install '.[report]'") from error
    return Environment(
        loader=PackageLoader("longplay.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_page(template: str, **values: Any) -> bytes:
    """Fills a template."""
    text = make_environment().get_template(template).render(**values)
    return text.encode()


def read_static(name: str) -> bytes:
    """The style sheet or the script."""
    return (resources.files("longplay.report") / "static" / name).read_bytes()


def make_site_folder(directory: Path) -> None:
    """Creates a folder for pages, with the style sheet and the script.

    Raises:
        OutputError: The folder exists and is not empty.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise OutputError(f"{directory} exists and is not empty; choose another folder")
    make_directory(directory, exist_ok=True)
    for name in _STATIC:
        write_file(directory / name, read_static(name))
