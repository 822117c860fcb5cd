"""Connections that the page shows, and sessions on their servers: few, short, and with short waits."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Annotated

from airflow.models.connection import Connection as StoredConnection
from airflow.sdk import BaseHook, Connection
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException
from sqlalchemy import select

from airflow_sqlqueue.client.client import QueueClient
from airflow_sqlqueue.hooks.configuration import allowed
from airflow_sqlqueue.hooks.connection import CONNECTION_TYPES, read_connection
from airflow_sqlqueue.plugin import settings
from airflow_sqlqueue.plugin.addresses import address_of, shown_queue
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.session import Session

MAX_CONNECTIONS = 200
LOGIN_SECONDS = 5
STATEMENT_SECONDS = 10
LOCK_SECONDS = 1.0

MAX_SESSIONS = 16
"""Requests of one API process that use or await a server, because Airflow's own routes share its 40 threads."""

SESSIONS_PER_CONNECTION = 2
REQUESTS_PER_CONNECTION = 4
"""Requests that use the server of a connection or wait for it."""

WAIT_SECONDS = 5.0

_ENVIRONMENT = "AIRFLOW_CONN_"


@dataclass(frozen=True)
class ShownConnection:
    """Connection in the page's list, made without contacting its server."""

    conn_id: str
    host: str | None


def shown_connections() -> list[ShownConnection]:
    """Return the connections of ``[sqlqueue] page_connections``, and those of type ``sqlqueue`` in the environment.

    With ``*`` there, those of type ``sqlqueue`` in Airflow's database too. That is no default: showing a connection
    logs in, so a user who may save connections could make the API server reach any host. Secrets backends cannot list
    their connections, so the configuration has to name these.
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
    """Return the connection, if the page shows it; None otherwise.

    Its id must be spelled as in the list: Airflow finds an environment's connection by any case, and each spelling
    would count as another connection.
    """
    if conn_id not in settings.named_connections() and not _is_listed(conn_id):
        return None
    try:
        connection = BaseHook.get_connection(conn_id)
    except Exception:
        # It does not exist, or the environment's text is invalid; that error would quote the text.
        return None
    allowed_types = CONNECTION_TYPES if conn_id in settings.named_connections() else CONNECTION_TYPES[:1]
    return connection if connection.conn_type in allowed_types else None


def _is_listed(conn_id: str) -> bool:
    """Return whether the environment has the connection, or Airflow's database if the page shows its connections."""
    if f"{_ENVIRONMENT}{conn_id.upper()}" in os.environ:
        return conn_id == conn_id.lower()
    if not settings.shows_saved_connections():
        return False
    with create_session() as session:
        found = session.scalar(select(StoredConnection.conn_id).where(StoredConnection.conn_id == conn_id))
    return found == conn_id


def client_of(conn_id: str) -> QueueClient:
    """Return the client of a connection that the page shows, with short timeouts. 404 for any other connection."""
    connection = _shown(conn_id)
    if connection is None:
        raise HTTPException(404, f"There is no connection {conn_id!r} that [sqlqueue] page_connections shows.")
    read = read_connection(connection, allowed=allowed())
    read.mask_secrets()
    server = replace(read.settings, login_timeout=min(read.settings.login_timeout, LOGIN_SECONDS))
    return QueueClient(server, read.resolver, lock_timeout=LOCK_SECONDS)


def too_many_requests() -> HTTPException:
    """Return the error of a request that may not even wait."""
    return HTTPException(503, "Too many requests at once: try again in some seconds.")


class SessionLimiter:
    """Opens the sessions of one API process, limited in all and for each connection."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: Counter[str] = Counter()
        self._wanted: Counter[str] = Counter()

    @contextmanager
    def session(self, conn_id: str, client: QueueClient) -> Iterator[Session]:
        """Provide a session for the block; 503 if too many requests wait, or none is free for some seconds."""
        with (
            self._place(conn_id),
            Session(client.settings, lock_timeout=client.lock_timeout, statement_timeout=STATEMENT_SECONDS) as session,
        ):
            yield session

    @contextmanager
    def _place(self, conn_id: str) -> Iterator[None]:
        with self._changed:
            own = self._wanted[conn_id]
            if own >= REQUESTS_PER_CONNECTION or self._wanted.total() >= MAX_SESSIONS:
                raise too_many_requests()
            self._wanted[conn_id] += 1
            try:
                if not self._changed.wait_for(lambda: self._open[conn_id] < SESSIONS_PER_CONNECTION, WAIT_SECONDS):
                    raise HTTPException(503, f"The server of {conn_id!r} is busy with other requests: try again.")
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


SESSIONS = SessionLimiter()


@dataclass(frozen=True)
class Server:
    """Server of a connection that the page shows, for one request: its client, and sessions within the limits."""

    conn_id: str
    client: QueueClient

    def session(self) -> AbstractContextManager[Session]:
        """Return a session for a block, by :meth:`SessionLimiter.session`."""
        return SESSIONS.session(self.conn_id, self.client)

    @contextmanager
    def queue(self, address: str) -> Iterator[QueueTable]:
        """Provide the queue at an address, through a session for the block. Raises as :func:`.shown_queue`."""
        # Refuse an unusable address before a connection is opened.
        address_of(self.client, address)
        with self.session() as session:
            yield shown_queue(self.client, session, address)


def server_of(conn_id: str) -> Server:
    """Return the server of a connection; in a request one value for all that use it. Raises as :func:`client_of`."""
    return Server(conn_id, client_of(conn_id))


RequestedServer = Annotated[Server, Depends(server_of)]
