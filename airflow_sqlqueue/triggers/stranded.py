"""Trigger that waits until a batch is stranded, and the summary of such batches."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.drain.manifest import UNFINISHED
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import seconds
from airflow_sqlqueue.triggers.base import OneEventTrigger, unpacked

if TYPE_CHECKING:
    from airflow_sqlqueue.client.client import QueueClient
    from airflow_sqlqueue.drain.batches import BatchInfo
    from airflow_sqlqueue.server.session import Session
    from airflow_sqlqueue.triggers.poller import Poll

LISTED = 100
"""Largest number of batches that XCom lists; its count has all."""

_NAMES = ("batch_id", "state", "queue", "origin", "messages", "age_seconds")


class SqlQueueStrandedBatchTrigger(OneEventTrigger):
    """Wait for a stranded batch, without a running drain or job, for a deferred task; fires once.

    :param queue_name: a queue's address; None: all batches of the ledger in the connection's database.
    :param states: states of the batches: ``open``, ``sealed``, or both.
    :param older_than: least number of seconds in that state.
    """

    def __init__(
        self,
        *,
        queue_name: str | None = None,
        states: Sequence[str] = ("open", "sealed"),
        older_than: float = 3600.0,
        poll_interval: float = 60.0,
        **kwargs: Any,
    ) -> None:
        self.queue_name = queue_name
        self.states = unpacked(states)
        self.older_than = older_than
        super().__init__(poll_interval=poll_interval, **kwargs)

    def check(self) -> None:
        super().check()
        self.older_than = seconds("older_than", self.older_than)
        self.states = check_states(self.states)

    def make_poll(self, client: QueueClient) -> Poll[dict[str, Any]]:
        older_than = timedelta(seconds=self.older_than)

        def poll(session: Session) -> dict[str, Any] | None:
            found = client.batches.stranded(self.queue_name, states=self.states, older_than=older_than, session=session)
            return summary(found) if found else None

        return poll


def check_states(states: Any) -> list[str]:
    """Return the states of batches that can be stranded, sorted. Raises :class:`ConfigurationError` for others."""
    if not (isinstance(states, (list, tuple, Set)) and states and all(state in UNFINISHED for state in states)):
        raise ConfigurationError(f"states is a list of some of {', '.join(UNFINISHED)}, not {states!r}.")
    return sorted(states)


def summary(found: Sequence[BatchInfo]) -> dict[str, Any]:
    """Return the summary of batches for XCom and events: their number, their messages, and a list of the first ones."""
    listed = [info.to_dict() for info in found[:LISTED]]
    return {
        "count": len(found),
        "messages": sum(info.messages for info in found),
        "batches": [{name: info[name] for name in _NAMES} for info in listed],
    }
