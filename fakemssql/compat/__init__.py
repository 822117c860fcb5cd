"""Clients that we did not write, each doing the same with a queue table: ``python -m compat`` prints what they did."""
