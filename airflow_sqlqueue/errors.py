"""Everything this package raises on purpose, as one tree.

Each class stands where a caller would act differently. The text is one sentence that says what is wrong and what to do;
what the driver said is in ``__cause__``. Message bodies, headers and secrets are in neither.

::

    SqlQueueError
    ├── AddressError               an address, a name or a routing setting cannot be used (also a ValueError)
    ├── ConfigurationError         a connection, an option or an argument cannot be used (also a ValueError)
    │   ├── DriverNotFoundError    no ODBC driver for SQL Server on this machine
    │   ├── UnsupportedServerError an older server than SQL Server 2016, or a warehouse
    │   └── UntrustedServerError   the server's certificate is not trusted, or the two agree on no encryption
    ├── MessageError               a message cannot be sent as it is (also a ValueError)
    ├── MessageNotFoundError       no message of that name is in the queue, or others hold it
    ├── ServerUnreachableError     nothing answered at the host and port
    │   └── UnknownHostError       no address is known for the host's name
    ├── LoginFailedError           the server refused the login or the database
    ├── PermissionDeniedError      the login may not do this
    ├── QueueNotFoundError         no table stands at the address
    ├── NotAQueueError             the table is not a queue table, or not the one that was asked for
    ├── QueueNotEmptyError         the queue holds messages that would be lost
    ├── TransientError             the unit of work was rolled back and can be run again
    │   ├── DeadlockError          the server chose this transaction as the victim (1205)
    │   ├── LockTimeoutError       a lock was not granted in time (1222)
    │   ├── LayoutChangedError     the table was altered under a transaction that had read it before
    │   ├── ServerBusyError        the server fails over or is overloaded
    │   ├── DataMovedError         rows were moved under a read that takes no locks (601)
    │   ├── ConnectionLostError    the connection broke; whether a COMMIT under way took effect is not known
    │   └── TransactionLostError   the server ended the transaction before its time (also a TransactionError)
    ├── TransactionError           a transaction cannot do this: it failed before, or it would span two servers
    ├── ConditionNotMetError       a queue did not come to what was waited for in time (also a TimeoutError)
    ├── NoReplyError               no reply came in time (also a TimeoutError)
    ├── BatchError                 a batch is not in the state that was asked for
    │   ├── BatchNotFoundError     the ledger does not know the batch
    │   ├── WrongBatchError        a drain cannot go on with this batch: it was put back, or is another queue's
    │   ├── StrandedBatchError     earlier runs of a task left batches behind that nobody works on
    │   └── BatchMismatchError     files, ledger and reader do not agree on what the batch holds
    ├── StagingError               a batch's folder or a part's file cannot be written or read
    ├── SparkJobError              a Spark application that was given a batch ended with an error
    └── StatementError             any other error of the server, with its number
        └── RowRefusedError        a type, a constraint or a trigger of the table refused a row
"""

from __future__ import annotations

from airflow_sqlqueue.untrusted import sentence


class SqlQueueError(Exception):
    """The root of the tree. Its text is one line of printable characters, whatever the names in it hold."""

    def __init__(self, message: str = "") -> None:
        super().__init__(sentence(message))


class AddressError(SqlQueueError, ValueError):
    """An address, a name or a routing setting cannot be used."""


class ConfigurationError(SqlQueueError, ValueError):
    """A connection, an option or an argument cannot be used."""


class DriverNotFoundError(ConfigurationError):
    """No ODBC driver for SQL Server on this machine."""


class UnsupportedServerError(ConfigurationError):
    """An older server than SQL Server 2016, or a warehouse of Azure Synapse Analytics or Microsoft Fabric."""


class UntrustedServerError(ConfigurationError):
    """The server's certificate is not trusted, or client and server agree on no encryption."""


class MessageError(SqlQueueError, ValueError):
    """A message cannot be sent as it is."""


class MessageNotFoundError(SqlQueueError):
    """No message of that name is in the queue, or others hold it."""


class ServerUnreachableError(SqlQueueError):
    """Nothing answered at the host and port."""


class UnknownHostError(ServerUnreachableError):
    """No address is known for the host's name."""


class LoginFailedError(SqlQueueError):
    """The server refused the login or the database."""


class PermissionDeniedError(SqlQueueError):
    """The login may not do this. ``permission`` is the missing one (``SELECT``), None where the server does not say."""

    def __init__(self, message: str, permission: str | None = None) -> None:
        super().__init__(message)
        self.permission = permission


class QueueNotFoundError(SqlQueueError):
    """No table stands at the address."""


class NotAQueueError(SqlQueueError):
    """The table is not a queue table, or not the one that was asked for."""


class QueueNotEmptyError(SqlQueueError):
    """The queue holds messages that would be lost."""


class TransientError(SqlQueueError):
    """The unit of work was rolled back and can be run again."""


class DeadlockError(TransientError):
    """The server chose this transaction as the victim of a deadlock (1205)."""


class LockTimeoutError(TransientError):
    """A lock was not granted in time (1222)."""


class LayoutChangedError(TransientError):
    """The table was altered under a transaction that had read its layout before."""


class ServerBusyError(TransientError):
    """The server fails over or is overloaded."""


class DataMovedError(TransientError):
    """Rows were moved or deleted under a read that takes no locks (601)."""


class ConnectionLostError(TransientError):
    """The connection broke; whether a COMMIT under way took effect is not known."""


class TransactionError(SqlQueueError):
    """A transaction cannot do this: it failed before, or it would span two servers."""


class TransactionLostError(TransientError, TransactionError):
    """The server ended the transaction before its time, and the statement that found this out did nothing."""


class ConditionNotMetError(SqlQueueError, TimeoutError):
    """A queue did not come to what was waited for in time."""


class NoReplyError(SqlQueueError, TimeoutError):
    """No reply to a request came in time."""


class BatchError(SqlQueueError):
    """A batch is not in the state that was asked for."""


class BatchNotFoundError(BatchError):
    """The ledger does not know the batch."""


class WrongBatchError(BatchError):
    """A drain cannot go on with this batch: it was put back, or is another queue's or staged in another way."""


class StrandedBatchError(BatchError):
    """Earlier runs of a task left batches behind that nobody works on."""


class BatchMismatchError(BatchError):
    """Files, ledger and reader do not agree on what the batch holds."""


class StagingError(SqlQueueError):
    """A batch's folder or a part's file cannot be written or read."""


class SparkJobError(SqlQueueError):
    """A Spark application that was given a batch ended with an error."""


class StatementError(SqlQueueError):
    """Any other error of the server. ``number`` is SQL Server's error number, None where the driver gave none."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


class RowRefusedError(StatementError):
    """A type, a constraint or a trigger of the table refused a row; other rows may be taken."""


def is_of_a_message(error: BaseException) -> bool:
    """Whether an error comes from one message, so that others can still be handled.

    Every other error of ours says that a server, a table, a right or a setting is in the way, for all messages alike.
    """
    return isinstance(error, (MessageError, AddressError, RowRefusedError)) or not isinstance(error, SqlQueueError)
