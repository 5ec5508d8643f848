"""Agents: the agent contract, the built-in agents, and how agents are loaded."""
