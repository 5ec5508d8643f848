"""Everything that makes a track one, a module each; `catalogue` lists them."""
