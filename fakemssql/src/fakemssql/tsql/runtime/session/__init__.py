"""A session and its parts: transactions, application locks, calls of procedures."""
