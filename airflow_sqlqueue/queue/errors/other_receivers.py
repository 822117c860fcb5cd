"""Other receivers of failed messages: programs that receive from the error queue, such as ServiceControl."""

from __future__ import annotations

from dataclasses import replace

from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.receivers import other_receivers
from airflow_sqlqueue.queue.tables.reading import exists
from airflow_sqlqueue.untrusted import quoted

MOST = 10
"""The most programs that warnings name."""

_COPIES = ".log"
"""The end of the name of ServiceControl's queue for copies of what it has taken from an error queue."""


def warnings_about(queue: QueueTable) -> list[str]:
    """Return warnings, one sentence each, about others who receive the messages of an error queue as well.

    Other receivers are those of :func:`~airflow_sqlqueue.queue.receivers.other_receivers`, which takes a permission.
    ``error.log`` beside a queue ``error`` holds copies of messages that ServiceControl has taken and can retry itself
    (docs/guides/events.md, "Events of ServiceControl").
    """
    address = queue.address
    found = [
        f"{quoted(program)} receives from {address.canonical} as well: if it is ServiceControl, what it has taken is "
        "returned and archived in ServicePulse, not here."
        for program in other_receivers(queue.session, queue.layout.table)[:MOST]
    ]
    original = address.table[: -len(_COPIES)]
    if address.table.lower().endswith(_COPIES) and original:
        table = replace(address, table=original)
        if exists(queue.session, table):
            found.append(
                f"{address.canonical} looks like ServiceControl's copies of {table.canonical}: a message that is "
                "returned from here can be retried in ServicePulse once more."
            )
    return found
