"""Exported records: each names its type, independent of the module of its class.

    _type := longplay.eval_log.<Class>

The name is a constant of the format. When a class moves, existing records stay
readable, and a task's hash, which covers the name, stays the same. Names that longplay
0.1 wrote are still read.
"""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from longplay.contract.records import Document
from longplay.contract.versions import SCHEMA_VERSION

_NAMESPACE = "longplay.eval_log"
# Where the classes lived when their module was part of the name.
_OLD_NAMESPACES = (
    "longplay.evallog.records",
    "longplay.evallog.export",
    "longplay.harness.benchmark",
)


def record_type(kind: type) -> str:
    """The `_type` of a record's class."""
    return f"{_NAMESPACE}.{kind.__name__}"


def _describe_type(schema: dict[str, Any], kind: type[Record]) -> None:
    """Tells JSON Schema what the validators below check."""
    mark = schema["properties"]["_type"]
    mark["const"] = record_type(kind)
    mark.pop("default", None)
    marks = ["_type", "schema_version"]
    names = [name for name in schema.get("required", []) if name not in marks]
    schema["required"] = marks + names


class Record(Document):
    """A document with strict types, finite numbers and the name of its type."""

    model_config = ConfigDict(serialize_by_alias=True, json_schema_extra=_describe_type)

    type_: str = Field(
        default="",
        alias="_type",
        validate_default=True,
        description="Kind of record: `longplay.eval_log.<Class>`.",
    )
    schema_version: int = Field(
        default=SCHEMA_VERSION,
        ge=1,
        le=SCHEMA_VERSION,
        description="Readers refuse a greater one than they know.",
    )

    @field_validator("type_")
    @classmethod
    def _check_type(cls, found: str, info: ValidationInfo) -> str:
        """The name is required in JSON; in Python it is filled in."""
        expected = record_type(cls)
        accepted = {expected, *(f"{old}.{cls.__name__}" for old in _OLD_NAMESPACES)}
        if found in accepted or (not found and info.mode == "python"):
            return expected
        raise PydanticCustomError(
            "record_type", "expected {expected}", {"expected": expected}
        )
