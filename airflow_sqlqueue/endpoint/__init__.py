"""Endpoint in Python: receive messages, call a function, commit or roll back, and retry failed messages."""
