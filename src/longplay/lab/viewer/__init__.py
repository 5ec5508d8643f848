"""Runs, experiments and episodes in the browser: a web server that only reads."""
