"""Numbers -> figures, tables, pages."""
