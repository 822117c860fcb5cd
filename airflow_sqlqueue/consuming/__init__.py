"""An endpoint in Python: receive, call a function, commit or roll back, and what becomes of messages that fail."""
