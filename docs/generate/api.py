"""Public names of `longplay` -> docs/api.md.

    python docs/generate/api.py        writes the page again

Each name gets its signature and the paragraphs of its docstring. A public name that is
in no group is an error: the page lists all of `longplay.__all__`.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import longplay

PAGE = Path(__file__).parents[1] / "api.md"

GROUPS = {
    "Running": ("run", "Experiment", "ExperimentResult", "RunResult"),
    "Studies": ("study", "StudyResult"),
    "Probing": ("probe", "ProbeResult"),
    "Comparing": ("compare", "plot", "report", "Comparison", "Figure"),
    "Reading": (
        "read_run",
        "read_experiment",
        "RunDirectory",
        "ExperimentDirectory",
        "Table",
    ),
    "Checking and scoring": (
        "validate_run",
        "Report",
        "verify_run",
        "Verification",
        "score_run",
        "Score",
        "ControlScore",
        "PredictionScore",
    ),
    "Agents": ("load_agent", "LoadedAgent"),
    "Suites": ("get_suite", "Suite"),
}

_INTRODUCTION = """# Python API

Everything below is exported by `import longplay`. Other documented modules are
`longplay.gym` ([agents.md](agents.md#gymnasium)),
`longplay.eval_log` ([eval_log.md](eval_log.md)),
`longplay.learners` ([learners.md](learners.md)),
`longplay.lab.analysis.table` ([analysis.md](analysis.md#from-python)) and
`longplay.verify.frames` ([video.md](video.md#from-python));
[architecture.md](architecture.md#to-add-something) has the calls that add suites,
tracks and consoles. Anything else is internal. This page is generated from the code
(`make facts`). The [glossary](glossary.md) explains its terms.

`longplay.__version__` is the installed version.
"""
_STARS = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_LINE_WIDTH = 88
_SECTIONS = re.compile(r"^(Args|Returns|Raises|Yields|Attributes):$", re.MULTILINE)


class UnlistedNameError(Exception):
    """A public name that is in no group, or a group with a name that is not public."""


def render_page() -> str:
    """The whole page."""
    errors = [name for name in longplay.__all__ if _is_error(name)]
    grouped = {name for names in GROUPS.values() for name in names}
    if different := grouped.union(errors, ["__version__"]) ^ set(longplay.__all__):
        raise UnlistedNameError(f"docs/generate/api.py: GROUPS, {sorted(different)}")
    parts = [_INTRODUCTION]
    for title, names in GROUPS.items():
        parts += [f"## {title}\n", *map(_render_name, names)]
    parts += ["## Errors\n", _render_errors(errors)]
    return "\n".join(parts)


def _is_error(name: str) -> bool:
    value = getattr(longplay, name)
    return inspect.isclass(value) and issubclass(value, Exception)


def _render_name(name: str) -> str:
    value = getattr(longplay, name)
    parts = [f"### `{name}`\n", f"```python\n{_describe_signature(name, value)}\n```\n"]
    parts.append(f"{_render_doc(value)}\n")
    if inspect.isclass(value):
        parts += [f"{line}\n" for line in _render_members(value)]
    return "\n".join(parts)


def _describe_signature(name: str, value: Any) -> str:
    """`run(suite: str, …) -> …`, with one parameter per line if it is long."""
    if inspect.isclass(value):
        return f"class {name}"
    signature = inspect.signature(value)
    parameters = list(_list_parameters(signature))
    answer = f" -> {signature.return_annotation}"
    line = f"{name}({', '.join(parameters)}){answer}"
    if len(line) <= _LINE_WIDTH:
        return line
    listed = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{name}(\n{listed}){answer}"


def _list_parameters(signature: inspect.Signature) -> Iterator[str]:
    """The parameters as source text; all annotations are strings in longplay."""
    has_star = False
    for parameter in signature.parameters.values():
        has_star = has_star or parameter.kind is parameter.VAR_POSITIONAL
        if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            has_star = True
            yield "*"
        default = ""
        if parameter.default is not parameter.empty:
            value = parameter.default
            default = f" = {getattr(value, '__name__', repr(value))}"
        stars = _STARS.get(parameter.kind, "")
        yield f"{stars}{parameter.name}: {parameter.annotation}{default}"


def _render_doc(value: Any) -> str:
    """The prose of a docstring, and its sections as lists."""
    doc = inspect.getdoc(value) or ""
    prose, *sections = _SECTIONS.split(doc)
    parts = [prose.strip()]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        parts.append(f"{title}:\n\n{_render_section(body)}")
    return "\n\n".join(parts)


def _render_section(body: str) -> str:
    """`name: text` entries as a list; other text as it is."""
    entries = re.findall(
        r"^(\w+): (.*(?:\n {2,}.*)*)", textwrap.dedent(body).strip(), re.MULTILINE
    )
    if not entries:
        return textwrap.dedent(body).strip()
    return "\n".join(f"- `{name}`: {' '.join(text.split())}" for name, text in entries)


def _render_members(cls: type) -> Iterator[str]:
    """The public methods and properties that a class defines itself."""
    members = []
    for name, member in vars(cls).items():
        function = getattr(member, "__func__", getattr(member, "fget", member))
        function = getattr(function, "func", function)  # a cached property
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        summary = (inspect.getdoc(function) or "").partition("\n\n")[0]
        call = "()" if callable(getattr(cls, name, None)) else ""
        members.append(f"| `{name}{call}` | {' '.join(summary.split())} |")
    if members:
        yield "\n".join(["| member | |", "|---|---|", *members])


def _render_errors(names: list[str]) -> str:
    """The errors as a table, with the exit code of the command line."""
    rows = ["| error | base | exit code | meaning |", "|---|---|---|---|"]
    for name in names:
        error = getattr(longplay, name)
        summary = " ".join((inspect.getdoc(error) or "").partition("\n\n")[0].split())
        base = error.__base__.__name__
        rows.append(f"| `{name}` | `{base}` | {error.exit_code} | {summary} |")
    return "\n".join([*rows, ""])


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
