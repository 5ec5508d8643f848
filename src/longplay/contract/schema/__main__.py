"""Writes the schema files, and the field tables of the documentation."""

from __future__ import annotations

from pathlib import Path

from longplay.contract.schema import (
    fill_tables,
    make_schemas,
    render_schema,
    schema_path,
)


def main() -> None:
    """Writes everything that is generated from the records."""
    for name, schema in make_schemas().items():
        schema_path(name).write_text(render_schema(schema), encoding="utf-8")
    page = Path("docs/contract.md")
    page.write_text(fill_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
