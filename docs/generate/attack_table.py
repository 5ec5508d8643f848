"""Attacking agents, by families -> the table in docs/trust.md of what was tried.

    python docs/generate/attack_table.py        writes the table

The attacks are the tables of tests/agents/isolation. The tests there play them at each
level that has a number in the table, or without the check that it names.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from forgeries import PAGE, ROOT, fill_table

_LEVELS = ("none", "process", "sandbox")
_EVERY, _NOT_PLAYED = "all", "–"


@dataclass(frozen=True)
class _Family:
    """Attacks with one aim.

    Attributes:
        tables: Module and name of each table of attacks.
        stopped: Level -> the table of those that fail there, or `_EVERY`; those of
            other levels were not played.
        check: Without it, all of them succeed.
    """

    tables: tuple[str, ...]
    stopped: Mapping[str, str] = field(default_factory=dict)
    check: str = ""


_NONE = "attacks.STOPPED_BY_NOTHING"
_CHECKED = {"sandbox": _EVERY}
_FAMILIES = {
    "learn from the referee": _Family(
        ("attacks.LEARNING",),
        {
            "none": _NONE,
            "process": "attacks.NOT_LEARNING_IN_A_PROCESS",
            "sandbox": _EVERY,
        },
    ),
    "change the run": _Family(
        ("attacks.CHANGING",),
        {
            "none": _NONE,
            "process": "attacks.NOT_CHANGING_IN_A_PROCESS",
            "sandbox": _EVERY,
        },
    ),
    "remember an earlier life": _Family(
        ("direct_attacks.REMEMBERING",), {"process": _NONE, "sandbox": _EVERY}
    ),
    "reach outside: files, processes, kernel": _Family(
        ("direct_attacks.REACHING",), {"process": _NONE, "sandbox": _EVERY}
    ),
    "have other files saved": _Family(
        ("direct_attacks.SAVING",), _CHECKED, "opening without links"
    ),
    "have files written elsewhere": _Family(
        ("direct_attacks.LOADING",), _CHECKED, "opening without links"
    ),
    "block the referee": _Family(
        ("test_clock.OUT_OF_TURN", "test_clock.SLOW"),
        {"process": _EVERY, "sandbox": _EVERY},
        "the deadline and the order of messages",
    ),
}


def render_table() -> str:
    """One row per family, and the total."""
    sys.path.append(str(ROOT / "tests" / "agents" / "isolation"))
    heads = " | ".join(f"`{level}`" for level in _LEVELS)
    lines = [
        f"| agents that try to | attacks | {heads} | all succeed without |",
        "| --- | --: | --: | --: | --: | --- |",
    ]
    total = 0
    for name, family in _FAMILIES.items():
        count = sum(map(_count, family.tables))
        total += count
        cells = " | ".join(_count_successes(family, level, count) for level in _LEVELS)
        lines.append(f"| {name} | {count} | {cells} | {family.check} |")
    lines.append(f"| all | {total} | | | 0 | |")
    return "".join(f"{line}\n" for line in lines)


def _count_successes(family: _Family, level: str, count: int) -> str:
    stopped = family.stopped.get(level)
    if stopped is None:
        return _NOT_PLAYED
    return str(0 if stopped == _EVERY else count - _count(stopped))


def _count(table: str) -> int:
    module, name = table.split(".")
    return len(getattr(__import__(module), name))


if __name__ == "__main__":
    page = PAGE.read_text("utf-8")
    PAGE.write_text(fill_table(page, render_table(), "attacks"), "utf-8")
