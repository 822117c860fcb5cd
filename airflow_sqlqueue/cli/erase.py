"""Command that erases single messages from staged batches."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Mapping
from typing import Annotated, Optional

import typer

from airflow_sqlqueue.cli.batches import LedgerQueue
from airflow_sqlqueue.cli.message_options import header_values
from airflow_sqlqueue.cli.options import Common
from airflow_sqlqueue.cli.redaction import KEY_VARIABLE
from airflow_sqlqueue.errors import ConfigurationError

_STANDARD_INPUT = "-"


def erase(
    common: Common,
    message_id: Annotated[Optional[list[str]], typer.Option(help="A message id, any number of times.")] = None,
    header: Annotated[
        Optional[list[str]], typer.Option(help="Messages with this header, NAME=VALUE; NAME=- reads standard input.")
    ] = None,
    field: Annotated[
        Optional[list[str]],
        typer.Option(help="Messages with this field of the body, PATH=VALUE; PATH=- reads standard input."),
    ] = None,
    batch: Annotated[Optional[list[uuid.UUID]], typer.Option(help="Only this batch, any number of times.")] = None,
    staging: Annotated[Optional[str], typer.Option(help="The staging folder, for a store that needs it.")] = None,
    queue: LedgerQueue = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
) -> None:
    """Erase single messages from batches that are not open.

    With SQLQUEUE_REDACTION_KEY it finds hashed values of redacted batches too. Interrupted, it is finished by a
    repetition.
    """
    from airflow_sqlqueue.drain.erase import EraseRequest

    headers, fields = header_values(header), _fields(field)
    given = [*headers.values(), *fields.values()]
    if given.count(_STANDARD_INPUT) > 1:
        raise ConfigurationError("Standard input has one value: write - for one header or one field.")
    if _STANDARD_INPUT in given:
        value = sys.stdin.read().removesuffix("\n")
        headers, fields = _filled(headers, value), _filled(fields, value)
    request = EraseRequest(
        message_ids=message_id or (),
        headers=headers,
        fields=fields,
        key=os.environ.get(KEY_VARIABLE),
        batch_ids=batch,
        dry_run=dry_run,
    )
    done = common.connect().batches.erase(request, queue, staging=staging)
    common.show(
        {
            "messages": done.messages,
            "batches": [str(batch_id) for batch_id in done.batches],
            "unread": done.unread,
            "skipped": {str(batch_id): reason for batch_id, reason in done.skipped.items()},
            "files": done.files,
        },
        title="Would be erased; nothing was yet" if dry_run else "Erased",
    )


def _fields(given: list[str] | None) -> dict[str, str]:
    pairs = [text.partition("=") for text in given or []]
    for path, equals, _ in pairs:
        if not (path and equals):
            # Without the value, which is private.
            raise ConfigurationError(f"--field takes PATH=VALUE, not {path + equals!r}.")
    return {path: value for path, _, value in pairs}


def _filled(values: Mapping[str, str], value: str) -> dict[str, str]:
    return {name: value if given == _STANDARD_INPUT else given for name, given in values.items()}


COMMANDS = (erase,)
