"""Run directory -> score.json."""
