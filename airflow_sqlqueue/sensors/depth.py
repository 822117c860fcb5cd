"""Sensor on the depth of a queue: deep enough, old enough, or empty enough."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import PokeReturnValue, XComArg
from airflow.triggers.base import StartTriggerArgs

from airflow_sqlqueue.operators.base import ConditionTask
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.sensors.deferring import DeferringSensor
from airflow_sqlqueue.triggers.base import plain
from airflow_sqlqueue.versions.airflow import TRIGGER_TEMPLATES

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger


class SqlQueueDepthSensor(DeferringSensor, ConditionTask):
    """Wait until a queue holds a number of messages, old messages, or few messages.

    If ``wait_for`` has several conditions, the first one that is met ends the wait: a batch that is full, or that
    waited long enough. Without conditions, one message ends it.

    A poke of the kind ``exact`` counts messages that are neither expired nor locked. It reads only as many rows at the
    head of the queue as it needs, so it is cheap on a deep queue; it then logs "at least" that number, and the depth in
    XCom (``messages``, ``expired``) is counted no further. ``quick`` and ``catalog`` read no rows, count expired
    messages too and can be wrong, see :mod:`airflow_sqlqueue.queue.depth`. XCom has ``oldest_seconds`` and ``delayed``
    too, if a condition uses them. Nothing is removed, and a receiver may find fewer messages after the sensor. A queue
    that does not exist fails the sensor at once.

    With ``deferrable`` the sensor pokes once and then waits in the triggerer, without a worker slot, on one connection
    that it shares with all triggers on the same server there. A lost server is waited for, up to ``timeout``. In mode
    ``reschedule`` the sensor keeps no slot either, and starts a process for each poke.

    :param start_from_trigger: wait in the triggerer from the start, without the process of the first poke; takes
        Airflow 3.3, which renders the templated parameters in the triggerer. A mapped sensor, and one that uses the
        output of another task, pokes once first.
    """

    def __init__(self, *, start_from_trigger: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_from_trigger = start_from_trigger
        if start_from_trigger:
            TRIGGER_TEMPLATES.require()
            self.deferrable = True
            # Without objects that Airflow stores as texts; a template is rendered in its place.
            arguments = plain(self.trigger_arguments(self.poke_interval))
            # The triggerer would get a reference in the place of another task's output.
            if not any(XComArg.iter_xcom_references(arguments)):
                self.start_trigger_args = StartTriggerArgs(
                    trigger_cls="airflow_sqlqueue.triggers.depth.SqlQueueDepthTrigger",
                    trigger_kwargs=arguments,
                    next_method="execute_complete",
                    timeout=timedelta(seconds=self.timeout),
                )

    def poke(self, context: Context) -> PokeReturnValue:
        with self.failing():
            found = self.check_condition()
        Metrics(self, self.sql_queue).depth()
        return PokeReturnValue(found.met, xcom_value=found.to_dict(self.condition))

    def trigger(self) -> BaseTrigger:
        return self.depth_trigger(self.poke_interval)
