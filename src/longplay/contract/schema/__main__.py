"""Writes the schema files, and the field tables of docs/contract.md."""

from __future__ import annotations

from longplay.contract.schema import RUN_DIRECTORY

if __name__ == "__main__":
    RUN_DIRECTORY.write()
