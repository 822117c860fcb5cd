"""Compatibility test with independent clients: each uses a queue table, and ``python -m compat`` prints the results."""
