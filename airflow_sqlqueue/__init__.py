"""SQL Server queue tables in Apache Airflow, and their batches in Spark.

The names of this package and those of :mod:`airflow_sqlqueue.hooks`, :mod:`airflow_sqlqueue.operators`,
:mod:`airflow_sqlqueue.sensors`, :mod:`airflow_sqlqueue.triggers` and :mod:`airflow_sqlqueue.spark` are the public ones;
every other module is internal. Each name is loaded at its first use, because Airflow imports this package in every
process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sqlqueue.exports import lazy_exports

if TYPE_CHECKING:
    from airflow_sqlqueue.address import QueueAddress
    from airflow_sqlqueue.assets import create_asset
    from airflow_sqlqueue.client import QueueClient
    from airflow_sqlqueue.client.batches import BatchManager
    from airflow_sqlqueue.client.delayed import DelayedQueue
    from airflow_sqlqueue.client.errors import ErrorManager
    from airflow_sqlqueue.client.quarantine import QuarantineManager
    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.client.streams import StreamManager
    from airflow_sqlqueue.client.subscriptions import SubscriptionManager
    from airflow_sqlqueue.client.tables import TableManager
    from airflow_sqlqueue.consuming.consumer import Consumer
    from airflow_sqlqueue.consuming.options import ConsumeOptions, ConsumeResult
    from airflow_sqlqueue.consuming.recoverability import RecoverabilityOptions
    from airflow_sqlqueue.decorators.consume import sqlqueue_consume_task
    from airflow_sqlqueue.delayed.mover import MoveResult
    from airflow_sqlqueue.drain.batches import BatchInfo
    from airflow_sqlqueue.drain.drain import DrainResult
    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.drain.options import DrainOptions
    from airflow_sqlqueue.drain.request import DrainRequest
    from airflow_sqlqueue.drain.requeue import RequeueResult
    from airflow_sqlqueue.drain.sweep import SweepOptions, SweepResult
    from airflow_sqlqueue.envelope import Envelope, Sender, reply
    from airflow_sqlqueue.errorqueue.editing import EditResult
    from airflow_sqlqueue.errorqueue.filters import ErrorFilter
    from airflow_sqlqueue.errorqueue.return_to_source import ReturnOptions, ReturnResult
    from airflow_sqlqueue.errorqueue.triage import ErrorGroup, Triage
    from airflow_sqlqueue.errors import (
        AddressError,
        BatchError,
        BatchMismatchError,
        BatchNotFoundError,
        ConditionNotMetError,
        ConfigurationError,
        ConnectionLostError,
        DataMovedError,
        DeadlockError,
        DriverNotFoundError,
        LayoutChangedError,
        LockTimeoutError,
        LoginFailedError,
        MessageError,
        MessageNotFoundError,
        NoReplyError,
        NotAQueueError,
        PermissionDeniedError,
        QueueNotEmptyError,
        QueueNotFoundError,
        RowRefusedError,
        ServerBusyError,
        ServerUnreachableError,
        SparkJobError,
        SqlQueueError,
        StagingError,
        StatementError,
        StrandedBatchError,
        TransactionError,
        TransactionLostError,
        TransientError,
        UnknownHostError,
        UnsupportedServerError,
        UntrustedServerError,
        WrongBatchError,
    )
    from airflow_sqlqueue.hooks import SqlQueueHook
    from airflow_sqlqueue.inspection.findings import Finding
    from airflow_sqlqueue.message import HeaderNames, Message, ReceivedMessage
    from airflow_sqlqueue.notifications import SqlQueueNotifier
    from airflow_sqlqueue.plugin.actions_dag import actions_dag
    from airflow_sqlqueue.publishing.conversation import Reply
    from airflow_sqlqueue.publishing.subscriptions import PublishResult
    from airflow_sqlqueue.queue import MessageFilter, PurgeOptions, QueueCondition
    from airflow_sqlqueue.queue.condition import ConditionResult
    from airflow_sqlqueue.queue.depth import Backlog, Depth
    from airflow_sqlqueue.queue.purge import PurgeResult
    from airflow_sqlqueue.queue.send_ledger import SendResult
    from airflow_sqlqueue.routing import AddressResolver, ResolvedAddress
    from airflow_sqlqueue.server.settings import ConnectionSettings
    from airflow_sqlqueue.spark import load_batch, read_batch, read_bodies, verify_count
    from airflow_sqlqueue.tables.create import CreateResult

__version__ = "0.1.0"

__all__ = [
    "AddressError",
    "AddressResolver",
    "Backlog",
    "Batch",
    "BatchError",
    "BatchInfo",
    "BatchManager",
    "BatchMismatchError",
    "BatchNotFoundError",
    "ConditionNotMetError",
    "ConditionResult",
    "ConfigurationError",
    "ConnectionLostError",
    "ConnectionSettings",
    "ConsumeOptions",
    "ConsumeResult",
    "Consumer",
    "CreateResult",
    "DataMovedError",
    "DeadlockError",
    "DelayedQueue",
    "Depth",
    "DrainOptions",
    "DrainRequest",
    "DrainResult",
    "DriverNotFoundError",
    "EditResult",
    "Envelope",
    "ErrorFilter",
    "ErrorGroup",
    "ErrorManager",
    "Finding",
    "HeaderNames",
    "LayoutChangedError",
    "LockTimeoutError",
    "LoginFailedError",
    "Message",
    "MessageError",
    "MessageFilter",
    "MessageNotFoundError",
    "MoveResult",
    "NoReplyError",
    "NotAQueueError",
    "PermissionDeniedError",
    "PublishResult",
    "PurgeOptions",
    "PurgeResult",
    "QuarantineManager",
    "Queue",
    "QueueAddress",
    "QueueClient",
    "QueueCondition",
    "QueueNotEmptyError",
    "QueueNotFoundError",
    "ReceivedMessage",
    "RecoverabilityOptions",
    "Reply",
    "RequeueResult",
    "ResolvedAddress",
    "ReturnOptions",
    "ReturnResult",
    "RowRefusedError",
    "SendResult",
    "Sender",
    "ServerBusyError",
    "ServerUnreachableError",
    "SparkJobError",
    "SqlQueueError",
    "SqlQueueHook",
    "SqlQueueNotifier",
    "StagingError",
    "StatementError",
    "StrandedBatchError",
    "StreamManager",
    "SubscriptionManager",
    "SweepOptions",
    "SweepResult",
    "TableManager",
    "TransactionError",
    "TransactionLostError",
    "TransientError",
    "Triage",
    "UnknownHostError",
    "UnsupportedServerError",
    "UntrustedServerError",
    "WrongBatchError",
    "__version__",
    "actions_dag",
    "create_asset",
    "load_batch",
    "read_batch",
    "read_bodies",
    "reply",
    "sqlqueue_consume_task",
    "verify_count",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "address": "QueueAddress",
        "assets": "create_asset",
        "client": "QueueClient",
        "client.batches": "BatchManager",
        "client.streams": "StreamManager",
        "client.delayed": "DelayedQueue",
        "client.errors": "ErrorManager",
        "client.quarantine": "QuarantineManager",
        "client.queues": "Queue",
        "client.subscriptions": "SubscriptionManager",
        "client.tables": "TableManager",
        "consuming.consumer": "Consumer",
        "consuming.options": "ConsumeOptions ConsumeResult",
        "consuming.recoverability": "RecoverabilityOptions",
        "decorators.consume": "sqlqueue_consume_task",
        "delayed.mover": "MoveResult",
        "drain.batches": "BatchInfo",
        "drain.drain": "DrainResult",
        "drain.manifest": "Batch",
        "drain.options": "DrainOptions",
        "drain.request": "DrainRequest",
        "drain.requeue": "RequeueResult",
        "drain.sweep": "SweepOptions SweepResult",
        "envelope": "Envelope Sender reply",
        "errorqueue.editing": "EditResult",
        "errorqueue.filters": "ErrorFilter",
        "errorqueue.return_to_source": "ReturnOptions ReturnResult",
        "errorqueue.triage": "ErrorGroup Triage",
        "errors": (
            "AddressError BatchError BatchMismatchError BatchNotFoundError ConditionNotMetError "
            "ConfigurationError ConnectionLostError DataMovedError DeadlockError DriverNotFoundError "
            "LayoutChangedError LockTimeoutError LoginFailedError MessageError MessageNotFoundError "
            "NoReplyError NotAQueueError PermissionDeniedError QueueNotEmptyError QueueNotFoundError "
            "RowRefusedError ServerBusyError ServerUnreachableError SparkJobError SqlQueueError StagingError "
            "StatementError StrandedBatchError TransactionError TransactionLostError TransientError "
            "UnknownHostError UnsupportedServerError UntrustedServerError WrongBatchError"
        ),
        "hooks": "SqlQueueHook",
        "inspection.findings": "Finding",
        "message": "HeaderNames Message ReceivedMessage",
        "notifications": "SqlQueueNotifier",
        "plugin.actions_dag": "actions_dag",
        "publishing.conversation": "Reply",
        "publishing.subscriptions": "PublishResult",
        "queue": "MessageFilter PurgeOptions QueueCondition",
        "queue.condition": "ConditionResult",
        "queue.depth": "Backlog Depth",
        "queue.purge": "PurgeResult",
        "queue.send_ledger": "SendResult",
        "routing": "AddressResolver ResolvedAddress",
        "server.settings": "ConnectionSettings",
        "spark": "load_batch read_batch read_bodies verify_count",
        "tables.create": "CreateResult",
    },
)
