"""The data types: their rules, and their values in PostgreSQL's binary formats."""
