"""Where a command goes: a server by URL, or by an Airflow connection."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.server.connection_string import ConnectionString, is_connection_string
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA
from airflow_sqlqueue.tables.discovery import find_queue

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Target:
    """How to open sessions and what addresses mean there."""

    connect: Callable[[], Session]
    resolver: AddressResolver = field(repr=False)
    database: str
    ledger_schema: str = LEDGER_SCHEMA

    @classmethod
    def of(cls, url: str | None, conn_id: str | None) -> Target:
        """From ``--url``, which takes a connection string of .NET too, or ``--conn-id``: exactly one of them."""
        if url is not None and conn_id is None:
            schema = None
            if is_connection_string(url):
                read = ConnectionString.parse(url)
                settings, schema = read.settings(), read.queue_schema
            else:
                settings = ConnectionSettings.from_url(url)
            return cls(lambda: Session(settings), AddressResolver(schema, settings.database), settings.database)
        if conn_id is None or url is not None:
            raise ConfigurationError("Name the server with one of --url (or SQLQUEUE_URL) and --conn-id.")
        # Airflow logs to standard output, which belongs to the answer.
        with redirect_stdout(sys.stderr):
            from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

            hook = SqlQueueHook(sqlqueue_conn_id=conn_id)
            return cls(hook.session, hook.resolver, hook.queue_connection.settings.database, hook.ledger_schema)

    @contextmanager
    def queue(self, queue_name: str) -> Iterator[QueueTable]:
        """The queue that an address means on this server, in a session of its own."""
        self.resolver.resolve(queue_name)
        with closing(self.connect()) as session:
            yield QueueTable(session, find_queue(session, self.resolver, queue_name))
