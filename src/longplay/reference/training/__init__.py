"""How the reference policies and values are made; the only place of torch here."""
