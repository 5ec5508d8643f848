"""What one does with many runs: compare, plot, report, study, view."""
