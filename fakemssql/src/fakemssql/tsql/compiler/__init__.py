"""Syntax trees to PostgreSQL's SQL, with T-SQL's types, conversions and locks. Runs nothing."""
