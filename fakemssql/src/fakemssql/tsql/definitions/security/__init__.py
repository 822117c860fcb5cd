"""Definitions of logins, users and roles; GRANT, DENY and REVOKE; permissions for definitions."""
