"""Drain: move the rows of a queue into a sealed batch of Parquet files; nothing is lost or duplicated."""
