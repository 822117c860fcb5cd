"""System stored procedures, one family to a module."""
