"""Redaction of messages: rules, and their effect on headers and bodies. Without I/O; a drain applies it."""
