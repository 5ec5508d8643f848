"""Exported records: each names its type, independent of the module of its class.

    _type := longplay.eval_log.<Class>

The name is a constant of the format. When a class moves, existing records stay
readable, and a task's hash, which covers the name, stays the same.

A record may be read without its name, or with the name that another harness gave it:
its fields decide. The name is never imported. Only a name of longplay's own, and of
another class, is refused. Unlike other documents, records can be changed; assigned
values are validated like values that are read.

The harness that the EvalLog comes from imports the class that `_type` names. Records
without the name (`drop_types`) can be read by it.
"""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from longplay.contract.documents import SCHEMA_VERSION, Document
from longplay.errors import UnknownNameError

_NAMESPACE = "longplay.eval_log"


def record_type(kind: type) -> str:
    """The `_type` of a record's class."""
    return f"{_NAMESPACE}.{kind.__name__}"


def drop_types(value: Any) -> Any:
    """The JSON of a record without the names of its own type and of nested records.

    A name inside an agent's config belongs to the agent and stays.
    """
    if isinstance(value, Record):
        return drop_types(value.model_dump(mode="json"))
    if isinstance(value, list):
        return [drop_types(item) for item in value]
    if not isinstance(value, dict):
        return value
    mark = str(value.get("_type")).rpartition(".")[0]
    return {
        name: drop_types(item)
        for name, item in value.items()
        if name != "_type" or mark != _NAMESPACE
    }


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

    model_config = ConfigDict(
        serialize_by_alias=True,
        json_schema_extra=_describe_type,
        frozen=False,
        validate_assignment=True,
    )

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
    def _check_type(cls, found: str) -> str:
        """Replaces a missing or foreign name by the name of this class."""
        expected = record_type(cls)
        namespace, _, name = found.rpartition(".")
        if namespace == _NAMESPACE and name != cls.__name__:
            raise PydanticCustomError(
                "record_type", "expected {expected}", {"expected": expected}
            )
        return expected

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets a field.

        Unknown keys of a file are kept, so pydantic would accept a misspelt name.

        Raises:
            UnknownNameError: The record has no such field.
        """
        known = type(self).model_fields.keys() | (self.model_extra or {}).keys()
        if name not in known and not name.startswith("_"):
            raise UnknownNameError(f"field of {type(self).__name__}", name, known)
        super().__setattr__(name, value)
