"""Branches from saved agents -> what an agent has learned, kept and forgotten."""
