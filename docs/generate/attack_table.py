"""Attacking agents, by families -> the table in docs/trust.md of what was tried.

    python docs/generate/attack_table.py        writes the table

The attacks are the tables of tests/agents/isolation. The tests there play them: in a
sandbox all of them fail, and without the protection in the table all succeed.
"""

from __future__ import annotations

import sys

from forgeries import PAGE, ROOT, fill_table

# Family -> its tables, and the protection without which all of its attacks succeed.
_FAMILIES = {
    "learn from the referee": (("attacks.LEARNING",), "isolation"),
    "change the run": (("attacks.CHANGING",), "isolation"),
    "remember an earlier life": (("direct_attacks.REMEMBERING",), "the sandbox"),
    "reach outside: files, processes, kernel": (
        ("direct_attacks.REACHING",),
        "the sandbox",
    ),
    "have other files saved": (("direct_attacks.SAVING",), "opening without links"),
    "have files written elsewhere": (
        ("direct_attacks.LOADING",),
        "opening without links",
    ),
    "block the referee": (
        ("test_clock.OUT_OF_TURN", "test_clock.SLOW"),
        "the deadline and the order of messages",
    ),
}


def render_table() -> str:
    """One row per family, and the total."""
    sys.path.append(str(ROOT / "tests" / "agents" / "isolation"))
    lines = [
        "| agents that try to | attacks | succeed in a sandbox | all succeed without |"
    ]
    lines.append("| --- | --: | --: | --- |")
    total = 0
    for family, (tables, protection) in _FAMILIES.items():
        count = sum(map(_count, tables))
        total += count
        lines.append(f"| {family} | {count} | 0 | {protection} |")
    lines.append(f"| all | {total} | 0 | |")
    return "".join(f"{line}\n" for line in lines)


def _count(table: str) -> int:
    module, name = table.split(".")
    return len(getattr(__import__(module), name))


if __name__ == "__main__":
    page = PAGE.read_text("utf-8")
    PAGE.write_text(fill_table(page, render_table(), "attacks"), "utf-8")
