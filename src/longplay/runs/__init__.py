"""One run: the loop, what it records, and how it starts, stops and resumes."""
