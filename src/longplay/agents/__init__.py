"""Who is measured: the agent contract, the built-in agents, and how others load."""
