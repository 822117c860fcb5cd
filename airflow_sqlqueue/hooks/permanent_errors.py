"""Errors that no retry fixes, which fail a task at once, and errors that pass by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_sqlqueue import errors

PERMANENT = (
    errors.AddressError,
    errors.BatchMismatchError,
    errors.BatchNotFoundError,
    errors.ConfigurationError,
    errors.CopyError,
    errors.MessageError,
    errors.NotAQueueError,
    errors.PayloadError,
    errors.PermissionDeniedError,
    errors.QueueNotFoundError,
    errors.StrandedBatchError,
    errors.TooManyRescuedError,
    errors.WrongBatchError,
)
"""Errors that the next try would meet again."""

PASSING = (
    errors.DataBusUnreachableError,
    errors.LoginFailedError,
    errors.ServerUnreachableError,
    errors.TransientError,
)
"""Errors that pass by themselves: a server refuses logins and connections while it fails over or restarts."""


@contextmanager
def fail_without_retry() -> Iterator[None]:
    """Turn an error that the next try would meet again into ``AirflowFailException``, with the same sentence.

    A missing queue is such an error, so that a misspelled name shows at once. Put the task that creates the queue first
    in the DAG, or clear the failed task afterwards.
    """
    try:
        yield
    except PERMANENT as error:
        raise AirflowFailException(str(error)) from error
