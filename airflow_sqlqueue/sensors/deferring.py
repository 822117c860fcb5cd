"""Base class of sensors that can wait in the triggerer."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import ServerTask

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger


class DeferringSensor(ServerTask, BaseSensorOperator):
    """Base class of sensors that poke once and defer, where they are ``deferrable``.

    :param deferrable: wait in the triggerer; ``[operators] default_deferrable`` unless given.
    """

    def __init__(
        self,
        *,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.deferrable = deferrable

    @abstractmethod
    def trigger(self) -> BaseTrigger:
        """The trigger that waits in the place of the sensor."""

    def failing(self) -> AbstractContextManager[None]:
        """Around what looks: errors that no retry can fix fail the sensor without one.

        Airflow skips a soft-failing sensor that is not to be retried; a sensor that cannot look must fail instead.
        """
        return nullcontext() if self.soft_fail else fail_without_retry()

    def execute(self, context: Context) -> Any:
        """Wait; the timeout counts from here, in a deferred try from its first poke."""
        if not self.deferrable:
            return super().execute(context)
        from airflow_sqlqueue.errors import SqlQueueError
        from airflow_sqlqueue.reconnecting import passes

        try:
            looked = self.poke(context)
        except SqlQueueError as error:
            if not passes(error, known=False):
                raise
            self.log.warning("The first look failed; the trigger looks again: %s", error)
            looked = False
        if isinstance(looked, PokeReturnValue) and looked:
            return looked.xcom_value
        self.defer(trigger=self.trigger(), method_name="execute_complete", timeout=timedelta(seconds=self.timeout))

    def execute_complete(self, context: Context, event: Any = None) -> Any:
        """What the trigger found; raises the error that ended its wait."""
        from airflow_sqlqueue.triggers.events import found_in

        with self.failing():
            found = found_in(event)
        self.log.info("The trigger found what the sensor waited for: %s", found)
        return found
