"""Writes the schema files, and the field tables of docs/evallog.md."""

from __future__ import annotations

from longplay.evallog.schema import EVAL_LOG

if __name__ == "__main__":
    EVAL_LOG.write()
