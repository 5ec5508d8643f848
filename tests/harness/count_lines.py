"""Source files -> lines by room, as a table: raw, and code alone.

    python tests/harness/count_lines.py [FOLDER]

FOLDER is `src/longplay` of this or another checkout. Code is what is left without
docstrings, comments and blank lines; a statement over three lines counts as three.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "longplay"
_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def count_code(source: str) -> int:
    """Lines with code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {
        line
        for token in tokens
        if token.type not in _NOT_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - find_docstrings(source))


def find_docstrings(source: str) -> set[int]:
    """The lines of docstrings."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, owners) and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }


def count_rooms(package: Path) -> list[tuple[str, int, int, int]]:
    """Room, modules, raw lines, lines of code; rooms with most code first."""
    modules, raw, code = Counter[str](), Counter[str](), Counter[str]()
    for path in sorted(package.rglob("*.py")):
        first, *rest = path.relative_to(package).parts
        room = f"{first}/" if rest else first
        source = path.read_text(encoding="utf-8")
        modules[room] += 1
        raw[room] += len(source.splitlines())
        code[room] += count_code(source)
    return [
        (room, modules[room], raw[room], lines) for room, lines in code.most_common()
    ]


def render(rooms: list[tuple[str, int, int, int]]) -> str:
    total = ("in all", *(sum(column) for column in list(zip(*rooms, strict=True))[1:]))
    rows = [f"| {name} | {m:,} | {r:,} | {c:,} |" for name, m, r, c in (*rooms, total)]
    head = ["| room | modules | raw lines | code |", "|---|--:|--:|--:|"]
    return "\n".join([*head, *rows])


if __name__ == "__main__":
    print(render(count_rooms(Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE)))
