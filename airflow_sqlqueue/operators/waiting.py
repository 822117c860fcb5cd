"""An operator that waits before it goes on: in its own process, or deferred."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import TaskDeferralTimeout

from airflow_sqlqueue.errors import ConditionNotMetError, ConfigurationError, SqlQueueError
from airflow_sqlqueue.operators.base import RoutedTask
from airflow_sqlqueue.reconnecting import RETRIED

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

T = TypeVar("T")


class WaitingTask(BaseOperator):
    """A task that waits. Classes that take it set the attributes, and have a method ``execute_complete``."""

    deferrable: bool
    poll_interval: float
    wait_timeout: float | timedelta | None

    def wait(self, look: Callable[[], T | None], trigger: Callable[[], BaseTrigger]) -> T:
        """Look until there is something, and return it; where the task is deferrable, look once and defer.

        A server that is lost is waited for. Raises what :meth:`timed_out` returns.
        """
        timeout = self._timeout()
        deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
        while True:
            found = None
            try:
                found = look()
            except RETRIED as error:
                self.log.warning("The look failed; the task looks again: %s", error)
            if found is not None:
                return found
            if self.deferrable:
                self.defer(trigger=trigger(), method_name="execute_complete", timeout=timeout)
            left = self.poll_interval if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise self.timed_out()
            time.sleep(min(self.poll_interval, left))
            self.end_if_killed()

    def timed_out(self) -> SqlQueueError:
        """The error for a wait that took too long."""
        raise NotImplementedError

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
    """A task that waits until its queue meets a condition."""

    def wait_for_condition(self, options: Mapping[str, Any]) -> None:
        """Wait; ``options`` are those of a :class:`~airflow_sqlqueue.queue.condition.QueueCondition`."""
        from airflow_sqlqueue.queue.condition import QueueCondition

        condition = QueueCondition.of(options)

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
                **condition.to_dict(),
            )

        self.wait(look, trigger)

    def timed_out(self) -> SqlQueueError:
        return ConditionNotMetError(
            f"The queue {self.address} did not come to what the task waits for within its wait_timeout: look at who "
            "sends, or wait longer."
        )
