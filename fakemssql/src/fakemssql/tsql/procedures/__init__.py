"""System stored procedures, a module for each family; importing this registers them all."""

from fakemssql.tsql.procedures import (
    administration,
    applocks,
    catalog,
    describe,
    execution,
    relations,
    roles,
    session,
)

__all__ = ["administration", "applocks", "catalog", "describe", "execution", "relations", "roles", "session"]
