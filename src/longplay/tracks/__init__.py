"""The tracks: one module defines each track, and `catalogue` lists them."""
