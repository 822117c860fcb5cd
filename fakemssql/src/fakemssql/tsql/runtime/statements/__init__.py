"""The functions that run statements, and their table."""
