"""The hook: one Airflow connection, and what can be done with the queues behind it."""

from __future__ import annotations

from airflow_sqlqueue.hooks.batches import BatchMethods
from airflow_sqlqueue.hooks.delayed import DelayedMethods
from airflow_sqlqueue.hooks.error_queue import ErrorQueueMethods
from airflow_sqlqueue.hooks.messages import MessageMethods
from airflow_sqlqueue.hooks.publishing import PublishingMethods
from airflow_sqlqueue.hooks.tables import TableMethods


class SqlQueueHook(TableMethods, MessageMethods, DelayedMethods, PublishingMethods, BatchMethods, ErrorQueueMethods):
    """Queue tables of SQL Server through one Airflow connection of type ``sqlqueue``, ``mssql`` or ``odbc``.

    It is a ``DbApiHook``, so SQL operators and sensors work with the connection as well; the queue methods do not use
    that side, because it logs parameters. A queue is named by its address: ``audit``, ``audit@[schema]@[catalog]``.
    Arguments win over the connection's extra; mappings are merged, key by key.

    :param sqlqueue_conn_id: the Airflow connection.
    :param database: the database, instead of the connection's schema.
    :param driver: the name of an ODBC driver or the path of its library; None picks one.
    :param lock_timeout: seconds a statement waits for a lock.
    :param default_schema: the schema of queues whose address names none; ``dbo`` unless set.
    :param default_catalog: the database of queues whose address names none; the connection's unless set.
    :param queue_schemas: the schema of a queue, by its table name.
    :param queue_catalogs: the database of a queue, by its table name.
    :param endpoint_schemas: the schema of an endpoint's queue, by the endpoint's name.
    :param endpoint_catalogs: the database of an endpoint's queue, by the endpoint's name.
    :param ledger_schema: the schema of the drain's ledger; ``sqlqueue`` unless set.
    :param log_sql: whether ``run`` and its like log statements and parameters. Off: a parameter may be a body.
    """
