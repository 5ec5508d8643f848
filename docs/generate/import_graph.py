"""Source files -> which room imports which; draws docs/architecture.md's picture.

    python docs/generate/import_graph.py        writes the picture again

A room is a folder or a module directly below `src/longplay`. Every import counts:
those inside functions and those for type checkers too. The order of rooms is the order
in which docs/architecture.md lists them, and a room imports only rooms above it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/longplay"
PAGE = ROOT / "docs/architecture.md"

# They stand outside the order: one names the public API, the other starts the program.
_OUTSIDE = ("__init__", "__main__")
_PICTURE = re.compile(r"(<!-- import graph -->\n).*?(<!-- end -->)", flags=re.DOTALL)


class RoomImport(NamedTuple):
    """One import of a room by another, with its place."""

    importer: str
    imported: str
    place: str


def read_room_order(page: str) -> list[str]:
    """The rooms, from the tree that architecture.md prints."""
    tree = page.split("src/longplay/\n")[1].split("\ntests/", maxsplit=1)[0]
    names = [line.split()[0] for line in tree.splitlines() if re.match(r"  \S", line)]
    rooms = [name.rstrip("/").removesuffix(".py") for name in names]
    return [room for room in rooms if room not in _OUTSIDE]


def find_imports(package: Path = PACKAGE) -> list[RoomImport]:
    """Every import of one room by another."""
    found = []
    for path in sorted(package.rglob("*.py")):
        relative = path.relative_to(package)
        importer = relative.parts[0].removesuffix(".py")
        if importer in _OUTSIDE:
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
            yield rest.split(".")[0]


def find_violations(imports: list[RoomImport], order: list[str]) -> list[str]:
    """Imports of a room that does not stand above the importing one."""
    rank = {room: number for number, room in enumerate(order)}
    return [
        f"{found.place}: {found.importer} imports {found.imported}, which does not "
        "stand above it in docs/architecture.md"
        for found in imports
        if rank.get(found.imported, len(order)) >= rank[found.importer]
    ]


def draw_graph(imports: list[RoomImport], order: list[str]) -> str:
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
    picture = draw_graph(find_imports(), read_room_order(page))
    return _PICTURE.sub(lambda mark: mark[1] + picture + mark[2], page)


if __name__ == "__main__":
    PAGE.write_text(fill_picture(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
