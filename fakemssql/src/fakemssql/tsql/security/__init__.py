"""Security: logins, permissions, and the visibility of the catalog."""
