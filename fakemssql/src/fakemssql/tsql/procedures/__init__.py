"""System stored procedures; each family has a module."""
