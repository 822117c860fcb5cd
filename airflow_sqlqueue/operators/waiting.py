"""Base classes of operators that first wait, in their own process or deferred."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.providers.common.compat.sdk import conf

from airflow_sqlqueue.errors import ConditionNotMetError, ConfigurationError, LoginFailedError, SqlQueueError
from airflow_sqlqueue.operators.base import ConditionTask, ServerTask
from airflow_sqlqueue.options import interval
from airflow_sqlqueue.server.reconnecting import MAX_FAILURES, passes
from airflow_sqlqueue.versions.airflow import TaskDeferralTimeout

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

T = TypeVar("T")


class WaitingTask(ServerTask):
    """Base class of tasks that wait. Subclasses have a method ``execute_complete``.

    :param wait_timeout: longest time to wait, seconds or a timedelta; None: no limit.
    :param poll_interval: seconds between two polls.
    :param deferrable: wait in the triggerer; ``[operators] default_deferrable`` unless given.
    """

    def __init__(
        self,
        *,
        wait_timeout: float | timedelta | None = None,
        poll_interval: float = 60.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.wait_timeout = wait_timeout
        self.poll_interval = poll_interval
        self.deferrable = deferrable

    def wait(
        self, poll: Callable[[], T | None], trigger: Callable[[], BaseTrigger], kwargs: dict[str, Any] | None = None
    ) -> T:
        """Poll until there is a result, and return it; a deferrable task polls once and defers.

        A lost server is waited for, and the connection is looked up again meanwhile, because a user may repair it.
        ``execute_complete`` gets ``kwargs`` beside the event. Raises the error of :meth:`timed_out`.
        """
        from airflow_sqlqueue.options import seconds

        timeout, pause = self._timeout(), seconds("poll_interval", self.poll_interval)
        deadline = math.inf if timeout is None else time.monotonic() + timeout.total_seconds()
        known, refusals = False, 0
        while True:
            found = None
            try:
                found = poll()
                known, refusals = True, 0
            except SqlQueueError as error:
                refusals += isinstance(error, LoginFailedError)
                if not passes(error, known=known and refusals <= MAX_FAILURES):
                    raise
                self.log.warning("The poll failed; the task tries again: %s", error)
                self.forget_connection()
            if found is not None:
                return found
            if self.deferrable:
                self.defer(trigger=trigger(), method_name="execute_complete", kwargs=kwargs, timeout=timeout)
            left = deadline - time.monotonic()
            if left <= 0:
                raise self.timed_out()
            # The pause between polls of a task that does not defer.
            time.sleep(min(pause, left))
            self.end_if_killed()

    @abstractmethod
    def timed_out(self) -> SqlQueueError:
        """Return the error of a wait that reached its timeout."""

    def end_if_killed(self) -> None:
        """Raise if Airflow has asked the task to end."""

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume as Airflow does, with this package's error for a wait in the triggerer that reached its timeout."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout as error:
            raise self.timed_out() from error

    def _timeout(self) -> timedelta | None:
        given = interval("wait_timeout", self.wait_timeout)
        if given is not None and given < timedelta(0):
            raise ConfigurationError(f"wait_timeout is {self.wait_timeout}: give zero or more seconds.")
        return given


class QueueWaitingTask(WaitingTask, ConditionTask):
    """Base class of tasks that can wait until their queue meets a condition.

    :param wait_for: the condition to wait for first, options of
        :class:`~airflow_sqlqueue.QueueCondition`: ``{"min_messages": 1000, "oldest_seconds": 3600}``;
        None: do not wait (templated)
    """

    def wait_for_condition(self) -> None:
        """Wait for ``wait_for``; if that is empty, for one message."""
        self.wait(lambda: self.check_condition().met or None, lambda: self.depth_trigger(self.poll_interval))

    def timed_out(self) -> SqlQueueError:
        return ConditionNotMetError(
            f"The queue {self.address} did not meet the condition wait_for within the wait_timeout: check its senders, "
            "or wait longer."
        )
