"""System stored procedures, a module for each family."""
