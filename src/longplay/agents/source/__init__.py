"""A reference -> the files and the code of an agent."""
