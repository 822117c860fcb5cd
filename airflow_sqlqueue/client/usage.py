"""Usage over time: the growth of queues, the usage of endpoints, and the report for Particular."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.client.connector import Connector, folder_of
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.flow.days import DAYS
from airflow_sqlqueue.flow.endpoint_usage import EndpointDay, EndpointUsage, count_usage
from airflow_sqlqueue.flow.queue_usage import QueueDay, QueueUsage, RecordResult
from airflow_sqlqueue.flow.report import usage_report
from airflow_sqlqueue.routing import AddressResolver

if TYPE_CHECKING:
    from os import PathLike

    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.drain.storage.folder import StagingFolder
    from airflow_sqlqueue.session import Session

RETAIN = timedelta(days=400)
"""Age of the days that a record removes."""


class UsageManager:
    """Usage of the queues and endpoints of a server, by day in UTC, in two tables beside the ledger.

    Each call is about one database: the connection's, or ``catalog``.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def record(self, *, catalog: str | None = None, retain: timedelta = RETAIN) -> RecordResult:
        """Record the growth of all queues of the database since the last record; call it at best every hour.

        Each message counts once, also where two calls run at the same time. Days that are older than ``retain`` are
        removed. See :meth:`airflow_sqlqueue.flow.queue_usage.QueueUsage.record`.
        """
        if retain < timedelta(days=1):
            raise ConfigurationError("retain is a time of one day or more.")

        def run(session: Session) -> RecordResult:
            queues, endpoints = self._tables(session, catalog)
            for table in (queues, endpoints):
                table.create()
            result = queues.record(self._connector.resolver.delayed_suffix)
            before = _today() - retain
            queues.remove(before)
            endpoints.remove(before)
            return result

        return self._connector.repeated("Recording the growth of the queues", run)

    def count_batch(
        self, batch: Batch, *, staging: str | PathLike[str] | StagingFolder | None = None
    ) -> Sequence[EndpointDay]:
        """Count the messages of a sealed batch by endpoint, message type and day, from their headers.

        The batch counts once, however often it is counted. Give it the batches of an audit queue, or of its copies, but
        not both. ``staging`` as for :meth:`.client.batches.BatchManager.messages`, and it raises as that does.
        """
        from airflow_sqlqueue.drain.batch_reader import batch_headers
        from airflow_sqlqueue.drain.batches import batches
        from airflow_sqlqueue.drain.manifest import check_readable

        folder = folder_of(staging)
        queue, batch_id = AddressResolver().resolve(batch.queue), uuid.UUID(batch.batch_id)

        def run(session: Session) -> Sequence[EndpointDay]:
            ledger = Ledger(session, queue.catalog, self._connector.ledger_schema)
            # The ledger decides, because the manifest may come from an untrusted place.
            entry = ledger.find(batch_id)
            check_readable(batch_id, entry.state)
            opened = batches(ledger, batch_id=batch_id)[0].opened
            counted = count_usage(batch_headers(ledger, batch_id, entry.stage, folder), queue.table, opened)
            table = EndpointUsage(session, queue.catalog, self._connector.ledger_schema)
            table.create()
            table.enter(batch_id, counted)
            return counted

        return self._connector.repeated(f"Counting batch {batch_id}", run)

    def queues(
        self, *, since: date | None = None, until: date | None = None, catalog: str | None = None
    ) -> Sequence[QueueDay]:
        """Return the growth of each queue by day, of the last 30 days unless the days are given."""
        first, last = _time(since, until)
        with self._connector.enlisted_session() as session:
            return self._tables(session, catalog)[0].days(first, last)

    def endpoints(
        self, *, since: date | None = None, until: date | None = None, catalog: str | None = None
    ) -> Sequence[EndpointDay]:
        """Return the usage of each endpoint and message type by day, of the last 30 days unless the days are given."""
        first, last = _time(since, until)
        with self._connector.enlisted_session() as session:
            return self._tables(session, catalog)[1].days(first, last)

    def report(
        self,
        customer: str,
        *,
        since: date | None = None,
        until: date | None = None,
        masks: Sequence[str] = (),
        catalogs: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return the usage report in the form of Particular's tools: see :func:`.flow.report.usage_report`.

        It has the days of ``since`` to ``until`` that are over, the last 30 unless the days are given, of the
        connection's database or of all ``catalogs``.
        """
        from airflow_sqlqueue import __version__

        first, last = _time(since, until)
        queues: list[QueueDay] = []
        endpoints: list[EndpointDay] = []
        with self._connector.enlisted_session() as session:
            for catalog in catalogs or (None,):
                growth, usage = self._tables(session, catalog)
                queues += growth.days(first, last)
                endpoints += usage.days(first, last)
        now = datetime.now(timezone.utc)
        return usage_report(queues, endpoints, customer=customer, version=__version__, now=now, masks=masks)

    def _tables(self, session: Session, catalog: str | None) -> tuple[QueueUsage, EndpointUsage]:
        place = (session, catalog or self._connector.settings.database, self._connector.ledger_schema)
        return QueueUsage(*place), EndpointUsage(*place)


def _today() -> date:
    return datetime.now(timezone.utc).date()


def _time(since: date | None, until: date | None) -> tuple[date, date]:
    last = until or _today()
    first = since or last - timedelta(days=DAYS)
    if first > last:
        raise ConfigurationError(f"There is no day from {first} to {last}: turn since and until around.")
    return first, last
