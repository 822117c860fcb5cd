"""Wait until a queue holds enough messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_sqlqueue.operators.base import QueueTask

if TYPE_CHECKING:
    from airflow.sdk import Context

EXPIRED_ALLOWANCE = 1_000
"""Expired messages that a poke may meet at the head of the queue before it has to count the whole queue."""


class SqlQueueDepthSensor(QueueTask, BaseSensorOperator):
    """Wait until a queue holds at least ``threshold`` messages that have not expired and that nobody has locked.

    A poke reads only as many rows at the head of the queue as it needs, so it is cheap however deep the queue is; the
    depth in XCom (``messages``, ``expired``) is counted no further either. Nothing is removed, and whoever receives
    after the sensor may find fewer. Both modes work; ``reschedule`` keeps no worker slot between pokes.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param threshold: how many messages to wait for, at least 1 (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("queue_name", "threshold", "sqlqueue_conn_id")
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        queue_name: str,
        threshold: int | str = 1,
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.threshold = threshold
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once; raises our errors, those no retry mends as AirflowFailException."""
        from airflow_sqlqueue.hooks.failures import fail_without_retry

        # Airflow skips a soft-failing sensor that is not to be retried; a sensor that cannot look must fail instead.
        with nullcontext() if self.soft_fail else fail_without_retry():
            threshold = _threshold(self.threshold)
            rows = threshold + EXPIRED_ALLOWANCE
            with self.hook.queue(self.queue_name) as queue:
                depth = queue.depth(at_most=rows)
                if depth.messages < threshold and depth.messages + depth.expired >= rows:
                    depth = queue.depth()
        self.log.info("Queue %s: %d messages of %d", self.queue_name, depth.messages, threshold)
        return PokeReturnValue(
            is_done=depth.messages >= threshold,
            xcom_value={"messages": depth.messages, "expired": depth.expired},
        )


def _threshold(value: int | str) -> int:
    from airflow_sqlqueue.errors import ConfigurationError

    try:
        number = int(value)
    except ValueError as error:
        raise ConfigurationError(f"The threshold {value!r} is not a whole number.") from error
    if number < 1:
        raise ConfigurationError(f"The threshold is {number}: wait for at least 1 message.")
    return number
