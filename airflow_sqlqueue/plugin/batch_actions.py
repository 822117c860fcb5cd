"""Actions on batches for the page: requeue, mark consumed, and a sweep of the finished batches of a ledger."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.drain.batches import BatchInfo, batches
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import FINISHED
from airflow_sqlqueue.drain.options import SweepOptions
from airflow_sqlqueue.errors import BatchError, BatchNotFoundError, ConfigurationError
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.plugin.action_tokens import ActionRequest
from airflow_sqlqueue.plugin.addresses import Address, address_of, catalogs_of, shown_queue

if TYPE_CHECKING:
    from airflow_sqlqueue.client.client import QueueClient
    from airflow_sqlqueue.plugin.servers import Server
    from airflow_sqlqueue.server.session import Session


Counted = tuple[ActionRequest, str, str]
"""Request with its count, a sentence for the user, and the label of the confirmation."""


@dataclass(frozen=True)
class BatchAction:
    """Action on a batch, or on all finished ones of a ledger.

    :param label: the text of a button.
    :param on: ``batch`` or ``ledger``.
    :param count: the count for a preview.
    :param run: the work, with the staging folder; it gives the number of messages or batches, and a sentence.
    """

    name: str
    label: str
    on: str
    count: Callable[[Server, ActionRequest], Counted]
    run: Callable[[QueueClient, ActionRequest, Any, Callable[[int], None]], tuple[int, str]]

    def to_dict(self) -> dict[str, Any]:
        """Return what the page needs to offer it."""
        is_sweep = self.on == "ledger"
        return {"name": self.name, "label": self.label, "on": self.on, "danger": is_sweep, "fields": [], "pace": []}

    def check(self, request: ActionRequest) -> None:
        """Raise :class:`ConfigurationError` for an impossible request."""
        if (self.on == "ledger") != (request.batch_id is None) or request.filters or request.to_queue:
            raise ConfigurationError("Name the batch; only a sweep names none, but a queue beside the ledger.")

    def is_possible(self, request: ActionRequest) -> bool:
        """True: an empty batch can be ended, and a sweep removes more than it counts."""
        return True


def find_batch(client: QueueClient, session: Session, batch_id: uuid.UUID) -> tuple[Ledger, BatchInfo]:
    """Find a batch in the connection's ledgers. Raises :class:`BatchNotFoundError` if no ledger has it."""
    for catalog in catalogs_of(client):
        ledger = Ledger(session, catalog)
        if found := batches(ledger, batch_id=batch_id):
            return ledger, found[0]
    raise BatchNotFoundError(f"No ledger of the connection knows the batch {batch_id}.")


def actions_for(info: BatchInfo) -> list[str]:
    """Return the actions that the batch's state allows: a drain ends an open batch, a sweep a finished one.

    A redacted batch goes back into its queue by the command line only, with a word that accepts it.
    """
    if info.state != "sealed":
        return []
    return ["mark_consumed"] if info.kept or info.redacted else ["requeue", "mark_consumed"]


def _count(state: str, sentence: str, label: str, server: Server, request: ActionRequest) -> Counted:
    """Count the messages of a batch; ``state`` is the batch's state afterwards."""
    with server.session() as session:
        _, info = find_batch(server.client, session, uuid.UUID(request.batch_id))
        if request.action == "requeue":
            shown_queue(server.client, session, info.queue)
    if request.action not in actions_for(info):
        kind = " and a copy" if info.kept else " and redacted" if info.redacted else ""
        raise BatchError(f"The batch is {info.state}{kind}: the action is not possible.")
    counted = replace(request, messages=info.messages, queue=Address(info.queue))
    if not info.messages:
        empty = f"The batch holds no messages: it would be marked {state}, and a sweep could remove it."
        return counted, empty, f"Mark {state}"
    messages = count_of(info.messages, "message")
    return counted, sentence.format(messages, info.queue), label.format(messages)


def _requeue(client: QueueClient, request: ActionRequest, staging: Any, *_: Any) -> tuple[int, str]:
    batch_id = uuid.UUID(request.batch_id)
    if staging is not None:
        # Only if the folder holds the batch's files.
        paths = client.batches.get(batch_id, request.queue).paths
        staging = staging if all(path.startswith(f"{staging.uri}/") for path in paths) else None
    batch = client.batches.requeue(batch_id, request.queue, staging=staging).batch
    return batch.messages, f"Put {count_of(batch.messages, 'message')} back into {batch.queue}."


def _mark_consumed(client: QueueClient, request: ActionRequest, staging: Any, *_: Any) -> tuple[int, str]:
    batch = client.batches.get(uuid.UUID(request.batch_id), request.queue)
    client.batches.mark_consumed(batch)
    return batch.messages, f"The batch {batch.batch_id} of {count_of(batch.messages, 'message')} is consumed."


def _count_finished(server: Server, request: ActionRequest) -> Counted:
    options, client = SweepOptions(), server.client
    with server.session() as session:
        catalog = client.settings.database if request.queue is None else address_of(client, request.queue).catalog
        ledger = Ledger(session, catalog)
        found = len(batches(ledger, states=FINISHED, older_than=options.retain))
    sentence = (
        f"{count_of(found, 'batch')} of {catalog}, finished more than {options.retain.days} days ago, would be "
        "removed, and orphaned files of dead runs; files only from the staging folder that the DAG names."
    )
    label = f"Remove {count_of(found, 'finished batch')}" if found else "Sweep"
    return replace(request, messages=found), sentence, label


def _sweep(client: QueueClient, request: ActionRequest, staging: Any, *_: Any) -> tuple[int, str]:
    swept = client.batches.sweep(staging, request.queue)
    removed = [count_of(swept.batches, "batch"), count_of(swept.files, "file"), count_of(swept.rows, "staged row")]
    return swept.batches, f"Removed {removed[0]}, {removed[1]} and {removed[2]}."


_TABLE = (
    BatchAction(
        "requeue",
        "Requeue",
        "batch",
        partial(_count, "requeued", "{} would be put back into {}.", "Requeue {}"),
        _requeue,
    ),
    BatchAction(
        "mark_consumed",
        "Mark consumed",
        "batch",
        partial(_count, "consumed", "The batch of {} would count as read for good.", "Mark {} consumed"),
        _mark_consumed,
    ),
    BatchAction("sweep", "Sweep finished batches", "ledger", _count_finished, _sweep),
)
BATCH_ACTIONS = {action.name: action for action in _TABLE}
"""Actions on batches by name."""
