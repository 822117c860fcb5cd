"""Wait until a queue holds enough messages, or old ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import QueueTask

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_sqlqueue.queue import Depth, QueueTable

EXPIRED_ALLOWANCE = 1_000
"""Expired messages that a poke may meet at the head of the queue before it has to count the whole queue."""


class SqlQueueDepthSensor(QueueTask, BaseSensorOperator):
    """Wait until a queue holds at least ``threshold`` messages, or one that was sent ``oldest_seconds`` ago.

    Where both are given, whichever comes first ends the wait: a batch that is full, or that waited long enough. Where
    neither is, one message does.

    A poke of the kind ``exact`` counts messages that have not expired and that nobody has locked. It reads only as many
    rows at the head of the queue as it needs, so it is cheap however deep the queue is; it then logs "at least" so
    many, and the depth in XCom (``messages``, ``expired``) is counted no further. ``quick`` and ``catalog`` read no
    rows, count expired messages too and can be wrong, see :mod:`airflow_sqlqueue.queue.depth`. Where an age was asked
    for, XCom has it as ``oldest_seconds``. Nothing is removed, and a receiver may find fewer messages after the sensor.
    A queue that does not exist fails the sensor at once.
    Both modes work; ``reschedule`` keeps no worker slot between pokes.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param threshold: how many messages to wait for, at least 1 (templated)
    :param oldest_seconds: the age of the first message in the queue to wait for, above 0 (templated)
    :param kind: how messages are counted: exact, quick or catalog (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("queue_name", "threshold", "oldest_seconds", "kind", "sqlqueue_conn_id")
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        queue_name: str,
        threshold: int | str | None = None,
        oldest_seconds: float | str | None = None,
        kind: str = "exact",
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.threshold = threshold
        self.oldest_seconds = oldest_seconds
        self.kind = kind
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once; raises our errors, those that no retry can fix as AirflowFailException."""
        from airflow_sqlqueue.queue.depth import oldest_seconds

        # Airflow skips a soft-failing sensor that is not to be retried; a sensor that cannot look must fail instead.
        with nullcontext() if self.soft_fail else fail_without_retry():
            age = _age(self.oldest_seconds)
            threshold = 1 if self.threshold is None and age is None else _threshold(self.threshold)
            with self.hook.client.queue(self.queue_name).open() as queue:
                depth, complete = _depth(queue, self.kind, threshold)
                oldest = None if age is None else oldest_seconds(queue)
        least = "" if complete else "at least "
        shown = f"{least}{depth.messages:,}"
        self.log.info("Queue %s: %s messages, threshold %s", self.queue_name, shown, threshold)
        full = threshold is not None and depth.messages >= threshold
        old = age is not None and oldest is not None and oldest >= age
        found = {"messages": depth.messages, "expired": depth.expired}
        return PokeReturnValue(full or old, xcom_value=found if age is None else {**found, "oldest_seconds": oldest})


def _depth(queue: QueueTable, kind: str, threshold: int | None) -> tuple[Depth, bool]:
    """The depth as far as it is needed, and whether that is all of it: fewer rows than asked for are."""
    if kind != "exact":
        return queue.depth(kind), True
    rows = (threshold or 1) + EXPIRED_ALLOWANCE
    depth = queue.depth(limit=rows)
    if depth.total < rows:
        return depth, True
    return (queue.depth(), True) if depth.messages < (threshold or 1) else (depth, False)


def _threshold(value: int | str | None) -> int | None:
    from airflow_sqlqueue.errors import ConfigurationError

    if value is None:
        return None
    try:
        number = int(value)
    except ValueError as error:
        raise ConfigurationError(f"The threshold {value!r} is not a whole number.") from error
    if number < 1:
        raise ConfigurationError(f"The threshold is {number}: wait for at least 1 message.")
    return number


def _age(value: float | str | None) -> float | None:
    from airflow_sqlqueue.errors import ConfigurationError

    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError as error:
        raise ConfigurationError(f"oldest_seconds {value!r} is not a number of seconds.") from error
    if not seconds > 0:
        raise ConfigurationError(f"oldest_seconds is {seconds:g}: wait for an age above 0 seconds.")
    return seconds
