"""Connection to PostgreSQL by libpq: pipelined requests, prepared statements, streamed rows, cancellation."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import OperationalError, pq
from psycopg.pq.abc import PGresult

from fakemssql.contract import Attention, ClientGone, Wait
from fakemssql.text import from_pg, to_pg

OK = pq.ExecStatus
_READY = os.open(os.devnull, os.O_RDONLY)
_QUERIES = 200
"""Limit of the queries that :meth:`Pg.query` prepares; the texts of some have ids in them."""
_TEXT = 25  # the type's OID
_ROWS = (OK.SINGLE_TUPLE, OK.TUPLES_CHUNK, OK.TUPLES_OK)


@dataclass(slots=True)
class Request:
    """Statement of a pipeline. With ``name`` it is a prepared statement; ``rows`` receives results with rows."""

    sql: str
    values: Sequence[bytes | None] = ()
    oids: Sequence[int] = ()
    name: bytes = b""
    rows: Callable[[PGresult], None] | None = None
    chunk: int = 0


def _readable(fd: int) -> None:
    select.select([fd], [], [])


class PgError(Exception):
    """Error of PostgreSQL: SQLSTATE, texts, and the index of the request that failed."""

    def __init__(self, result: PGresult, index: int) -> None:
        field = result.error_field
        diag = pq.DiagnosticField

        def text(key: pq.DiagnosticField) -> str:
            raw = field(key)
            return from_pg(raw) if raw else ""

        self.sqlstate = text(diag.SQLSTATE)
        self.message = text(diag.MESSAGE_PRIMARY)
        self.detail = text(diag.MESSAGE_DETAIL)
        self.hint = text(diag.MESSAGE_HINT)
        self.schema = text(diag.SCHEMA_NAME)
        self.table = text(diag.TABLE_NAME)
        self.column = text(diag.COLUMN_NAME)
        self.constraint = text(diag.CONSTRAINT_NAME)
        self.context = text(diag.CONTEXT)
        self.index = index
        self.is_of_constraint = False  # set by a definition: a constraint was being made
        super().__init__(f"{self.sqlstate}: {self.message}")

    @property
    def is_of_a_crash(self) -> bool:
        """Whether PostgreSQL has crashed. libpq's own error, of a connection that broke, has no state."""
        return self.sqlstate in ("", "57P02") or "postmaster" in self.message


class ServerGone(ClientGone):
    """PostgreSQL has ended, or its process for the session: the client's connection is closed without an answer."""


class Pg:
    """Connection of libpq that waits only through ``wait``."""

    def __init__(self, conninfo: str, wait: Wait) -> None:
        self.conn = pq.PGconn.connect(conninfo.encode())
        if self.conn.status != pq.ConnStatus.OK:
            message = self.conn.get_error_message()
            self.conn.finish()
            raise ConnectionError(message)
        self.wait = wait
        self.conn.notice_handler = None
        self.conn.enter_pipeline_mode()
        self.prepared: set[bytes] = set()
        self._queries: dict[str, bytes] = {}

    @property
    def in_transaction(self) -> bool:
        return self.conn.transaction_status not in (pq.TransactionStatus.IDLE, pq.TransactionStatus.UNKNOWN)

    @property
    def usable(self) -> bool:
        """Whether a statement can run now: outside a transaction, or in one without an error."""
        return self.conn.transaction_status in (pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS)

    def run(self, requests: Sequence[Request]) -> list[PGresult]:
        """Send all requests at once, read the answers, and return the last result of each.

        Raises :class:`PgError` for the first request that failed (PostgreSQL skips those after it). Raises an exception
        of ``wait`` again, after a cancel request to PostgreSQL and after every answer was read, and
        :class:`ServerGone` where there is no answer.
        """
        try:
            self._send(requests)
            return self._collect(requests)
        except OperationalError as error:
            raise ServerGone from error

    def _send(self, requests: Sequence[Request]) -> None:
        conn = self.conn
        for request in requests:
            if request.name:
                if request.name not in self.prepared:
                    conn.send_prepare(request.name, to_pg(request.sql), request.oids or None)
                conn.send_query_prepared(request.name, list(request.values), [1] * len(request.values), 1)
            else:
                conn.send_query_params(
                    to_pg(request.sql), list(request.values), list(request.oids), [1] * len(request.values), 1
                )
        conn.pipeline_sync()
        conn.flush()

    def _collect(self, requests: Sequence[Request]) -> list[PGresult]:
        results: list[PGresult] = []
        failure: PgError | None = None
        interruption: BaseException | None = None
        for index, request in enumerate(requests):
            phases = 2 if request.name and request.name not in self.prepared else 1
            for phase in range(phases):
                last = None
                # After a failure PostgreSQL skips the rest, and libpq has no rows to divide.
                if request.chunk and phase == phases - 1 and failure is None:
                    self.conn.set_chunked_rows_mode(request.chunk)
                while True:
                    result, interruption = self._next(interruption)
                    if result is None:
                        break
                    last = result
                    status = result.status
                    if status == OK.FATAL_ERROR:
                        failure = failure or PgError(result, index)
                    elif status in _ROWS and request.rows is not None and interruption is None:
                        try:
                            request.rows(result)
                        except (Attention, ClientGone) as error:
                            interruption = error
                            self._cancel()
                if phase == 0 and phases == 2 and last is not None and last.status == OK.COMMAND_OK:
                    self.prepared.add(request.name)
                if phase == phases - 1 and last is not None:
                    results.append(last)
        while True:
            result, interruption = self._next(interruption)
            if result is not None and result.status == OK.PIPELINE_SYNC:
                break
        if interruption is not None:
            raise interruption
        if failure is not None:
            raise ServerGone if failure.is_of_a_crash else failure
        return results

    def _next(self, interruption: BaseException | None) -> tuple[PGresult | None, BaseException | None]:
        conn = self.conn
        while conn.is_busy():
            if interruption is None:
                try:
                    self.wait(conn.socket)
                except (Attention, ClientGone) as error:
                    interruption = error
                    self._cancel()
                    continue
            conn.consume_input()
            if interruption is not None and conn.is_busy():
                break
        return conn.get_result(), interruption

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Run the block without cancellation: it undoes a request that the client has already cancelled."""
        wait, self.wait = self.wait, _readable
        try:
            yield
        finally:
            self.wait = wait

    def check(self) -> None:
        """Raise the exception that ``wait`` would raise, without waiting."""
        self.wait(_READY)

    def _cancel(self) -> None:
        self.conn.get_cancel().cancel()

    def execute(self, sql: str, values: Sequence[bytes | None] = (), oids: Sequence[int] = ()) -> PGresult:
        """Run one statement and return its result as a whole."""
        return self.run([Request(sql, values, oids)])[-1]

    def query(self, sql: str, *texts: str | int | None) -> list[list[str | None]]:
        """Run a query with text parameters and return its rows as text. One with parameters is prepared."""
        values = [None if text is None else to_pg(str(text)) for text in texts]
        name = b""
        if texts and (sql in self._queries or len(self._queries) < _QUERIES):
            name = self._queries.setdefault(sql, b"q%d" % len(self._queries))
        try:
            if not name:
                self.conn.send_query_params(to_pg(sql), values, [_TEXT] * len(texts), None, 0)
            else:
                if name not in self.prepared:
                    self.conn.send_prepare(name, to_pg(sql), [_TEXT] * len(texts))
                self.conn.send_query_prepared(name, values, None, 0)
            self.conn.pipeline_sync()
            self.conn.flush()
            result = self._collect([Request(sql, name=name)])[-1]
        except OperationalError as error:
            raise ServerGone from error

        def cell(row: int, column: int) -> str | None:
            raw = result.get_value(row, column)
            return None if raw is None else from_pg(raw)

        return [[cell(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]

    def notified(self) -> bool:
        """Return whether a notification came since the last call (read from the socket, no round trip)."""
        try:
            self.conn.consume_input()
        except OperationalError as error:
            raise ServerGone from error
        found = False
        while self.conn.notifies() is not None:
            found = True
        return found

    def close(self) -> None:
        self.conn.finish()
