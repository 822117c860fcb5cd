"""Tables of this package's own, beside the queues of a database: made, with their schema, where they are missing."""

from __future__ import annotations

import uuid
from typing import ClassVar

from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Fragment, Query, identifier, query
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA, Definition, ensure
from airflow_sqlqueue.tables.reading import exists


def stored_name(queue: str) -> str:
    """A queue's canonical address as the columns ``Queue`` hold it: its first 400 characters."""
    return queue[:400]


def lock_name(kind: str, schema: str, item: uuid.UUID) -> str:
    """The name of an application lock on a batch or a send: the last 255 characters, which the server takes."""
    return f"sqlqueue.{kind}.{schema}.{item}"[-255:]


class OwnTable:
    """A table of this package's own, through one connection. A subclass names the table and the queries that make it.

    ``columns`` are the columns that the queries leave open, where they leave any.
    """

    name: ClassVar[str]
    made_by: ClassVar[tuple[str, ...]]
    columns: ClassVar[Fragment] = Fragment("")

    def __init__(self, session: Session, catalog: str, schema: str = LEDGER_SCHEMA) -> None:
        self.session = session
        self.catalog, self.schema = catalog, schema
        self.address = self.address_in(catalog, schema)

    @classmethod
    def address_in(cls, catalog: str, schema: str = LEDGER_SCHEMA) -> ResolvedAddress:
        """The table's address in a database."""
        return ResolvedAddress(cls.name, schema, catalog)

    @classmethod
    def definition(cls, catalog: str, schema: str = LEDGER_SCHEMA) -> Definition:
        """The table's definition, for :func:`~airflow_sqlqueue.tables.create.create` and for scripts."""
        table = cls.address_in(catalog, schema)
        statements = tuple(query(name, table=identifier(table), columns=cls.columns) for name in cls.made_by)
        return Definition(table, "ledger", statements, with_schema=True)

    def query(self, name: str, **fragments: Fragment) -> Query:
        """A query by its full name, with the names of the table and of its database filled in."""
        return query(name, table=identifier(self.address), catalog=identifier(self.catalog), **fragments)

    def exists(self) -> bool:
        """Whether the table is there: before the first use in a database it is not."""
        return exists(self.session, self.address)

    def create(self) -> None:
        """Make the table, and its schema, where it is missing."""
        ensure(self.session, self.definition(self.catalog, self.schema))
