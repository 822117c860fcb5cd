"""Edit and return of one message: a short transaction in the request, so that no DAG run holds its content."""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends

from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.plugin import audit
from airflow_sqlqueue.plugin.addresses import Address, PathAddress, shown_queue
from airflow_sqlqueue.plugin.responses import RequestBody, read_as
from airflow_sqlqueue.plugin.rights import may_act
from airflow_sqlqueue.plugin.servers import RequestedServer
from airflow_sqlqueue.queue.errors.editing import edit

router = APIRouter(prefix="/queues/{address}/messages/{row_version}/edit")

_LONGEST_NAME = 100


class Edit(RequestBody):
    """Request to edit a message: changed headers, None for a removed one, and a body as text in UTF-8."""

    headers: dict[str, str | None] | None = None
    body: str | None = None
    to_queue: Address | None = None
    dry_run: bool = True


@router.post("", dependencies=[Depends(may_act)])
def edit_and_return(
    server: RequestedServer,
    address: PathAddress,
    row_version: int,
    wanted: Annotated[Edit, Depends(read_as(Edit))],
    user: GetUserDep,
) -> dict[str, Any]:
    """Replace a failed message by an edited copy where it failed, exactly once; a dry run reports the destination."""
    headers = wanted.headers or {}
    changes = [f"{count_of(len(headers), 'header')} changed"] if headers else []
    changes += ["a new body"] if wanted.body is not None else []
    with server.queue(address) as queue:
        to_queue = wanted.to_queue and shown_queue(server.client, queue.session, wanted.to_queue).address.canonical
        body = None if wanted.body is None else wanted.body.encode()
        arguments: Any = {"body": body, "headers": headers, "to_queue": to_queue}
        to = edit(queue, server.client.resolver, row_version, dry_run=True, **arguments).queue
        if not wanted.dry_run:
            audit.note(
                user,
                "edit",
                connection=server.conn_id,
                queue=queue.address.canonical,
                row_version=row_version,
                messages=1,
                to_queue=to,
                headers=[name[:_LONGEST_NAME] for name in headers][:_LONGEST_NAME],
                body=wanted.body is not None,
            )
            to = edit(queue, server.client.resolver, row_version, **arguments).queue
    would = "would go" if wanted.dry_run else "went"
    sentence = f"The message {would} to {to}, with {' and '.join(changes)}."
    return {"messages": 1, "label": "Return the edited message", "sentence": sentence}
