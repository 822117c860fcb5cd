"""Exceptions of this package, as one tree.

Two errors have different classes where a caller would act differently. The text is one sentence that says what is wrong
and what to do; ``__cause__`` has the driver's text. Neither contains message bodies, headers or secrets.

::

    SqlQueueError
    ├── AddressError               an unusable address, name or routing setting (also a ValueError)
    ├── ConfigurationError         an unusable connection, option or argument (also a ValueError)
    │   ├── DriverNotFoundError    no ODBC driver for SQL Server on this machine
    │   ├── UnsupportedServerError an older server than SQL Server 2016, or a warehouse
    │   └── UntrustedServerError   the server's certificate is not trusted, or there is no common encryption
    ├── MessageError               a message cannot be sent as it is (also a ValueError)
    │   └── BodyError              a body cannot be parsed; ``reason`` has the cause in a word or two
    ├── MessageNotFoundError       the named message is not in the queue, or others hold it
    ├── ServerUnreachableError     no answer at the host and port
    │   └── UnknownHostError       the host's name has no known address
    ├── LoginFailedError           the server refused the login or the database
    ├── PermissionDeniedError      the login has no permission for the statement
    ├── QueueNotFoundError         there is no table at the address
    ├── NotAQueueError             the table is not a queue table, or not of the requested kind
    ├── QueueNotEmptyError         the queue holds messages that would be lost
    ├── TransientError             the unit of work was rolled back and can be run again
    │   ├── DeadlockError          the server chose this transaction as the victim (1205)
    │   ├── LockTimeoutError       a lock was not granted in time (1222)
    │   ├── LayoutChangedError     the table was altered during a transaction that had read its layout
    │   ├── ServerBusyError        the server fails over or is overloaded
    │   ├── DataMovedError         rows were moved during a read that takes no locks (601)
    │   ├── ConnectionLostError    the connection broke; a COMMIT under way may or may not have taken effect
    │   └── TransactionLostError   the server ended the transaction early (also a TransactionError)
    ├── TransactionError           a transaction cannot do this: it failed before, or it would span two servers
    ├── ConditionNotMetError       a queue did not meet a condition in time (also a TimeoutError)
    ├── NoReplyError               no reply came in time (also a TimeoutError)
    ├── NoHandlerError             no function of a consumer handles a message's types
    ├── TooManyFailuresError       a consumer has reached a limit on failures
    ├── BatchError                 a batch is not in the state that the operation needs
    │   ├── BatchNotFoundError     the ledger does not know the batch
    │   ├── WrongBatchError        a drain cannot resume this batch: it was put back, or is another queue's
    │   ├── StrandedBatchError     earlier runs of a task left unfinished batches without a worker
    │   └── BatchMismatchError     files, ledger and reader do not agree on the contents of the batch
    ├── TooManyRescuedError        more of a batch's messages are rescued or not parsed than a task allows
    ├── CopyError                  a copy of new messages does not fit its queue any more, or has too many gaps
    ├── StagingError               a batch's folder or a part's file cannot be written or read
    ├── PayloadError               a payload of the data bus is not usable, which no retry changes
    │   ├── PayloadGoneError       the data bus has no such payload any more
    │   ├── PayloadTooLargeError   the payload has more bytes than the limit
    │   └── PayloadKeyError        the key is not one that a data bus gives, and was not used
    ├── DataBusUnreachableError    the data bus cannot be read now; a later try may succeed
    │   └── PayloadUnreadableError the data bus can be read, but not this payload
    ├── SparkJobError              a Spark application that handles a batch ended with an error
    └── StatementError             any other error of the server, with its number
        └── RowRefusedError        a type, a constraint or a trigger of the table refused a row
"""

from __future__ import annotations

from airflow_sqlqueue.untrusted import sentence


class SqlQueueError(Exception):
    """Base class of the package's exceptions. The text is one line of printable characters."""

    def __init__(self, message: str = "") -> None:
        super().__init__(sentence(message))


class AddressError(SqlQueueError, ValueError):
    """Unusable address, name or routing setting."""


class ConfigurationError(SqlQueueError, ValueError):
    """Unusable connection, option or argument."""


class DriverNotFoundError(ConfigurationError):
    """No ODBC driver for SQL Server on this machine."""


class UnsupportedServerError(ConfigurationError):
    """An older server than SQL Server 2016, or a warehouse of Azure Synapse Analytics or Microsoft Fabric."""


class UntrustedServerError(ConfigurationError):
    """The server's certificate is not trusted, or client and server agree on no encryption."""


class MessageError(SqlQueueError, ValueError):
    """A message cannot be sent: its id, headers or body are not valid."""


class BodyError(MessageError):
    """A body cannot be parsed.

    :param reason: a word or two of :mod:`airflow_sqlqueue.bodies.decoding`, such as ``json`` or ``depth``.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"The body cannot be parsed ({reason}): docs/guides/bodies.md lists the reasons.")
        self.reason = reason


class MessageNotFoundError(SqlQueueError):
    """The named message is not in the queue, or others hold it."""


class ServerUnreachableError(SqlQueueError):
    """No answer at the host and port."""


class UnknownHostError(ServerUnreachableError):
    """The host's name has no known address."""


class LoginFailedError(SqlQueueError):
    """The server refused the login or the database."""


class PermissionDeniedError(SqlQueueError):
    """Missing permission of the login. ``permission`` is its name (``SELECT``), None if the server does not give it."""

    def __init__(self, message: str, permission: str | None = None) -> None:
        super().__init__(message)
        self.permission = permission


class QueueNotFoundError(SqlQueueError):
    """There is no table at the address."""


class NotAQueueError(SqlQueueError):
    """The table is not a queue table, or not of the requested kind."""


class QueueNotEmptyError(SqlQueueError):
    """The queue holds messages that would be lost."""


class TransientError(SqlQueueError):
    """The unit of work was rolled back; it can be run again."""


class DeadlockError(TransientError):
    """The server chose this transaction as the victim of a deadlock (1205)."""


class LockTimeoutError(TransientError):
    """A lock was not granted in time (1222)."""


class LayoutChangedError(TransientError):
    """The table was altered during a transaction that had read its layout."""


class ServerBusyError(TransientError):
    """The server fails over or is overloaded."""


class DataMovedError(TransientError):
    """Rows were moved or deleted during a read that takes no locks (601)."""


class ConnectionLostError(TransientError):
    """The connection broke; a COMMIT under way may or may not have taken effect."""


class TransactionError(SqlQueueError):
    """A transaction cannot do this: it failed before, or it would span two servers."""


class TransactionLostError(TransientError, TransactionError):
    """The server ended the transaction early, and the statement that noticed it did nothing."""


class ConditionNotMetError(SqlQueueError, TimeoutError):
    """A queue did not meet a condition in time."""


class NoReplyError(SqlQueueError, TimeoutError):
    """No reply to a request came in time."""


class NoHandlerError(SqlQueueError):
    """No function of a consumer handles a message's types."""


class TooManyFailuresError(SqlQueueError):
    """A consumer has reached a limit on failures: ``max_failed`` or ``max_consecutive_failures``."""


class BatchError(SqlQueueError):
    """A batch is not in the state that the operation needs, such as sealed."""


class BatchNotFoundError(BatchError):
    """The ledger does not know the batch."""


class WrongBatchError(BatchError):
    """A drain cannot resume this batch: it was put back, or belongs to another queue, or is staged in another way."""


class StrandedBatchError(BatchError):
    """Earlier runs of a task left unfinished batches without a worker."""


class BatchMismatchError(BatchError):
    """Files, ledger and reader do not agree on the contents of the batch."""


class TooManyRescuedError(SqlQueueError):
    """More of a batch's messages are rescued or not parsed than ``max_rescued`` or ``max_unparsed`` allow."""


class CopyError(SqlQueueError):
    """A copy of new messages does not fit its queue any more, or has too many gaps."""


class StagingError(SqlQueueError):
    """A batch's folder or a part's file cannot be written or read."""


class PayloadError(SqlQueueError):
    """A payload of the data bus is not usable, which no retry changes."""


class PayloadGoneError(PayloadError):
    """The data bus has no such payload any more."""


class PayloadTooLargeError(PayloadError):
    """The payload has more bytes than the limit. ``size`` is its size in bytes."""

    def __init__(self, message: str, size: int = 0) -> None:
        super().__init__(message)
        self.size = size


class PayloadKeyError(PayloadError):
    """The key of a payload is not one that a data bus gives, and was not used."""


class DataBusUnreachableError(SqlQueueError):
    """The data bus cannot be read now; a later try may succeed."""


class PayloadUnreadableError(DataBusUnreachableError):
    """A single payload that cannot be opened on a data bus that answers, as without the permission to it."""


class SparkJobError(SqlQueueError):
    """A Spark application that handles a batch ended with an error."""


class StatementError(SqlQueueError):
    """Any other error of the server. ``number`` is SQL Server's error number, None if the driver gave no number."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


class RowRefusedError(StatementError):
    """A type, a constraint or a trigger of the table refused a row; the table may accept other rows."""


def is_of_a_message(error: BaseException) -> bool:
    """Return whether an error comes from one message, so that others can still be handled, and not from the rest."""
    return isinstance(error, (MessageError, AddressError, RowRefusedError)) or not isinstance(error, SqlQueueError)
