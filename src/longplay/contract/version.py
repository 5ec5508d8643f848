"""The names of contract and schema versions.

A contract version changes when required keys, boundary semantics, the agent's info
payload, scoring or the hash change meaning. Additional keys do not change it.
"""

from __future__ import annotations

CONTRACT_VERSION = "v1"

# Shape of longplay's own documents (run_summary.json, status.json, …). Readers refuse
# a greater number than they know.
SCHEMA_VERSION = 1
