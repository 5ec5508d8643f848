"""Many agents, many suites, tuning."""
