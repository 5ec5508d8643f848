"""Experiments: several runs of one agent, played here or on Ray."""
