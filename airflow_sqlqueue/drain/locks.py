"""Locks on batches: application locks on the server, held by live tasks and lost by dead ones.

Source: docs/design.md, "Locks of batches at work".
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.queue.tables.own import lock_name
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query, identifier, query

log = logging.getLogger(__name__)

BEAT_SECONDS = 10.0
"""Seconds between two uses of the connection, so that a broken one is noticed and a firewall does not close it."""


class BatchLocks:
    """Locks on the batches that a task works on, through one connection of its own; a context manager.

    The server releases the locks when the connection ends: at the end of the block, or of the process, however it ends.
    A broken connection is replaced, and the locks are taken again. Others can lock a stranded batch only. The protocol
    of the drain does not depend on these locks, so a lock that is lost for a moment loses and duplicates nothing.

    :param connect: opens a session; called again after a lost connection.
    :param catalog: the database of the ledger.
    """

    def __init__(self, connect: Callable[[], Session], catalog: str) -> None:
        self._connect, self._catalog = connect, catalog
        self._session: Session | None = None
        self._held: dict[uuid.UUID, bool] = {}
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> BatchLocks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all locks."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        with self._mutex:
            # One by one: the server notices a closed connection only some time later.
            for batch_id in [batch_id for batch_id, held in self._held.items() if held]:
                self._release(batch_id)
            self._drop()

    def take(self, batch_id: uuid.UUID, wait: float = 0.0) -> bool:
        """Lock a batch, with a wait of ``wait`` seconds; False if another one holds the lock until then."""
        with self._mutex:
            if self._held.get(batch_id):
                return True
            try:
                if not self._get(batch_id, wait):
                    return False
            except SqlQueueError:
                # The connection may be broken: the next call opens another one.
                self._lose()
                raise
            self._held[batch_id] = True
        self._start()
        return True

    def hold(self, batch_id: uuid.UUID, wait: float = 0.0) -> bool:
        """Lock a batch like :meth:`take`; if another one holds the lock, take it as soon as it is released."""
        taken = self.take(batch_id, wait)
        if not taken:
            with self._mutex:
                self._held[batch_id] = False
            self._start()
        return taken

    def release(self, batch_id: uuid.UUID) -> None:
        """Release the lock on a batch."""
        with self._mutex:
            self._release(batch_id)

    def _release(self, batch_id: uuid.UUID) -> None:
        if self._held.pop(batch_id, False) and self._session is not None:
            try:
                self._session.run(self._query("ledger.release_batch"), _resource(self._session, batch_id))
            except SqlQueueError:
                # The lock ended with its connection; the others are taken again.
                self._lose()

    def beat(self) -> None:
        """Use the connection and take the missing locks; after an error the next beat tries again."""
        with self._mutex:
            try:
                self._connected().run(query("session.ping"))
                for batch_id, held in self._held.items():
                    if not held:
                        self._held[batch_id] = self._get(batch_id, 0.0)
            except SqlQueueError as error:
                if any(self._held.values()):
                    log.warning("The locks on batches are lost; they are taken again: %s", error)
                self._lose()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep, name="locks on batches", daemon=True)
            self._thread.start()

    def _keep(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self.beat()

    def _connected(self) -> Session:
        if self._session is None:
            self._session = self._connect()
        return self._session

    def _get(self, batch_id: uuid.UUID, wait: float) -> bool:
        session, lock = self._connected(), self._query("ledger.lock_batch")
        return bool(session.value(lock, _resource(session, batch_id), int(wait * 1000)) >= 0)

    def _lose(self) -> None:
        self._drop()
        self._held = dict.fromkeys(self._held, False)

    def _drop(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    def _query(self, name: str) -> Query:
        return query(name, catalog=identifier(self._catalog))


@contextmanager
def batch_lock(session: Session, catalog: str, batch_id: uuid.UUID) -> Iterator[bool]:
    """Lock a batch for the block through a session; False, without a wait, if another one holds the lock."""
    names, resource = {"catalog": identifier(catalog)}, _resource(session, batch_id)
    taken = session.value(query("ledger.lock_batch", **names), resource, 0) >= 0
    try:
        yield taken
    finally:
        if taken:
            session.run(query("ledger.release_batch", **names), resource)


def _resource(session: Session, batch_id: uuid.UUID) -> str:
    return lock_name("batch", session.settings.ledger_schema, batch_id)
