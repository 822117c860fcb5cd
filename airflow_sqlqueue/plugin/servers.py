"""The connections that the page shows, and sessions on their servers: few, short, and never waited for long."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from airflow.models.connection import Connection as StoredConnection
from airflow.sdk import BaseHook, Connection
from airflow.utils.session import create_session
from fastapi import HTTPException
from sqlalchemy import select

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.hooks.configuration import allowed
from airflow_sqlqueue.hooks.connection import CONNECTION_TYPES, read_connection
from airflow_sqlqueue.plugin import settings
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session

MAX_CONNECTIONS = 200
LOGIN_SECONDS = 5
STATEMENT_SECONDS = 10
LOCK_SECONDS = 1.0

MAX_SESSIONS = 16
"""Requests of one API process that use a server or wait for it: Airflow's own routes share its 40 threads."""

SESSIONS_PER_CONNECTION = 2
WAITING_PER_CONNECTION = 2
WAIT_SECONDS = 5.0

_ENVIRONMENT = "AIRFLOW_CONN_"


@dataclass(frozen=True)
class ShownConnection:
    """A connection as the page lists it. Its server was not asked for anything."""

    conn_id: str
    host: str | None


def shown_connections() -> list[ShownConnection]:
    """Those that ``[sqlqueue] page_connections`` names, and those of type ``sqlqueue`` in the environment.

    With ``*`` there, those of type ``sqlqueue`` in Airflow's database as well. A look logs in, so by itself the page
    shows none that people save: whoever may would have the API server reach any host. No secrets backend can list what
    it has: name such connections.
    """
    own = [name.removeprefix(_ENVIRONMENT).lower() for name in os.environ if name.startswith(_ENVIRONMENT)]
    found = {}
    for conn_id in dict.fromkeys([*settings.named_connections(), *own]):
        if (connection := _shown(conn_id)) is not None:
            found[conn_id] = ShownConnection(conn_id, connection.host)
    if settings.shows_saved_connections():
        of_type = StoredConnection.conn_type == CONNECTION_TYPES[0]
        with create_session() as session:
            rows = session.execute(select(StoredConnection.conn_id, StoredConnection.host).where(of_type))
            found = {conn_id: ShownConnection(conn_id, host) for conn_id, host in rows} | found
    return sorted(found.values(), key=lambda each: each.conn_id)


def _shown(conn_id: str) -> Connection | None:
    """The connection where it is one that the page shows.

    Named as it is listed: in the environment Airflow finds it by any case, and each would be a connection of its own.
    """
    if conn_id not in settings.named_connections() and not _is_listed(conn_id):
        return None
    try:
        connection = BaseHook.get_connection(conn_id)
    except Exception:
        # There is none; or a text in the environment is none, and what is raised then quotes it.
        return None
    allowed_types = CONNECTION_TYPES if conn_id in settings.named_connections() else CONNECTION_TYPES[:1]
    return connection if connection.conn_type in allowed_types else None


def _is_listed(conn_id: str) -> bool:
    """Whether the environment has it, or Airflow's database, whose connections have all to be shown."""
    if f"{_ENVIRONMENT}{conn_id.upper()}" in os.environ:
        return conn_id == conn_id.lower()
    if not settings.shows_saved_connections():
        return False
    with create_session() as session:
        found = session.scalar(select(StoredConnection.conn_id).where(StoredConnection.conn_id == conn_id))
    return found == conn_id


def client_of(conn_id: str) -> QueueClient:
    """The client of a connection that the page shows, with timeouts for a page. 404 for any other connection.

    Raises :class:`ConfigurationError` for one that cannot be used.
    """
    connection = _shown(conn_id)
    if connection is None:
        raise HTTPException(404, f"There is no connection {conn_id!r} that [sqlqueue] page_connections shows.")
    read = read_connection(connection, allowed=allowed())
    read.mask_secrets()
    server = replace(read.settings, login_timeout=min(read.settings.login_timeout, LOGIN_SECONDS))
    return QueueClient(server, read.resolver, ledger_schema=read.ledger_schema, lock_timeout=LOCK_SECONDS)


class Sessions:
    """Sessions of one API process: so many at one time in all, and on the server of a connection."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: Counter[str] = Counter()
        self._wanted: Counter[str] = Counter()

    @contextmanager
    def session(self, conn_id: str, client: QueueClient) -> Iterator[Session]:
        """A session for the block; 503 at once where too many are wanted, or after some seconds where none is free."""
        with (
            self._place(conn_id),
            Session(client.settings, lock_timeout=client.lock_timeout, statement_timeout=STATEMENT_SECONDS) as session,
        ):
            yield session

    @contextmanager
    def _place(self, conn_id: str) -> Iterator[None]:
        with self._changed:
            own = self._wanted[conn_id]
            if own >= SESSIONS_PER_CONNECTION + WAITING_PER_CONNECTION or self._wanted.total() >= MAX_SESSIONS:
                raise HTTPException(503, "Too many people look at once: try again in some seconds.")
            self._wanted[conn_id] += 1
            try:
                if not self._changed.wait_for(lambda: self._open[conn_id] < SESSIONS_PER_CONNECTION, WAIT_SECONDS):
                    raise HTTPException(503, f"The server of {conn_id!r} answers others first: try again.")
                self._open[conn_id] += 1
            except BaseException:
                self._leave(self._wanted, conn_id)
                raise
        try:
            yield
        finally:
            with self._changed:
                self._leave(self._open, conn_id)
                self._leave(self._wanted, conn_id)
                self._changed.notify_all()

    @staticmethod
    def _leave(counter: Counter[str], conn_id: str) -> None:
        counter[conn_id] -= 1
        if not counter[conn_id]:
            del counter[conn_id]


SESSIONS = Sessions()


@contextmanager
def session_of(conn_id: str) -> Iterator[tuple[QueueClient, Session]]:
    """The client of a connection that the page shows, and a session for the block."""
    client = client_of(conn_id)
    with SESSIONS.session(conn_id, client) as session:
        yield client, session


@contextmanager
def queue_of(conn_id: str, address: str) -> Iterator[tuple[QueueClient, QueueTable]]:
    """A connection's client and the queue that an address means, through a session for the block.

    Raises what :func:`address_of` raises, and where no queue stands there.
    """
    client = client_of(conn_id)
    # An address that cannot be used is an error before a connection is made.
    address_of(client, address)
    with SESSIONS.session(conn_id, client) as session:
        queue = client.queue(address).through(session)
        _check_shown(client, queue.address)
        # A synonym may stand at the address, for a table of another database.
        _check_shown(client, queue.layout.table)
        yield client, queue


def address_of(client: QueueClient, address: str) -> ResolvedAddress:
    """What an address of a request means: 403 where the page shows nothing of its database.

    Raises :class:`AddressError`.
    """
    found = client.resolve(address)
    _check_shown(client, found)
    return found


def _check_shown(client: QueueClient, found: ResolvedAddress) -> None:
    """Who may look at a connection is not to look at all that its login reaches."""
    if found.catalog.casefold() not in {name.casefold() for name in catalogs_of(client)}:
        raise HTTPException(403, f"The connection does not name the database {found.catalog!r}: see allowed_catalogs.")


def catalogs_of(client: QueueClient) -> list[str]:
    """The databases that the connection's settings name, its own first."""
    resolver = client.resolver
    named = [
        resolver.default_catalog or client.settings.database,
        client.settings.database,
        *resolver.queue_catalogs.values(),
        *resolver.endpoint_catalogs.values(),
        *(resolver.allowed_catalogs or ()),
    ]
    return list({name.lower(): name for name in reversed(named)}.values())[::-1]
