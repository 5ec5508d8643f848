"""Writes the schema files, and the field tables of docs/eval_log.md."""

from __future__ import annotations

from longplay.eval_log.schema import EVAL_LOG

if __name__ == "__main__":
    EVAL_LOG.write()
