"""Running the agent in its own process, with optional operating-system sandboxing."""
