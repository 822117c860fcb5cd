"""Which of our errors a retry cannot fix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from airflow_sqlqueue.errors import (
    AddressError,
    ConfigurationError,
    MessageError,
    NotAQueueError,
    PermissionDeniedError,
    QueueNotFoundError,
    StrandedBatchError,
    WrongBatchError,
)

PERMANENT = (
    AddressError,
    ConfigurationError,
    MessageError,
    NotAQueueError,
    PermissionDeniedError,
    QueueNotFoundError,
    StrandedBatchError,
    WrongBatchError,
)


@contextmanager
def fail_without_retry() -> Iterator[None]:
    """Turn an error that the next try would meet again into ``AirflowFailException``, with the same sentence.

    A queue that does not exist is among them, so that a name with a slip in it shows at once: what creates the queue
    later has to come before the task, or the task is cleared then. A refused login is not among them: a server that
    fails over refuses logins for a while.
    """
    try:
        yield
    except PERMANENT as error:
        raise AirflowFailException(str(error)) from error
