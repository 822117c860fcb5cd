"""Commands on streaming consumers: consumers, release."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Optional

import typer

from airflow_sqlqueue.cli.options import ConnId, Json, Url, connect
from airflow_sqlqueue.cli.output import show


def consumers(
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    queue: Annotated[Optional[str], typer.Option(help="Only the consumers of this queue.")] = None,
) -> None:
    """List the consumers of Spark's streams, with the claims that are not done and whether a query reads."""
    show([info.to_dict() for info in connect(url, conn_id).consumers.list(queue)], as_json=as_json)


def release(
    name: Annotated[str, typer.Argument(help="A consumer that no query will read as again.")],
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    queue: Annotated[Optional[str], typer.Option(help="A queue of its database, if that is another one.")] = None,
) -> None:
    """Put the claims of a consumer back into its queue and forget it; a sink may have the last claim already."""
    show(asdict(connect(url, conn_id).consumers.release(name, queue)), as_json=as_json)
