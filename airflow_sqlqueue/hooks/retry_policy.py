"""Which of our errors a retry can fix, and how soon it is worth one."""

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
"""The next try would meet them again."""

PASSING = (errors.LoginFailedError, errors.ServerUnreachableError, errors.TransientError)
"""They pass by themselves: a server that fails over or restarts refuses logins and connections for a while."""


@contextmanager
def fail_without_retry() -> Iterator[None]:
    """Turn an error that the next try would meet again into ``AirflowFailException``, with the same sentence.

    A queue that does not exist is among them, so that a name with a slip in it shows at once: what creates the queue
    later has to come before the task, or the task is cleared then.
    """
    try:
        yield
    except PERMANENT as error:
        raise AirflowFailException(str(error)) from error


class TransientRetryPolicy(RetryPolicy):
    """Retry soon what passes by itself, later and later; a task's ``retry_policy``, or that of ``default_args``.

    After an error of :class:`~airflow_sqlqueue.errors.TransientError`, a server that cannot be reached and a login that
    is refused, the next try comes after ``first`` seconds, then after twice as many, up to ``longest``, half of it at
    random, so that not all tasks come back at once. What no retry fixes ends the task. For everything else, errors of
    your own code included, the task's ``retry_delay`` stands. ``retries`` is the limit in any case.

    :param first: seconds before the second try.
    :param longest: the longest pause, in seconds.
    """

    def __init__(self, first: float = 10.0, longest: float = 600.0) -> None:
        if not 0 < first <= longest:
            raise errors.ConfigurationError(
                "first and longest are numbers of seconds above 0, and longest is the larger one."
            )
        self.first, self.longest = float(first), float(longest)

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """What to do after a failure; the reason names the error's class, nothing of its text."""
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
