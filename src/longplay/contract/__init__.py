"""The run directory: what its files hold, how they are written, read and checked.

The writing and the reading side of longplay meet only here. This room imports
nothing else of longplay but its errors.
"""
