"""Functions that run statements, and their table."""
