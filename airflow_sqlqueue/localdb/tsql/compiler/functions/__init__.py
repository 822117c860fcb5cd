"""Built-in functions: how each is called in PostgreSQL and what type it has."""
