"""Delayed messages: their table, and the mover of due messages."""
