"""Sentences of the seed documents and markers of the tests -> tests/docs/seeds.md.

    python docs/generate/seed_table.py        writes the page again

    @pytest.mark.seed("000", "files-1", "events-2..14")

marks a test that executes these sentences of tests/docs/seed_sentences.toml;
`events-2..14` is events-2 to events-14. The markers are read without importing a test.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests" / "docs" / "seeds.md"
SENTENCES = ROOT / "tests" / "docs" / "seed_sentences.toml"

# Document and id of a sentence.
Key = tuple[str, str]

HEADINGS = {
    "000": "Benchmark Contract v1",
    "001": "EvalLog",
    "003": "Control and prediction benchmarks",
    "cube": "Tests of cube-harness",
}
INTRODUCTION = """# Specification and tests

longplay is specified by three documents: the streaming contract (000), the EvalLog
(001), and the control and prediction benchmarks (003). Each row is one sentence of
them, in short, and the tests that execute it. The last table has the 48 tests of the
EvalLog in cube-harness, where it comes from: name, idea, and the tests here that check
the same.

`make facts` generates this page from the markers of the tests. A sentence without a
test fails the tests.
"""


def read_sentences() -> dict[Key, str]:
    """Document and id -> sentence, in the order of the file."""
    documents = tomllib.loads(SENTENCES.read_text(encoding="utf-8"))
    return {
        (document, name): text
        for document, sentences in documents.items()
        for name, text in sentences.items()
    }


def find_marks() -> dict[Key, list[str]]:
    """Document and id -> the tests that are marked with it, as `file::test`."""
    found: dict[Key, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        place = path.relative_to(ROOT).as_posix()
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for key in _read_marks(node):
                    found.setdefault(key, []).append(f"{place}::{node.name}")
    return found


def _read_marks(test: ast.FunctionDef) -> Iterator[Key]:
    for decorator in test.decorator_list:
        if (
            isinstance(decorator, ast.Call)
            and ast.unparse(decorator.func) == "pytest.mark.seed"
        ):
            document, *names = (ast.literal_eval(arg) for arg in decorator.args)
            for name in names:
                yield from ((document, each) for each in _expand(name))


def _expand(name: str) -> list[str]:
    """`events-2..4` -> events-2, events-3, events-4."""
    first, _, last = name.partition("..")
    if not last:
        return [name]
    group, _, start = first.rpartition("-")
    return [f"{group}-{number}" for number in range(int(start), int(last) + 1)]


def render_page(sentences: Mapping[Key, str], marks: Mapping[Key, list[str]]) -> str:
    """The page: one table for each document."""
    parts = [INTRODUCTION]
    for document, heading in HEADINGS.items():
        title = heading if document == "cube" else f"{document}: {heading}"
        parts += [f"\n## {title}\n", "| id | sentence | tests |", "|---|---|---|"]
        last = ""
        for (owner, name), text in sentences.items():
            if owner == document:
                tests = _link(marks.get((owner, name), []))
                shown = "as above" if tests == last else tests
                parts.append(f"| {name} | {text} | {shown} |")
                last = tests
    return "\n".join(parts) + "\n"


def _link(tests: list[str]) -> str:
    links = []
    for test in tests:
        path, _, name = test.partition("::")
        place = path.removeprefix("tests/")
        links.append(f"[{name.removeprefix('test_').replace('_', ' ')}](../{place})")
    return ", ".join(links)


if __name__ == "__main__":
    PAGE.write_text(render_page(read_sentences(), find_marks()), encoding="utf-8")
