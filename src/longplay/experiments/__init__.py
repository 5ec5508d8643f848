"""Runs as people start them: folders, status, signals, results."""
