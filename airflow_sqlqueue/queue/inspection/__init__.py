"""Inspection of queue tables: findings, and the statements that fix them; an overview of a database's queues."""
