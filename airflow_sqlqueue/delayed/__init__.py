"""Delayed messages: their table, and moving those that are due."""
