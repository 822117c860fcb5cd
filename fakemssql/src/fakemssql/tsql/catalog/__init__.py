"""Catalog of a connection: the tables, schemas and databases that it has looked up."""
