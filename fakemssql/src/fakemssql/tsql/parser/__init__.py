"""Transact-SQL text to a syntax tree: tokens, expressions, queries, statements. Knows nothing of PostgreSQL.

``batches`` has the entry. A ``parser.Parser`` is the tokens and a place among them; the grammar is functions that take
it and return ``nodes``, found in tables: of statements by their first word in ``statements``, of operands in ``terms``,
of functions with a grammar of their own in ``calls``, of predicates in ``expressions``.
"""
