"""Sensor on the depth of a queue: deep enough, old enough, or empty enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import PokeReturnValue

from airflow_sqlqueue.operators.base import RoutedTask, templated
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.sensors.deferring import DeferringSensor

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from airflow_sqlqueue.queue import QueueCondition


class SqlQueueDepthSensor(DeferringSensor, RoutedTask):
    """Wait until a queue holds so many messages, so old ones, or so few.

    Where ``wait_for`` has several conditions, whichever comes first ends the wait: a batch that is full, or that waited
    long enough. Where it has none, one message does.

    A poke of the kind ``exact`` counts messages that have not expired and that nobody has locked. It reads only as many
    rows at the head of the queue as it needs, so it is cheap however deep the queue is; it then logs "at least" so
    many, and the depth in XCom (``messages``, ``expired``) is counted no further. ``quick`` and ``catalog`` read no
    rows, count expired messages too and can be wrong, see :mod:`airflow_sqlqueue.queue.depth`. Where they were asked
    for, XCom has ``oldest_seconds`` and ``delayed`` too. Nothing is removed, and a receiver may find fewer messages
    after the sensor. A queue that does not exist fails the sensor at once.

    With ``deferrable`` the sensor pokes once and then waits in the triggerer, without a worker slot, on one connection
    that it shares with all that waits for the same server there. A server that is lost meanwhile is waited for, up to
    ``timeout``. In mode ``reschedule`` the sensor keeps no slot either, and starts a process for each poke.

    :param wait_for: what to wait for, options of :class:`~airflow_sqlqueue.queue.condition.QueueCondition`:
        ``{"min_messages": 1000, "oldest_seconds": 3600}``, ``max_messages``, ``min_expired``, ``min_delayed``, ``kind``
        and ``filters``; None: one message (templated)
    """

    template_fields = templated(RoutedTask, "wait_for")
    template_fields_renderers: ClassVar[dict[str, str]] = {"wait_for": "json"}

    def __init__(self, *, wait_for: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait_for = wait_for

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once; raises our errors, those that no retry can fix as AirflowFailException."""
        with self.failing():
            condition = self._condition()
            found = self.sql_queue.check(condition)
        self.log.info("Queue %s: %s; waiting for %s", self.address, found, condition)
        Metrics(self, self.sql_queue).depth()
        return PokeReturnValue(found.met, xcom_value=found.to_dict(condition))

    def trigger(self) -> BaseTrigger:
        from airflow_sqlqueue.triggers.depth import SqlQueueDepthTrigger

        return SqlQueueDepthTrigger(
            queue_name=self.address,
            poll_interval=self.poke_interval,
            sqlqueue_conn_id=self.sqlqueue_conn_id,
            hook_params=self.hook_params,
            wait_for=self._condition().to_dict(),
        )

    def _condition(self) -> QueueCondition:
        from airflow_sqlqueue.queue.condition import QueueCondition

        return QueueCondition.of(self.wait_for or {})
