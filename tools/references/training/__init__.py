"""How references are made; the only part of `reference` that imports torch."""
