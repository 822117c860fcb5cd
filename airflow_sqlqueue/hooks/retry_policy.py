"""Retry policy: errors that a retry can fix, and the pause before it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from airflow.sdk import Context, RetryDecision, RetryPolicy
from airflow.sdk.exceptions import AirflowFailException

from airflow_sqlqueue import errors
from airflow_sqlqueue.reconnecting import pause_after

PERMANENT = (
    errors.AddressError,
    errors.BatchMismatchError,
    errors.BatchNotFoundError,
    errors.ConfigurationError,
    errors.MessageError,
    errors.NotAQueueError,
    errors.PermissionDeniedError,
    errors.QueueNotFoundError,
    errors.StrandedBatchError,
    errors.WrongBatchError,
)
"""Errors that the next try would meet again."""

PASSING = (errors.LoginFailedError, errors.ServerUnreachableError, errors.TransientError)
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


class TransientRetryPolicy(RetryPolicy):
    """Retry policy with growing pauses, for errors that pass by themselves; for ``retry_policy`` or ``default_args``.

    After a :class:`~airflow_sqlqueue.errors.TransientError`, an unreachable server or a refused login the next try
    comes after ``first`` seconds, then after twice as many, up to ``longest``. Half of each pause is random, so that
    not all tasks come back at once. An error that no retry fixes ends the task. After any other error, also of your own
    code, the task's ``retry_delay`` applies. ``retries`` is the limit in any case.

    :param first: seconds before the second try.
    :param longest: the longest pause, in seconds.
    """

    def __init__(self, first: float = 10.0, longest: float = 600.0) -> None:
        if not 0 < first <= longest:
            raise errors.ConfigurationError(
                "first and longest have to be numbers of seconds above 0, and first not above longest."
            )
        self.first, self.longest = float(first), float(longest)

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Decide about a retry after a failure; the reason names the error's class, without its text."""
        reason = type(exception).__name__
        if isinstance(exception, PERMANENT):
            return RetryDecision.fail(f"No retry fixes {reason}.")
        if not isinstance(exception, PASSING):
            return RetryDecision.default()
        pause = pause_after(max(0, try_number - 1), first=self.first, longest=self.longest)
        pause *= random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        return RetryDecision.retry(timedelta(seconds=pause), f"{reason} passes by itself.")

    def serialize(self) -> dict[str, Any]:
        return {"first": self.first, "longest": self.longest}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> TransientRetryPolicy:
        return cls(**data)
