"""Base classes of operators that wait before they go on, in their own process or deferred."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow.sdk import conf
from airflow.sdk.exceptions import TaskDeferralTimeout

from airflow_sqlqueue.errors import ConditionNotMetError, ConfigurationError, LoginFailedError, SqlQueueError
from airflow_sqlqueue.operators.base import RoutedTask, ServerTask, templated
from airflow_sqlqueue.reconnecting import MAX_FAILURES, passes

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

T = TypeVar("T")


class WaitingTask(ServerTask):
    """Base class of tasks that wait. Subclasses have a method ``execute_complete``.

    :param wait_timeout: how long to wait at the most, seconds or a timedelta; None: without end.
    :param poll_interval: seconds between two looks.
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
        self, look: Callable[[], T | None], trigger: Callable[[], BaseTrigger], kwargs: dict[str, Any] | None = None
    ) -> T:
        """Look until there is something, and return it; where the task is deferrable, look once and defer.

        A server that is lost is waited for, and the connection is looked up anew meanwhile: it may have been repaired.
        ``kwargs`` are what ``execute_complete`` gets besides the event. Raises what :meth:`timed_out` returns.
        """
        timeout = self._timeout()
        deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
        known, refusals = False, 0
        while True:
            found = None
            try:
                found = look()
                known, refusals = True, 0
            except SqlQueueError as error:
                refusals += isinstance(error, LoginFailedError)
                if not passes(error, known=known and refusals <= MAX_FAILURES):
                    raise
                self.log.warning("The look failed; the task looks again: %s", error)
                self.forget_connection()
            if found is not None:
                return found
            if self.deferrable:
                self.defer(trigger=trigger(), method_name="execute_complete", kwargs=kwargs, timeout=timeout)
            left = self.poll_interval if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise self.timed_out()
            time.sleep(min(self.poll_interval, left))
            self.end_if_killed()

    @abstractmethod
    def timed_out(self) -> SqlQueueError:
        """The error for a wait that took too long."""

    def end_if_killed(self) -> None:
        """Raise where the task was told to end."""

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """As Airflow does, with our error for a wait in the triggerer that took too long."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout as error:
            raise self.timed_out() from error

    def _timeout(self) -> timedelta | None:
        given = self.wait_timeout
        if given is None or isinstance(given, timedelta):
            return given
        if given < 0:
            raise ConfigurationError(f"wait_timeout is {given}: give zero or more seconds.")
        return timedelta(seconds=given)


class QueueWaitingTask(WaitingTask, RoutedTask):
    """Base class of tasks that can wait until their queue meets a condition.

    :param wait_for: what to wait for first, options of :class:`~airflow_sqlqueue.queue.condition.QueueCondition`:
        ``{"min_messages": 1000, "oldest_seconds": 3600}``; None: nothing (templated)
    """

    template_fields = templated(RoutedTask, "wait_for")
    template_fields_renderers: ClassVar[dict[str, str]] = {"wait_for": "json"}

    def __init__(self, *, wait_for: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait_for = wait_for

    def wait_for_condition(self) -> None:
        """Wait for ``wait_for``; where that is empty, for one message."""
        from airflow_sqlqueue.queue.condition import QueueCondition

        condition = QueueCondition.of(self.wait_for or {})

        def look() -> bool | None:
            found = self.sql_queue.check(condition)
            self.log.info("Queue %s: %s; waiting for %s", self.address, found, condition)
            return found.met or None

        def trigger() -> BaseTrigger:
            from airflow_sqlqueue.triggers.depth import SqlQueueDepthTrigger

            return SqlQueueDepthTrigger(
                queue_name=self.address,
                poll_interval=self.poll_interval,
                sqlqueue_conn_id=self.sqlqueue_conn_id,
                hook_params=self.hook_params,
                wait_for=condition.to_dict(),
            )

        self.wait(look, trigger)

    def timed_out(self) -> SqlQueueError:
        return ConditionNotMetError(
            f"The queue {self.address} did not come to what the task waits for within its wait_timeout: look at who "
            "sends, or wait longer."
        )
