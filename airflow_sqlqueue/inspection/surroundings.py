"""What findings ask of a server besides a table's own layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.server.settings import APPLICATION_NAME
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import identifier, query
from airflow_sqlqueue.tables.discovery import FoundTable, list_tables
from airflow_sqlqueue.tables.reading import exists


class Surroundings(Protocol):
    """What stands and goes on beside a table."""

    def exists(self, table: ResolvedAddress) -> bool:
        """Whether there is such a table, as far as the login may see."""

    def durability(self, catalog: str) -> str | None:
        """How durable a COMMIT is in the database, as ``sys.databases`` has it."""

    def receivers(self, table: ResolvedAddress) -> Sequence[tuple[str | None, str | None]]:
        """Program and host of others that receive from a queue. Raises :class:`PermissionDeniedError`."""

    def tables(self, catalog: str) -> list[FoundTable]:
        """The transport's tables of a database."""


@dataclass(frozen=True)
class ServerSurroundings:
    """The server is asked whenever something is to be known."""

    session: Session

    def exists(self, table: ResolvedAddress) -> bool:
        """One statement."""
        return exists(self.session, table)

    def durability(self, catalog: str) -> str | None:
        """One statement."""
        found: str | None = self.session.value(query("inspect.durability"), catalog)
        return found

    def receivers(self, table: ResolvedAddress) -> Sequence[tuple[str | None, str | None]]:
        """One statement."""
        name = f"{identifier(table.schema)}.{identifier(table.table)}"
        rows = self.session.run(query("inspect.receivers"), APPLICATION_NAME, name)
        return [(program, host) for program, host in rows]

    def tables(self, catalog: str) -> list[FoundTable]:
        """One statement."""
        return list_tables(self.session, catalog)
