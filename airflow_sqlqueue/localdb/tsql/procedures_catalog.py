"""Catalog procedures (sp_tables, sp_columns ...)."""
