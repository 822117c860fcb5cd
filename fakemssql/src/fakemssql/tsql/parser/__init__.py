"""Transact-SQL text to a syntax tree: tokens, expressions, queries, statements. Knows nothing of PostgreSQL."""
