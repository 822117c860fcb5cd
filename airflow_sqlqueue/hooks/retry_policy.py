"""Retry policy: growing pauses after errors that pass by themselves, none after errors that no retry fixes."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from airflow.sdk import Context

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.permanent_errors import PASSING, PERMANENT
from airflow_sqlqueue.server.reconnecting import pause_after
from airflow_sqlqueue.versions.airflow import RETRY_POLICIES, RetryDecision, RetryPolicy


class TransientRetryPolicy(RetryPolicy):
    """Retry policy with growing pauses, for errors that pass by themselves; for ``retry_policy`` or ``default_args``.

    After a :class:`~airflow_sqlqueue.errors.TransientError`, an unreachable server or data bus, or a refused login, the
    next try comes after ``first`` seconds, then after twice as many, up to ``longest``. Half of each pause is random,
    so that not all tasks come back at once. An error that no retry fixes ends the task. After any other error, also of
    your own code, the task's ``retry_delay`` applies. ``retries`` is the limit in any case.

    Needs Airflow 3.3 or later. Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` before.

    :param first: seconds before the second try.
    :param longest: the longest pause, in seconds.
    """

    def __init__(self, first: float = 10.0, longest: float = 600.0) -> None:
        RETRY_POLICIES.require()
        if not 0 < first <= longest:
            raise ConfigurationError(
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
