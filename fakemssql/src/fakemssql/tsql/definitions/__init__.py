"""Definitions (CREATE, ALTER, DROP): they change PostgreSQL's objects and the metadata for the system views."""
