"""Numbers -> tables and pages."""
