"""Command that erases single messages from staged batches."""

from __future__ import annotations

import os
import sys
import uuid

from airflow_sqlqueue.cli.batch_commands import LedgerQueue
from airflow_sqlqueue.cli.message_options import header_values, named_values
from airflow_sqlqueue.cli.options import Common
from airflow_sqlqueue.cli.redaction import KEY_VARIABLE
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import option


def erase(
    common: Common,
    message_id: list[str] | None = option(None, "a message id, any number of times"),
    header: list[str] | None = option(None, "messages with this header, NAME=VALUE; NAME=- reads standard input"),
    field: list[str] | None = option(
        None, "messages with this field of the body, PATH=VALUE; PATH=- reads standard input"
    ),
    batch: list[uuid.UUID] | None = option(None, "only this batch, any number of times"),
    staging: str | None = option(None, "the staging folder, for a store that needs it"),
    queue: LedgerQueue = None,
    dry_run: bool = option(False, "only count"),
) -> None:
    """Erase single messages from batches that are not open.

    With SQLQUEUE_REDACTION_KEY it finds hashed values of redacted batches too. Interrupted, it is finished by a
    repetition.
    """
    from airflow_sqlqueue.drain.erase import EraseRequest

    headers, fields = header_values(header), named_values(field, "--field takes PATH=VALUE")
    waiting = [(values, name) for values in (headers, fields) for name, value in values.items() if value == "-"]
    if len(waiting) > 1:
        raise ConfigurationError("Standard input has one value: write - for one header or one field.")
    for values, name in waiting:
        values[name] = sys.stdin.read().removesuffix("\n")
    key = os.environ.get(KEY_VARIABLE)
    request = EraseRequest(
        message_ids=message_id or (), headers=headers, fields=fields, key=key, batch_ids=batch, dry_run=dry_run
    )
    done = common.connect().batches.erase(request, queue, staging=staging)
    skipped = {str(batch_id): reason for batch_id, reason in done.skipped.items()}
    common.show(
        {**vars(done), "batches": list(map(str, done.batches)), "skipped": skipped},
        title="Would be erased; nothing was yet" if dry_run else "Erased",
    )


COMMANDS = (erase,)
