"""The command on messages that a drain set aside."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Optional

import typer

from airflow_sqlqueue.cli.options import ConnId, Json, Queue, Url, connect
from airflow_sqlqueue.cli.output import show


def quarantine(
    queue: Queue,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    requeue: Annotated[
        Optional[list[int]],
        typer.Option(help="Put the message of this number back into the queue, any number of times."),
    ] = None,
) -> None:
    """List the messages of the queue that no file could keep, or put some of them back."""
    quarantined = connect(url, conn_id).quarantine
    if requeue:
        quarantined.requeue(queue, requeue)
        show({"requeued": len(requeue)}, as_json=as_json)
        return
    found = quarantined.list(queue)
    show([{name: _plain(value) for name, value in asdict(each).items()} for each in found], as_json=as_json)


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, (int, str)) else str(value)
