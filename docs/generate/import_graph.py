"""Source files -> docs/architecture.md's tree, and its picture of imports.

    python docs/generate/import_graph.py        writes both again

A room is a folder or a module directly below `src/longplay`, or a folder of the lab.
Every import counts: those inside functions and those for type checkers too. A room
imports only rooms before it in `ROOMS`; so the benchmark never imports the lab. What a
module is for is the first line of its docstring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/longplay"
TOOLS = ROOT / "tools"
PAGE = ROOT / "docs/architecture.md"

# In the order of imports. The benchmark, then learners and the lab, then the commands.
BENCHMARK = (
    "errors",
    "tables",
    "plugins",
    "contract",
    "provenance",
    "console",
    "suites",
    "schedule",
    "seeds",
    "driver",
    "stream",
    "reference",
    "scoring",
    "agents",
    "tracks",
    "plan",
    "probes",
    "agreement",
    "validation",
    "runs",
    "verify",
    "eval_log",
    "experiments",
    "gym",
)
LAB = (
    "lab/analysis",
    "lab/probes",
    "lab/studies",
    "lab/atlas",
    "lab/report",
    "lab/viewer",
)
ROOMS = (*BENCHMARK, "learners", *LAB, "cli")

# They stand outside the order: one names the public API, the other starts the program.
_OUTSIDE = ("__init__", "__main__")
_TREE = re.compile(r"(<!-- tree -->\n).*?(<!-- end -->)", flags=re.DOTALL)
_COLUMN = 27
_PICTURE = re.compile(r"(<!-- import graph -->\n).*?(<!-- end -->)", flags=re.DOTALL)


class RoomImport(NamedTuple):
    """One import of a room by another, with its place."""

    importer: str
    imported: str
    place: str


def room_of(parts: Sequence[str]) -> str:
    """The room of a path or a dotted name below the package."""
    first = parts[0].removesuffix(".py")
    return f"lab/{parts[1]}" if first == "lab" and len(parts) > 1 else first


def find_imports(package: Path = PACKAGE) -> list[RoomImport]:
    """Every import of one room by another."""
    found = []
    for path in sorted(package.rglob("*.py")):
        relative = path.relative_to(package)
        importer = room_of(relative.parts)
        if importer in _OUTSIDE or relative.as_posix() == "lab/__init__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for imported in _rooms_named_by(node, relative.parent.parts):
                if imported != importer:
                    place = f"{relative.as_posix()}:{node.lineno}"
                    found.append(RoomImport(importer, imported, place))
    return found


def _rooms_named_by(node: ast.AST, folders: tuple[str, ...]) -> Iterator[str]:
    modules: list[str] = []
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = folders[: len(folders) - node.level + 1]
            base = ".".join(("longplay", *above, *filter(None, [node.module])))
        modules = [base]
        if base == "longplay":
            modules = [f"longplay.{alias.name}" for alias in node.names]
    for module in modules:
        package, _, rest = module.partition(".")
        if package == "longplay" and rest:
            yield room_of(rest.split("."))


def find_violations(
    imports: list[RoomImport], order: Sequence[str] = ROOMS
) -> list[str]:
    """Imports of a room that does not stand above the importing one."""
    rank = {room: number for number, room in enumerate(order)}
    return [
        f"{found.place}: {found.importer} imports {found.imported}, which does not "
        "stand before it in docs/generate/import_graph.py"
        for found in imports
        if rank.get(found.imported, len(order)) >= rank[found.importer]
    ]


def draw_graph(imports: list[RoomImport], order: Sequence[str] = ROOMS) -> str:
    """The graph as Mermaid text, without edges that follow from others."""
    edges = {room: set[str]() for room in order}
    for found in imports:
        edges[found.importer].add(found.imported)
    reached: dict[str, set[str]] = {}
    lines = ["```mermaid", "graph BT"]
    for room in order:
        direct = edges[room]
        through = {far for near in direct for far in reached[near]}
        reached[room] = direct | through
        kept = [near for near in order if near in direct - through]
        lines += [f"  {room} --> {near}" for near in kept]
    return "\n".join([*lines, "```", ""])


def fill_picture(page: str) -> str:
    """The page with the picture of the imports as they are."""
    picture = draw_graph(find_imports())
    return _PICTURE.sub(lambda mark: mark[1] + picture + mark[2], page)


def draw_tree(package: Path = PACKAGE) -> str:
    """The rooms in the order of imports, their modules by name; then the tools."""
    lines = ["```", "src/longplay/"]
    for room in dict.fromkeys(room.split("/")[0] for room in ROOMS):
        path = package / room
        lines += _draw(path, 1) if path.is_dir() else [_line(path, 1)]
    tools = [*sorted(TOOLS.glob("*.py")), TOOLS / "references"]
    lines += ["tools/", *(_line(path, 1) for path in tools)]
    return "\n".join([*lines, "```", ""])


def _draw(folder: Path, depth: int) -> Iterator[str]:
    yield _line(folder, depth)
    modules = [path for path in folder.glob("*.py") if path.stem not in _OUTSIDE]
    yield from (_line(path, depth + 1) for path in sorted(modules))
    rooms = {path.parent for path in folder.glob("*/__init__.py")}
    for room in sorted(rooms, key=_place):
        yield from _draw(room, depth + 1)


def _place(room: Path) -> tuple[int, str]:
    """Rooms of the lab in the order of imports, others by name."""
    name = f"{room.parent.name}/{room.name}"
    return (LAB.index(name) if name in LAB else 0), room.name


def _line(path: Path, depth: int) -> str:
    """A file or folder, and the first line of its docstring."""
    name = f"{path.name}/" if path.is_dir() else f"{path.name.removesuffix('.py')}.py"
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    start = f"{'  ' * depth}{name}"
    return f"{start:{_COLUMN}} {text.partition(chr(10))[0].rstrip('.')}".rstrip()


def fill_tree(page: str) -> str:
    """The page with the tree as it is."""
    return _TREE.sub(lambda mark: mark[1] + draw_tree() + mark[2], page)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(fill_tree(fill_picture(text)), encoding="utf-8")
