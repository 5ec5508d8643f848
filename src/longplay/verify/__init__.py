"""Checks that a run is genuine: replay, re-execution, packs, and the doctor."""
