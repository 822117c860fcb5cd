"""Wait until a queue is deep enough, old enough, or empty enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf

from airflow_sqlqueue.operators.base import RoutedTask
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.sensors.deferring import DeferringSensor

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from airflow_sqlqueue.queue import QueueCondition


class SqlQueueDepthSensor(DeferringSensor, RoutedTask, BaseSensorOperator):
    """Wait until a queue holds so many messages, so old ones, or so few.

    Where several conditions are given, whichever comes first ends the wait: a batch that is full, or that waited long
    enough. Where none is, one message does. :class:`~airflow_sqlqueue.queue.condition.QueueCondition` has what each
    counts.

    A poke of the kind ``exact`` counts messages that have not expired and that nobody has locked. It reads only as many
    rows at the head of the queue as it needs, so it is cheap however deep the queue is; it then logs "at least" so
    many, and the depth in XCom (``messages``, ``expired``) is counted no further. ``quick`` and ``catalog`` read no
    rows, count expired messages too and can be wrong, see :mod:`airflow_sqlqueue.queue.depth`. Where they were asked
    for, XCom has ``oldest_seconds`` and ``delayed`` too. Nothing is removed, and a receiver may find fewer messages
    after the sensor. A queue that does not exist fails the sensor at once.

    With ``deferrable`` the sensor pokes once and then waits in the triggerer, without a worker slot, on one connection
    that it shares with all that waits for the same server there. A server that is lost meanwhile is waited for, up to
    ``timeout``. In mode ``reschedule`` the sensor keeps no slot either, and starts a process for each poke.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param endpoint: the endpoint whose queue it is, instead of ``queue_name``; resolved by the connection's endpoint
        settings too (templated)
    :param min_messages: how many messages to wait for, at least 1 (templated)
    :param max_messages: wait until there are no more than so many, 0 for an empty queue; alone (templated)
    :param oldest_seconds: the age of the first message in the queue to wait for, above 0 (templated)
    :param min_expired: how many expired messages to wait for, at least 1 (templated)
    :param min_delayed: how many messages to wait for in the table of delayed messages, at least 1 (templated)
    :param kind: how messages are counted: exact, quick or catalog (templated)
    :param filters: count only messages that match, conditions of :class:`~airflow_sqlqueue.MessageFilter`, for
        ``min_messages`` and ``max_messages`` alone. A poke reads headers of the queue until enough match (templated)
    :param deferrable: wait in the triggerer; ``[operators] default_deferrable`` unless given.
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = (
        "queue_name",
        "endpoint",
        "min_messages",
        "max_messages",
        "oldest_seconds",
        "min_expired",
        "min_delayed",
        "kind",
        "filters",
        "sqlqueue_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"filters": "json"}
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        queue_name: str | None = None,
        endpoint: str | None = None,
        min_messages: int | str | None = None,
        max_messages: int | str | None = None,
        oldest_seconds: float | str | None = None,
        min_expired: int | str | None = None,
        min_delayed: int | str | None = None,
        kind: str = "exact",
        filters: Mapping[str, Any] | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.endpoint = endpoint
        self.check_queue()
        self.min_messages = min_messages
        self.max_messages = max_messages
        self.oldest_seconds = oldest_seconds
        self.min_expired = min_expired
        self.min_delayed = min_delayed
        self.kind = kind
        self.filters = filters
        self.deferrable = deferrable
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

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
            **self._condition().to_dict(),
        )

    def _condition(self) -> QueueCondition:
        from airflow_sqlqueue.queue.condition import QueueCondition

        return QueueCondition.of(
            {
                "min_messages": self.min_messages,
                "max_messages": self.max_messages,
                "oldest_seconds": self.oldest_seconds,
                "min_expired": self.min_expired,
                "min_delayed": self.min_delayed,
                "kind": self.kind,
                "filters": self.filters,
            }
        )
