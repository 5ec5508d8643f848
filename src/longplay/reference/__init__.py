"""The prediction track's fixed policies and their value functions."""
