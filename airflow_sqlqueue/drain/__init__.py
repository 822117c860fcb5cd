"""Draining a queue into a sealed batch of Parquet files: nothing lost, nothing doubled."""
