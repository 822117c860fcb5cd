"""Compiler: syntax trees to PostgreSQL's SQL, with T-SQL's types, conversions and locks. It runs no SQL."""
