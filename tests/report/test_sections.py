"""The parts that pages of one suite share."""

from __future__ import annotations

from longplay.report.sections import table_differences

LONG = "a_name_that_is_longer_than_a_cell"


def texts(**configs: object) -> list[list[str]]:
    table = table_differences({label: {"setting": v} for label, v in configs.items()})
    assert table is not None
    return [[cell.text for cell in row] for row in table.rows]


def test_long_settings_are_cut_unless_they_would_look_alike():
    assert texts(a=f"x{LONG}", b=f"y{LONG}") == [
        ["setting", "xa_name_that_is_longer_…", "ya_name_that_is_longer_…"]
    ]
    assert texts(a=f"{LONG}_1", b=f"{LONG}_2", c=None) == [
        ["setting", f"{LONG}_1", f"{LONG}_2", "–"]
    ]


def test_equal_settings_are_left_out():
    same = {"args": {"rate": 0.1}, "seed": 1}
    assert table_differences({"a": same, "b": dict(same)}) is None
    found = table_differences({"a": same, "b": {**same, "args": {"rate": 0.2}}})
    assert found is not None
    assert [[cell.text for cell in row] for row in found.rows] == [
        ["args.rate", "0.1", "0.2"]
    ]
