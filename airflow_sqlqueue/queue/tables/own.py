"""Base class of this package's own tables, which are created beside the queues of a database."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from typing import ClassVar

from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue.tables.create import Definition, ensure
from airflow_sqlqueue.queue.tables.reading import exists
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import LEDGER_SCHEMA
from airflow_sqlqueue.server.sql import Fragment, Query, identifier, query
from airflow_sqlqueue.untrusted import cut

_COLUMN = re.compile(r"^    \[(\w+)\] (.+?),?$", re.MULTILINE)
"""A line of a CREATE TABLE that has a column: its name, and its type with what follows."""


def stored_name(queue: str) -> str:
    """Return a queue's canonical address for a column ``Queue``: its first 400 characters."""
    return cut(queue, 400)


def lock_name(kind: str, schema: str, item: uuid.UUID) -> str:
    """Return the name of an application lock on a batch or a send: its last 255 characters, the server's limit."""
    return f"sqlqueue.{kind}.{schema}.{item}"[-255:]


class OwnTable:
    """Base class of a table of this package, through one connection. A subclass names the table and its CREATE queries.

    ``columns`` fills the placeholder for columns in these queries. A column that is new in CREATE TABLE takes NULL or
    has a default: then :func:`~airflow_sqlqueue.queue.tables.create.create` and the script add it to a table that an
    older version made. ``schema`` is that of the session's settings unless given.
    """

    name: ClassVar[str]
    made_by: ClassVar[tuple[str, ...]]
    columns: ClassVar[Fragment] = Fragment("")

    def __init__(self, session: Session, catalog: str, schema: str | None = None) -> None:
        self.session, self.catalog = session, catalog
        self.schema = schema or session.settings.ledger_schema
        self.address = self.address_in(catalog, self.schema)

    @classmethod
    def address_in(cls, catalog: str, schema: str = LEDGER_SCHEMA) -> ResolvedAddress:
        """Return the table's address in a database."""
        return ResolvedAddress(cls.name, schema, catalog)

    @classmethod
    def definition(cls, catalog: str, schema: str = LEDGER_SCHEMA) -> Definition:
        """Return the table's definition, for :func:`~airflow_sqlqueue.queue.tables.create.create` and for scripts."""
        table = cls.address_in(catalog, schema)
        statements = tuple(query(name, table=identifier(table), columns=cls.columns) for name in cls.made_by)
        columns = dict(_COLUMN.findall(statements[0].text))
        return Definition(table, "ledger", statements, columns, with_schema=True)

    def query(self, name: str, **fragments: Fragment) -> Query:
        """Return a query by its full name, with the names of the table and its database."""
        found = query(name, table=identifier(self.address), catalog=identifier(self.catalog), **fragments)
        return replace(found, own=self.address.canonical)

    def exists(self) -> bool:
        """Return whether the table exists: it is created at the first use in a database."""
        return exists(self.session, self.address)

    def create(self) -> None:
        """Create the table and its schema if they are missing."""
        ensure(self.session, self.definition(self.catalog, self.schema))
