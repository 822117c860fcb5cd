"""A made-up action and a made-up grouping of failed messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.errors.actions import ACTIONS
from airflow_sqlqueue.queue.errors.effects import Park
from airflow_sqlqueue.queue.errors.failed_message import FailedMessage
from airflow_sqlqueue.queue.errors.groupings import Grouping


class Lend(Park):
    """Moves the first message of each chunk only."""

    def handle(self, target: QueueTable | None, chunk: Sequence[FailedMessage]) -> int:
        return super().handle(target, chunk[:1])


LEND = replace(ACTIONS["park"], name="lend", done="lent", about="Lend failed messages.", effect=Lend)

SIZE = Grouping("Size", lambda message: "large" if message.size > 10 else "small")
