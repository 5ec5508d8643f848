"""Numbers -> figures."""
