"""Parser of Transact-SQL: text to tokens to a syntax tree. It knows nothing of PostgreSQL.

The entry is ``batches.parse``. A ``parser.Parser`` holds the tokens and a position. The rules of the grammar are
functions that take a parser and return ``nodes``. Tables find the rules: ``batches`` by the first word of a statement,
``terms`` for operands, ``calls`` for functions with a grammar of their own, ``expressions`` for predicates.
"""
