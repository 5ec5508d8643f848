"""The agent in a process of its own, and what the operating system keeps from it."""
