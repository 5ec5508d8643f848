"""Records -> JSON Schemas and the field tables of the documentation.

    python docs/generate/schemas.py

Other tools read the schema files, `schema/*.json` in the package. They and the field
tables in docs/ are generated; a test fails when they drift from the records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import longplay
from longplay.contract.config import RunConfig
from longplay.contract.documents import (
    ControlScore,
    Document,
    PredictionScore,
    RunStatus,
    RunSummary,
    Score,
    VerificationRecord,
)
from longplay.contract.rows import (
    CurveRow,
    DigestRow,
    EpisodeRow,
    EventRow,
    PredictionRow,
    RequiredEventRow,
    SegmentRow,
    TimestepRow,
)
from longplay.eval_log.records import EpisodeRecord, ExperimentRecord

_MARK = re.compile(
    r"(<!-- fields: (?P<name>[\w.]+) -->\n).*?(<!-- end -->)", flags=re.DOTALL
)
_DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
# Listed once per file, although every nested record has them.
_REPEATED = ("_type", "schema_version")


@dataclass(frozen=True)
class SchemaSet:
    """The schemas of related files, their folder, and their page in the docs."""

    folder: Path
    page: Path
    documents: Mapping[str, type[Document]]
    rows: Mapping[str, type[msgspec.Struct]] = field(default_factory=dict)
    # File -> the keys that other tools must write; adds a column to its table.
    required: Mapping[str, set[str]] = field(default_factory=dict)
    # File -> the file whose fields it has, too; its table lists the others.
    extends: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_names(self) -> tuple[str, ...]:
        """The files described, rows first."""
        return (*self.rows, *self.documents)

    def make_schemas(self) -> dict[str, dict[str, Any]]:
        """File -> the JSON Schema of its rows, or of the document."""
        rows = {name: _row_schema(row) for name, row in self.rows.items()}
        documents = {
            name: model.model_json_schema(mode="serialization")
            for name, model in self.documents.items()
        }
        schemas = (rows | documents).items()
        return {name: {**_DIALECT, **schema} for name, schema in schemas}

    def schema_path(self, file_name: str) -> Path:
        """Where the schema of a file is kept."""
        return self.folder / f"{file_name}.schema.json"

    def fill_tables(self, text: str) -> str:
        """Fills every `<!-- fields: FILE --> … <!-- end -->` of a page."""
        schemas = self.make_schemas()
        tables = {name: "\n".join(self._table(name, schemas)) for name in schemas}
        return _MARK.sub(lambda m: f"{m[1]}{tables[m['name']]}\n{m[3]}", text)

    def write(self) -> None:
        """Writes the schema files, and the tables of the page."""
        for name, schema in self.make_schemas().items():
            text = render_schema(schema)
            self.schema_path(name).write_text(text, encoding="utf-8")
        text = self.page.read_text(encoding="utf-8")
        self.page.write_text(self.fill_tables(text), encoding="utf-8")

    def _table(
        self, file_name: str, schemas: Mapping[str, dict[str, Any]]
    ) -> Iterator[str]:
        heads = ["key", "type", "required", "meaning"]
        if file_name not in self.required:
            heads.remove("required")
        yield f"| {' | '.join(heads)} |"
        yield "|---" * len(heads) + "|"
        base = self.extends.get(file_name)
        known = set(self._list_fields(base, schemas[base])) if base else set()
        rows = self._list_fields(file_name, schemas[file_name])
        yield from (row for row in rows if row not in known)

    def _list_fields(self, file_name: str, schema: dict[str, Any]) -> Iterator[str]:
        for name, entry in _fields(schema, schema.get("$defs", {})):
            cells = [f"`{name}`", _type_name(entry), entry.get("description", "")]
            if file_name in self.required:
                required = re.split(r"\W", name)[0] in self.required[file_name]
                cells.insert(2, "yes" if required else "")
            yield f"| {' | '.join(cells)} |"


def _row_schema(row: type[msgspec.Struct]) -> dict[str, Any]:
    schema = msgspec.json.schema(row)
    (definition,) = schema["$defs"].values()
    return dict(definition)


def render_schema(schema: dict[str, Any]) -> str:
    """The text of a schema file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _fields(
    schema: dict[str, Any], definitions: dict[str, Any], prefix: str = ""
) -> Iterator[tuple[str, dict[str, Any]]]:
    """All fields; those of nested objects as `outer.inner` or `outer[].inner`."""
    for name, entry in schema["properties"].items():
        if prefix and name in _REPEATED:
            continue
        yield f"{prefix}{name}", entry
        for inner, suffix in ((entry, "."), (entry.get("items", {}), "[].")):
            for option in (inner, *inner.get("anyOf", ())):
                if "$ref" in option:
                    target = definitions[option["$ref"].rpartition("/")[2]]
                    yield from _fields(target, definitions, f"{prefix}{name}{suffix}")


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


def _required_keys(model: type[Document]) -> set[str]:
    return {name for name, key in model.model_fields.items() if key.is_required()}


_PACKAGE = Path(longplay.__file__).parent

RUN_DIRECTORY = SchemaSet(
    folder=_PACKAGE / "contract" / "schema",
    page=Path("docs/contract.md"),
    rows={
        "events.jsonl": EventRow,
        "control.events.jsonl": TimestepRow,
        "prediction.events.jsonl": PredictionRow,
        "episodes.jsonl": EpisodeRow,
        "segments.jsonl": SegmentRow,
        "digests.jsonl": DigestRow,
        "curves.jsonl": CurveRow,
    },
    documents={
        "config.json": RunConfig,
        "score.json": Score,
        "control.score.json": ControlScore,
        "prediction.score.json": PredictionScore,
        "run_summary.json": RunSummary,
        "status.json": RunStatus,
        "verification.json": VerificationRecord,
    },
    required={
        "events.jsonl": set(RequiredEventRow.__struct_fields__),
        "control.events.jsonl": set(TimestepRow.__struct_fields__),
        "prediction.events.jsonl": set(PredictionRow.__struct_fields__),
        "episodes.jsonl": set(EpisodeRow.__struct_encode_fields__),
        "segments.jsonl": set(SegmentRow.__struct_encode_fields__),
        "config.json": _required_keys(RunConfig),
        "score.json": _required_keys(Score),
        "control.score.json": _required_keys(ControlScore),
        "prediction.score.json": _required_keys(PredictionScore),
    },
    extends={
        "control.events.jsonl": "events.jsonl",
        "prediction.events.jsonl": "control.events.jsonl",
        "control.score.json": "score.json",
        "prediction.score.json": "score.json",
    },
)

# A line of an exported JSONL file is described by episode_record.json's.
EVAL_LOG = SchemaSet(
    folder=_PACKAGE / "eval_log" / "schema",
    page=Path("docs/eval_log.md"),
    documents={
        "experiment_record.json": ExperimentRecord,
        "episode_record.json": EpisodeRecord,
    },
)


if __name__ == "__main__":
    RUN_DIRECTORY.write()
    EVAL_LOG.write()
