"""Sensor on stranded batches."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import PokeReturnValue

from airflow_sqlqueue.operators.base import ServerTask, interval_or, templated
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.sensors.deferring import DeferringSensor

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger


class SqlQueueStrandedBatchSensor(DeferringSensor):
    """Wait for a stranded batch: open or sealed for too long, without a running drain or job.

    For alerts: a stranded batch ends the sensor, and so starts the tasks after it or its ``on_success_callback``. A
    sensor that times out has found no such batch; ``soft_fail`` then skips the rest. A batch is stranded when it has
    been in its state for ``older_than``, by the server's clock, and its lock is free; drains hold the lock until their
    job has ended. A sealed batch that waits for a task of your own has no lock: choose ``older_than`` longer than that
    task needs.

    XCom: ``count``, ``messages`` (of all of them), and ``batches``, the first 100, each with ``batch_id``, ``state``,
    ``queue``, ``origin``, ``messages`` and ``age_seconds``. The gauge ``sqlqueue.batches.stranded`` has the count of
    each poke. Nothing is changed.

    With ``deferrable`` the sensor pokes once and then waits in the triggerer, as
    :class:`~airflow_sqlqueue.sensors.SqlQueueDepthSensor` does; the gauge then has the first and the last count.

    :param queue_name: a queue; None: all batches of the ledger in the connection's database (templated)
    :param states: states of the batches: ``open``, ``sealed``, or both.
    :param older_than: least time in that state, a timedelta or seconds (templated)
    """

    template_fields = templated("queue_name", "older_than", ServerTask)

    def __init__(
        self,
        *,
        queue_name: str | None = None,
        states: Sequence[str] = ("open", "sealed"),
        older_than: timedelta | float | str = timedelta(hours=1),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.states = states
        self.older_than = older_than

    def poke(self, context: Context) -> PokeReturnValue:
        from airflow_sqlqueue.triggers.stranded import check_states, summary

        with self.failing():
            states, batches = check_states(self.states), self.hook.client.batches
            found = batches.stranded(self.queue_name, states=states, older_than=self._least_time())
        return PokeReturnValue(bool(found), xcom_value=self._report(summary(found)))

    def _least_time(self) -> timedelta:
        from airflow_sqlqueue.options import seconds

        given = interval_or(timedelta(hours=1), "older_than", self.older_than)
        return timedelta(seconds=seconds("older_than", given.total_seconds()))

    def trigger(self) -> BaseTrigger:
        from airflow_sqlqueue.triggers.stranded import SqlQueueStrandedBatchTrigger

        return SqlQueueStrandedBatchTrigger(
            queue_name=self.queue_name,
            states=self.states,
            older_than=self._least_time().total_seconds(),
            poll_interval=self.poke_interval,
            **self.connection_arguments,
        )

    def execute_complete(self, context: Context, event: Any = None) -> Any:
        return self._report(super().execute_complete(context, event))

    def _report(self, found: dict[str, Any]) -> dict[str, Any]:
        queue = None if self.queue_name is None else self.hook.queue(self.queue_name)
        Metrics(self, queue).gauge("batches.stranded", found["count"])
        for batch in found["batches"]:
            self.log.warning(
                "Batch %s has been %s for %s: %d messages, of %r",
                *(batch["batch_id"], batch["state"], timedelta(seconds=int(batch["age_seconds"])), batch["messages"]),
                batch["origin"],
            )
        self.log.info("%d batches are stranded", found["count"])
        return found
