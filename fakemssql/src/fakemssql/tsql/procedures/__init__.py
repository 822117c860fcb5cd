"""System stored procedures, a module for each family; importing this registers them all."""

from fakemssql.tsql.procedures import (
    applocks,
    catalog,
    describe,
    execution,
    relations,
    renaming,
    session,
)

__all__ = ["applocks", "catalog", "describe", "execution", "relations", "renaming", "session"]
