"""Draining: rows out of a queue into a sealed batch of Parquet files, nothing lost and nothing doubled."""
