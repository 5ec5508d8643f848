"""JSON Schemas of every file of a run directory, generated from the records.

    python -m longplay.contract.schema          writes them, and the tables in docs/

The files beside this module are what other tools read. They and the field tables of
docs/contract.md are generated; a test fails when they drift from the records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from longplay.contract.records import (
    Document,
    EpisodeRow,
    EventRow,
    RequiredEventRow,
    RunConfig,
    RunStatus,
    RunSummary,
    Score,
    SegmentRow,
)

FOLDER = Path(__file__).parent

ROWS: dict[str, type[msgspec.Struct]] = {
    "events.jsonl": EventRow,
    "episodes.jsonl": EpisodeRow,
    "segments.jsonl": SegmentRow,
}
DOCUMENTS: dict[str, type[Document]] = {
    "config.json": RunConfig,
    "score.json": Score,
    "run_summary.json": RunSummary,
    "status.json": RunStatus,
}


def make_schemas() -> dict[str, dict[str, Any]]:
    """File of a run directory -> the JSON Schema of its rows or of itself."""
    rows = {name: _row_schema(row) for name, row in ROWS.items()}
    documents = {
        name: model.model_json_schema(mode="serialization")
        for name, model in DOCUMENTS.items()
    }
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {name: {**dialect, **schema} for name, schema in (rows | documents).items()}


def _row_schema(row: type[msgspec.Struct]) -> dict[str, Any]:
    schema = msgspec.json.schema(row)
    (definition,) = schema["$defs"].values()
    return dict(definition)


def schema_path(file_name: str) -> Path:
    """Where the schema of a file of the run directory is kept."""
    return FOLDER / f"{file_name}.schema.json"


def render_schema(schema: dict[str, Any]) -> str:
    """The text of a schema file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


# --- field tables of the documentation --------------------------------------------

_MARK = re.compile(
    r"(<!-- fields: (?P<name>[\w.]+) -->\n).*?(<!-- end -->)", flags=re.DOTALL
)


def fill_tables(text: str) -> str:
    """Fills every `<!-- fields: FILE --> … <!-- end -->` of a page."""
    tables = {name: "\n".join(_table(name)) for name in (*ROWS, *DOCUMENTS)}
    return _MARK.sub(lambda m: f"{m[1]}{tables[m['name']]}\n{m[3]}", text)


def _table(file_name: str) -> Iterator[str]:
    schema = make_schemas()[file_name]
    required = _required_names(file_name)
    yield "| key | type | required by v1 | meaning |"
    yield "|---|---|---|---|"
    for name, field in _fields(schema, schema.get("$defs", {})):
        mark = "yes" if re.split(r"\W", name)[0] in required else ""
        meaning = field.get("description", "")
        yield f"| `{name}` | {_type_name(field)} | {mark} | {meaning} |"


def _fields(
    schema: dict[str, Any], definitions: dict[str, Any], prefix: str = ""
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field, those of inner objects as `outer.inner` or `outer[].inner`."""
    for name, field in schema["properties"].items():
        yield f"{prefix}{name}", field
        for inner, suffix in ((field, "."), (field.get("items", {}), "[].")):
            for option in (inner, *inner.get("anyOf", ())):
                if "$ref" in option:
                    target = definitions[option["$ref"].rpartition("/")[2]]
                    yield from _fields(target, definitions, f"{prefix}{name}{suffix}")


def _required_names(file_name: str) -> set[str]:
    if file_name == "events.jsonl":
        return set(RequiredEventRow.__struct_fields__)
    if file_name in ROWS:
        return set(make_schemas()[file_name]["required"])
    if file_name in ("config.json", "score.json"):
        fields = DOCUMENTS[file_name].model_fields.items()
        return {name for name, field in fields if field.is_required()}
    return set()


def _type_name(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(map(_type_name, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f'`"{value}"`' for value in schema["enum"])
    if "$ref" in schema:
        return "object"
    if schema.get("type") == "array":
        items = schema.get("items") or schema["prefixItems"][0]
        return f"list of {_type_name(items)}"
    name: str = schema["type"]
    return {"integer": "int", "boolean": "bool", "string": "str"}.get(name, name)
