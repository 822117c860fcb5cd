"""Base class of sensors that can wait in the triggerer."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseSensorOperator, PokeReturnValue, conf

from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.operators.base import ServerTask
from airflow_sqlqueue.server.reconnecting import passes

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger


class DeferringSensor(ServerTask, BaseSensorOperator):
    """Base class of sensors that poke once and then defer, if they are ``deferrable``.

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
        """Return the trigger that waits for the sensor."""

    def failing(self) -> AbstractContextManager[None]:
        """Return the context of a poke: an error that no retry can fix fails the sensor without a retry.

        Airflow would skip a soft-failing sensor then. Such a sensor must fail instead, so it raises the plain error.
        """
        return nullcontext() if self.soft_fail else fail_without_retry()

    def execute(self, context: Context) -> Any:
        """Wait; the timeout begins here, and for a deferred try at its first poke."""
        if not self.deferrable:
            return super().execute(context)
        try:
            poked = self.poke(context)
        except SqlQueueError as error:
            if not passes(error, known=False):
                raise
            self.log.warning("The first poke failed; the trigger tries again: %s", error)
            poked = False
        if isinstance(poked, PokeReturnValue) and poked:
            return poked.xcom_value
        with self.failing():
            trigger = self.trigger()
        self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))

    def execute_complete(self, context: Context, event: Any = None) -> Any:
        """Return the trigger's result; raises the error that ended its wait."""
        from airflow_sqlqueue.triggers.base import found_in

        with self.failing():
            found = found_in(event)
        self.log.info("The trigger fired: %s", found)
        return found
