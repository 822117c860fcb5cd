"""Hook of the provider: an Airflow connection, and the client of its server."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_sqlqueue.assets import create_asset
from airflow_sqlqueue.client.client import QueueClient
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks import connection_form
from airflow_sqlqueue.hooks.configuration import allowed
from airflow_sqlqueue.hooks.connection import FIELDS, QueueConnection, read_connection
from airflow_sqlqueue.hooks.lineage import collect
from airflow_sqlqueue.hooks.plain_sql import PlainSqlHook
from airflow_sqlqueue.hooks.staging import staging_folder
from airflow_sqlqueue.messages.message import Message, ReceivedMessage
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue import Depth, PurgeOptions, PurgeResult
from airflow_sqlqueue.server.transactions import SENDS_ATOMIC_WITH_RECEIVE, Transaction

if TYPE_CHECKING:
    from os import PathLike

    from airflow.sdk import Asset, ObjectStoragePath
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Unpack

    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.client.tables import QueueTables
    from airflow_sqlqueue.drain.drain import DrainResult, Engine
    from airflow_sqlqueue.drain.request import DrainRequest
    from airflow_sqlqueue.queue.tables.create import CreateResult
    from airflow_sqlqueue.spark.manifests import AnyBatch

    Staging = str | PathLike[str] | ObjectStoragePath


class SqlQueueHook(PlainSqlHook):
    """Hook for queue tables of SQL Server, through an Airflow connection of type ``sqlqueue``, ``mssql`` or ``odbc``.

    :attr:`client` and :meth:`queue` have all operations of this package; the most frequent ones are methods here too.
    The hook is a ``DbApiHook``, so SQL operators and sensors work with the connection as well. The queue methods do not
    use that side, because it logs parameters. A queue is named by its address: ``audit``, ``audit@[schema]@[catalog]``.
    Arguments win over the connection's extra; mappings are merged, key by key. An argument that equals a value of the
    extra is the extra's, and no more is allowed to it.

    :param sqlqueue_conn_id: the Airflow connection.
    :param database: the database, instead of the connection's schema.
    :param driver: the name of an ODBC driver or the path of its library; None picks one.
    :param lock_timeout: seconds that a statement waits for a lock.
    :param default_schema: the schema of queues whose address names none; ``dbo`` unless set.
    :param default_catalog: the database of queues whose address names none; the connection's unless set.
    :param queue_schemas: the schema of a queue, by its table name.
    :param queue_catalogs: the database of a queue, by its table name.
    :param endpoint_schemas: the schema of an endpoint's queue, by the endpoint's name.
    :param endpoint_catalogs: the database of an endpoint's queue, by the endpoint's name.
    :param allowed_catalogs: the databases that headers of messages may name; the default catalog unless set.
    :param allowed_schemas: the schemas that headers of messages may name; all unless set.
    :param transport_version: ``1``, ``2`` or ``3.0`` where addresses are read as endpoints of that version do.
    :param delayed_suffix: the suffix of tables of delayed messages, as the endpoints have it; ``Delayed`` unless set.
    :param subscription_table: the address of the subscription table; ``SubscriptionRouting`` unless set.
    :param ledger_schema: the schema of the drain's ledger; ``sqlqueue`` unless set.
    :param log_sql: whether ``run`` and its like log statements; parameters are neither logged nor handed to lineage.
    """

    conn_name_attr = "sqlqueue_conn_id"
    default_conn_name = "sqlqueue_default"
    conn_type = "sqlqueue"
    hook_name = "SQL Server queue"

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """Return the fields of the extra, which Airflow 3.1 asks for."""
        return connection_form.widgets()

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return the labels and placeholders of Airflow's own fields, which Airflow 3.1 asks for."""
        return connection_form.field_behaviour()

    def __init__(
        self,
        sqlqueue_conn_id: str = default_conn_name,
        *,
        database: str | None = None,
        driver: str | None = None,
        lock_timeout: float | None = None,
        default_schema: str | None = None,
        default_catalog: str | None = None,
        queue_schemas: Mapping[str, str] | None = None,
        queue_catalogs: Mapping[str, str] | None = None,
        endpoint_schemas: Mapping[str, str] | None = None,
        endpoint_catalogs: Mapping[str, str] | None = None,
        allowed_catalogs: Collection[str] | None = None,
        allowed_schemas: Collection[str] | None = None,
        transport_version: str | None = None,
        delayed_suffix: str | None = None,
        subscription_table: str | None = None,
        ledger_schema: str | None = None,
        log_sql: bool = False,
        **kwargs: Any,
    ) -> None:
        given = locals()
        kwargs.pop("connection", None)  # A key of an extra may come as an argument; the base class would take this one.
        super().__init__(sqlqueue_conn_id, log_sql=log_sql, **kwargs)
        self.schema = database
        self._arguments = {name: value for name, value in given.items() if name in FIELDS}

    @cached_property
    def queue_connection(self) -> QueueConnection:
        """Values of the connection for the client. Raises ConfigurationError for a missing or unusable connection."""
        try:
            connection = self.connection
        except AirflowNotFoundException as error:
            raise ConfigurationError(
                f"Airflow has no connection {self.get_conn_id()!r}: create it, or name another; 'airflow connections "
                "list' shows those in its database."
            ) from error
        read = read_connection(connection, database=self.schema, allowed=allowed(), arguments=self._arguments)
        read.mask_secrets()
        return read

    @cached_property
    def client(self) -> QueueClient:
        """Client of the connection's server. Raises ConfigurationError for a missing or unusable connection."""
        read = self.queue_connection
        return QueueClient(read.settings, read.resolver, lock_timeout=read.lock_timeout)

    def queue(self, queue_name: str | None = None, *, endpoint: str | None = None) -> Queue:
        """Return a queue, by its address or its endpoint, with all its operations: :meth:`.QueueClient.queue`."""
        return self.client.queue(queue_name, endpoint=endpoint)

    def asset(self, queue_name: str | None = None, *, endpoint: str | None = None, **extra: Any) -> Asset:
        """Return the asset of a queue, for schedules and outlets of DAGs, with ``extra``."""
        settings, table = self.client.settings, self.resolve(self.client.resolver.address_of(queue_name, endpoint))
        return create_asset(
            host=settings.host,
            port=settings.port,
            instance=settings.instance,
            database=table.catalog,
            schema=table.schema,
            table=table.table,
            extra=extra,
        )

    def resolve(self, queue_name: str) -> ResolvedAddress:
        """Resolve an address to its table, by the routing settings alone. Raises AddressError."""
        return self.client.resolve(queue_name)

    def create_queue(
        self, queue_name: str, *, create_schema: bool = False, **tables: Unpack[QueueTables]
    ) -> list[CreateResult]:
        """Create a missing queue and the tables beside it: :meth:`.client.tables.TableManager.create`."""
        return self.client.tables.create(queue_name, create_schema=create_schema, **tables)

    def send(self, queue_name: str, messages: Iterable[Message]) -> int:
        """Send messages in one transaction and return how many; at least once, if the caller repeats a failed call."""
        sent = self.client.queue(queue_name).send(messages)
        collect(self, self.client, queue_name, is_output=True)
        return sent

    def receive(self, queue_name: str, limit: int = 1, **options: Any) -> list[ReceivedMessage]:
        """Take messages out of the queue, at most once unless in a :meth:`transaction`: ``Queue.receive``."""
        received = self.client.queue(queue_name).receive(limit, **options)
        collect(self, self.client, queue_name, is_output=False)
        return received

    def depth(self, queue_name: str, *, kind: str = "exact", limit: int | None = None) -> Depth:
        """Count messages: :meth:`.client.queues.Queue.depth`."""
        return self.client.queue(queue_name).depth(kind=kind, limit=limit)

    def purge(self, queue_name: str, options: PurgeOptions | None = None) -> PurgeResult:
        """Delete expired messages, or those that the options choose: :meth:`.client.queues.Queue.purge`."""
        return self.client.queue(queue_name).purge(options)

    def drain(
        self,
        queue_name: str,
        staging: Staging | None = None,
        request: DrainRequest | None = None,
        *,
        engine: str = "threads",
        spark: SparkSession | None = None,
        **options: Any,
    ) -> DrainResult:
        """Drain a queue into a sealed batch, exactly once from the queue to the batch.

        ``staging`` may be a URL with an Airflow connection. ``engine`` runs the workers: ``threads`` of this process,
        or ``spark``, the executors of the session ``spark``. Executors need this package and an ODBC driver, and have
        to reach the server and ``staging``. Either engine can resume a batch of the other one. Further arguments are
        those of :meth:`.client.queues.Queue.drain`.
        """
        folder = None if staging is None else staging_folder(staging)
        drained = self.client.queue(queue_name).drain(folder, request, engine=self._engine(engine, spark), **options)
        collect(self, self.client, queue_name, is_output=False)
        return drained

    def _engine(self, name: str, spark: SparkSession | None) -> Engine | None:
        if name == "threads":
            return None
        if name != "spark":
            raise ConfigurationError(f"The engine {name!r} is not known: use threads or spark.")
        if spark is None:
            raise ConfigurationError("The engine spark needs a session to drain with: give it as spark=...")
        from airflow_sqlqueue.spark.executors import SparkEngine

        return SparkEngine(spark, self.client.settings, lock_timeout=self.client.lock_timeout)

    def read_batch(self, spark: SparkSession, batch: AnyBatch, *, headers_map: bool = False) -> DataFrame:
        """Return the messages of a sealed batch, by its manifest, its id, a manifest's path, or an XCom value.

        The login of this connection reads a batch in a table, and looks a batch up in the ledger unless ``batch`` is a
        manifest; no plan of Spark shows the login. See :func:`airflow_sqlqueue.spark.load_batch`. ``headers_map`` adds
        the column ``headers``.
        """
        from airflow_sqlqueue.spark import read_batch

        return read_batch(spark, batch, self.client.settings, headers_map=headers_map)

    def transaction(self, mode: str = SENDS_ATOMIC_WITH_RECEIVE) -> AbstractContextManager[Transaction]:
        """Begin a transaction; every call of this hook, ``run`` and ``get_records`` included, enlists in it.

        See :meth:`airflow_sqlqueue.QueueClient.transaction`.
        """
        return self.client.transaction(mode)
