"""`longplay settings SUITE`: what `--set` and `--config` take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from longplay.cli.layout import add_row, make_table
from longplay.contract.config import RunConfig
from longplay.errors import ConfigError
from longplay.suites import Suite

_NOUNS = {
    "integer": "int",
    "number": "number",
    "boolean": "true, false",
    "string": "text",
}
# Larger bounds only keep numbers out that no schedule can have.
_LARGEST_SHOWN = 10**9
# From this length on a list is counted.
_LONG_LIST = 3


def list_settings(suite: Suite) -> list[dict[str, Any]]:
    """Every setting of a suite: its name, value, allowed values and meaning."""
    schema = type(suite).model_json_schema()
    return list(_iter_settings(suite, schema, schema["properties"], suite.settings))


def _iter_settings(
    suite: Suite,
    schema: dict[str, Any],
    properties: dict[str, Any],
    values: dict[str, Any],
    prefix: str = "",
) -> Iterator[dict[str, Any]]:
    for name, value in values.items():
        field = properties[name]
        if isinstance(value, dict):
            inner = schema["$defs"][field["$ref"].rpartition("/")[2]]["properties"]
            yield from _iter_settings(suite, schema, inner, value, f"{prefix}{name}.")
        else:
            yield {
                "setting": f"{prefix}{name}",
                "value": value,
                "expected": describe_values(field),
                "description": _describe(name, field),
                "can_be_changed": _can_change(suite, f"{prefix}{name}"),
            }


def describe_values(field: dict[str, Any]) -> str:
    """The values that a setting takes: `int ≥ 1`."""
    if "enum" in field:
        return ", ".join(json.dumps(value) for value in field["enum"])
    if "prefixItems" in field:
        return f"{field['minItems']} × {describe_values(field['prefixItems'][0])}"
    if field["type"] == "array":
        return f"list of {describe_values(field['items'])}"
    limits = {
        "≥": field.get("minimum"),
        ">": field.get("exclusiveMinimum"),
        "≤": field.get("maximum"),
        "<": field.get("exclusiveMaximum"),
    }
    shown = [
        f"{sign} {limit:g}"
        for sign, limit in limits.items()
        if limit is not None and limit < _LARGEST_SHOWN
    ]
    return " ".join([_NOUNS[field["type"]], ", ".join(shown)]).rstrip()


def _describe(name: str, field: dict[str, Any]) -> str:
    if "description" in field:
        return str(field["description"])
    return RunConfig.model_fields[name].description or ""


def _can_change(suite: Suite, name: str) -> bool:
    try:
        suite.check_change(name)
    except ConfigError:
        return False
    return True


def settings_table(suite: Suite, rows: Sequence[dict[str, Any]]) -> Table:
    """The settings of a suite as a table."""
    table = make_table(suite.suite_id, "setting", "value", "expected", left=(0, 1, 2))
    for row in rows:
        expected = row["expected"] if row["can_be_changed"] else "fixed"
        is_short = not isinstance(row["value"], list) or len(row["value"]) < _LONG_LIST
        value = json.dumps(row["value"]) if is_short else f"{len(row['value'])} of them"
        add_row(table, row["setting"], value, expected)
    table.caption = f"as in: longplay run {suite.suite_id} --set {_example(rows)}"
    table.caption_justify = "left"
    return table


def _example(rows: Sequence[dict[str, Any]]) -> str:
    name = next(row["setting"] for row in rows if "frames" in row["setting"])
    return f"{name}=5000"
