"""The pipeline that made the shipped references; not in the wheel."""
