"""Wait until a batch has been left behind."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.observability import stats

from airflow_sqlqueue.drain.manifest import UNFINISHED
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import ServerTask

if TYPE_CHECKING:
    from airflow.sdk import Context

LISTED = 100
"""Batches that XCom names at the most; it counts all."""


class SqlQueueStrandedBatchSensor(ServerTask, BaseSensorOperator):
    """Wait until there is a batch that has been open or sealed for too long and that nobody works on.

    For alerts: what comes behind the sensor runs when something was left behind (or its ``on_success_callback``), and a
    sensor that times out has found nothing; ``soft_fail`` then skips the rest. A batch is left behind when it has been
    in its state for ``older_than``, by the server's clock, and nobody holds its lock, as drains do until their job has
    ended. A sealed batch that waits for a task of your own has no lock: choose ``older_than`` longer than that takes.

    XCom: ``count``, ``messages`` (of all of them), and ``batches``, the first 100, each with ``batch_id``, ``state``,
    ``queue``, ``origin``, ``messages`` and ``age_seconds``. The gauge ``sqlqueue.batches.stranded`` has the count of
    each poke. Nothing is changed.

    :param queue_name: a queue; None: all batches of the ledger in the connection's database (templated)
    :param states: which batches to look for: ``open``, ``sealed``, or both.
    :param older_than: how long they have been in their state at least.
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("queue_name", "sqlqueue_conn_id")
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        queue_name: str | None = None,
        states: Sequence[str] = ("open", "sealed"),
        older_than: timedelta = timedelta(hours=1),
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.states = states
        self.older_than = older_than
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once; raises our errors, those that no retry can fix as AirflowFailException."""
        # Airflow skips a soft-failing sensor that is not to be retried; a sensor that cannot look must fail instead.
        with nullcontext() if self.soft_fail else fail_without_retry():
            if not self.states or not set(self.states) <= set(UNFINISHED):
                raise ConfigurationError(f"states are some of {', '.join(UNFINISHED)}, not {list(self.states)!r}.")
            batches = self.hook.client.batches
            found = batches.stranded(self.queue_name, states=self.states, older_than=self.older_than)
        stats.gauge("sqlqueue.batches.stranded", len(found))
        for info in found[:LISTED]:
            self.log.warning(
                "Batch %s has been %s for %s: %d messages, of %r",
                *(info.batch_id, info.state, timedelta(seconds=int(info.age.total_seconds())), info.messages),
                info.origin,
            )
        self.log.info("%d batches were left behind", len(found))
        names = ("batch_id", "state", "queue", "origin", "messages", "age_seconds")
        listed = [{name: info.to_dict()[name] for name in names} for info in found[:LISTED]]
        messages = sum(info.messages for info in found)
        return PokeReturnValue(bool(found), xcom_value={"count": len(found), "messages": messages, "batches": listed})
