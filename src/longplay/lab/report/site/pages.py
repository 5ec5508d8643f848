"""Templates and plain values -> pages that open from disk without a server."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longplay.contract.files import (
    make_directory_beside,
    move_directory,
    remove_directory,
    write_file,
)
from longplay.errors import MissingExtraError, OutputError, escape_lines

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
        raise MissingExtraError.of("pages need jinja2", "report") from error
    environment = Environment(
        loader=PackageLoader("longplay.lab.report.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_show_value,
    )
    environment.policies["json.dumps_function"] = dump_json
    return environment


def _show_value(value: Any) -> Any:
    """Text with invisible characters as escapes; `Markup` is a template's own."""
    return escape_lines(value) if type(value) is str else value


def dump_json(value: Any, **options: Any) -> str:
    """JSON that a page shows: texts in it are escaped as those of a page are."""
    return json.dumps(_escape_texts(value), **options)


def _escape_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {escape_lines(str(k)): _escape_texts(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_escape_texts(item) for item in value]
    return _show_value(value)


def render_page(template: str, **values: Any) -> bytes:
    """Fills a template."""
    text = make_environment().get_template(template).render(**values)
    return text.encode()


def read_static(name: str) -> bytes:
    """The style sheet or the script."""
    return (resources.files("longplay.lab.report.site") / "static" / name).read_bytes()


def make_slug(text: str, taken: Sequence[str]) -> str:
    """An unused file name of letters, digits and dashes."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].rstrip("-")
    slug = slug or "unnamed"
    name, number = slug, 2
    while name in taken:
        name, number = f"{slug}-{number}", number + 1
    return name


@contextlib.contextmanager
def writing_site(directory: Path) -> Iterator[Path]:
    """A new folder for pages, with the style sheet and the script.

    It is beside the directory and becomes it at the end, so that a command which is
    killed leaves nothing that the next one would refuse to replace.

    Raises:
        OutputError: The directory exists and is not empty.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise OutputError(f"{directory} exists and is not empty; choose another folder")
    target = directory.absolute()
    folder = make_directory_beside(target)
    try:
        for name in _STATIC:
            write_file(folder / name, read_static(name))
        yield folder
        if target.is_dir():
            target.rmdir()
        move_directory(folder, target)
    except BaseException:
        remove_directory(folder)
        raise
