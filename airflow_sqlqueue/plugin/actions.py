"""Actions of the page: a preview that counts, and an order to the DAG that acts.

The preview's answer is signed and names exactly what it counted, for this user and for some minutes. No run's
configuration has bodies or headers: :mod:`airflow_sqlqueue.plugin.message_edits` edits messages.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Annotated, Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.exceptions import DagNotFound, DagRunAlreadyExists
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType
from fastapi import APIRouter, Depends, HTTPException
from pydantic import Field
from sqlalchemy import select

from airflow_sqlqueue.drain.batches import batches
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import FINISHED
from airflow_sqlqueue.drain.options import SweepOptions
from airflow_sqlqueue.errorqueue.actions import ACTIONS
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.plugin import action_tokens, audit, failures, servers
from airflow_sqlqueue.plugin.action_tokens import ON_BATCHES, Order
from airflow_sqlqueue.plugin.actions_dag import PROGRESS, TASK
from airflow_sqlqueue.plugin.addresses import Address, address_of, shown_queue
from airflow_sqlqueue.plugin.batches import actions_for, find_batch
from airflow_sqlqueue.plugin.failure_previews import count_failed
from airflow_sqlqueue.plugin.responses import RequestBody, read_as
from airflow_sqlqueue.plugin.rights import may_act, may_start_actions
from airflow_sqlqueue.plugin.settings import ACTIONS_DAG

router = APIRouter(prefix="/actions")

MAX_SELECTED = 1_000

_ACTING = [Depends(may_act), Depends(may_start_actions)]


class Wanted(RequestBody):
    """Request for an action, with the messages or the batch."""

    action: str
    queue: Address | None = None
    batch_id: uuid.UUID | None = None
    group_by: failures.Grouping | None = None
    group: failures.Group | None = None
    row_versions: list[int] | None = Field(None, max_length=MAX_SELECTED)
    destination: Address | None = None
    max_messages: int | None = Field(None, ge=1)
    rate: float | None = Field(None, gt=0, allow_inf_nan=False)
    reason: str | None = None
    body: str | None = None
    headers: dict[str, str | None] | None = None

    def order(self, conn_id: str) -> Order:
        """The order of the request, before anything is counted. 400 for an impossible request."""
        if self.action == "edit_and_return" or self.body is not None or self.headers is not None:
            raise HTTPException(400, "A run may hold no content of messages: edit a message by its own request.")
        if self.action not in (*ACTIONS, *ON_BATCHES):
            raise HTTPException(400, f"Unknown action: choose one of {', '.join((*ACTIONS, *ON_BATCHES))}.")
        order = Order(self.action, conn_id, 0, self.queue)
        if self.action in ACTIONS:
            return self._on_messages(order)
        if (self.action == "sweep") != (self.batch_id is None):
            raise HTTPException(400, "Name the batch; only a sweep names none, but a queue beside the ledger.")
        return replace(order, batch_id=None if self.batch_id is None else str(self.batch_id))

    def _on_messages(self, order: Order) -> Order:
        by_group = self.group is not None and self.group_by is not None
        if not order.queue or by_group == bool(self.row_versions):
            raise HTTPException(400, "Name the error queue, and a group or messages of it: one of the two.")
        action = ACTIONS[self.action]
        given: dict[str, Any] = {"to_queue": self.destination, "reason": self.reason, "confirm": action.loses_messages}
        action.inputs(**given)
        order = replace(order, destination=self.destination, limit=self.max_messages, rate=self.rate)
        order = replace(order, reason=self.reason or None)
        if by_group:
            assert self.group is not None
            assert self.group_by is not None
            return replace(order, group=failures.of_group(self.group_by, self.group).group)
        return replace(order, row_versions=tuple(self.row_versions or ()))


class Confirmed(RequestBody):
    """Confirmation of a preview, with the count that the user has seen."""

    token: str
    count: int


@router.post("/preview", dependencies=_ACTING)
def preview(conn_id: str, wanted: Annotated[Wanted, Depends(read_as(Wanted))], user: GetUserDep) -> dict[str, Any]:
    """Preview of an action: the count, a sentence and a token. Nothing is changed."""
    order, sentence = _count(wanted.order(conn_id))
    token = action_tokens.signed(order, str(user.get_id()), "preview")
    return {"messages": order.messages, "possible": _is_possible(order), "sentence": sentence, "token": token}


@router.post("", dependencies=_ACTING)
def start(
    conn_id: str, confirmed: Annotated[Confirmed, Depends(read_as(Confirmed))], user: GetUserDep
) -> dict[str, Any]:
    """Start the DAG run that does the previewed action; 409 if the preview is no longer true."""
    try:
        order = action_tokens.read(confirmed.token, str(user.get_id()), "preview")
    except ConfigurationError as error:
        raise HTTPException(409, str(error)) from None
    if order.connection != conn_id:
        raise HTTPException(400, "The preview is of another connection.")
    if confirmed.count != order.messages or _count(order)[0].messages < order.messages:
        raise HTTPException(409, "The count has changed meanwhile: request a new preview.")
    if not _is_possible(order):
        raise HTTPException(409, "There is nothing to do.")
    if reason := unavailable():
        raise HTTPException(409, reason)
    # Of the signed part only, because one signature has several spellings.
    run_id = f"sqlqueue__{uuid.uuid5(uuid.NAMESPACE_OID, confirmed.token.rpartition('.')[0])}"
    order = replace(order, by=user.get_name() if order.action == "archive" else None)
    conf = {**replace(order, holder="").to_dict(), "order": action_tokens.signed(order, run_id, "order")}
    details = {"connection": conn_id, "queue": order.queue, "batch_id": order.batch_id, "messages": order.messages}
    audit.note(
        user,
        order.action,
        dag_id=ACTIONS_DAG,
        run_id=run_id,
        destination=order.destination,
        rate=order.rate,
        reason=order.reason,
        **details,
    )
    try:
        trigger_dag(
            dag_id=ACTIONS_DAG,
            run_id=run_id,
            conf=conf,
            triggered_by=DagRunTriggeredByType.UI,
            triggering_user_name=user.get_name(),
        )
    except DagRunAlreadyExists:
        raise HTTPException(409, "This was confirmed before: its run is active or has ended.") from None
    except (DagNotFound, ValueError):
        raise HTTPException(409, f"The DAG {ACTIONS_DAG} cannot run now: look at it in Airflow.") from None
    return {"run_id": run_id, "dag_id": ACTIONS_DAG}


@router.get("/{run_id}")
def progress(conn_id: str, run_id: str) -> dict[str, Any]:
    """Progress of the run of an action."""
    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == ACTIONS_DAG, DagRun.run_id == run_id))
        conf = (run.conf or {}) if run is not None else {}
        if run is None or conf.get("connection") != conn_id:
            raise HTTPException(404, "This connection has no such action.")
        stored = session.scalar(
            select(XComModel).where(
                XComModel.dag_id == ACTIONS_DAG,
                XComModel.run_id == run_id,
                XComModel.task_id == TASK,
                XComModel.key == PROGRESS,
            )
        )
        value = XComModel.deserialize_value(stored) if stored is not None else {}
        state = str(getattr(run.state, "value", run.state))
    found = value if isinstance(value, dict) else {}
    sentence = found.get("sentence")
    if sentence is None and state == "failed":
        sentence = "The run failed before it could report a reason: look at its log."
    return {"state": state, "done": found.get("done", 0), "of": conf.get("messages", 0), "sentence": sentence}


def _is_possible(order: Order) -> bool:
    """Whether the order has an effect: an empty batch can be ended, and a sweep removes more than it counts."""
    return order.messages > 0 or order.action not in ACTIONS


def unavailable() -> str | None:
    """Reason why actions cannot run, as a sentence; None if they can."""
    with create_session() as session:
        dag = session.get(DagModel, ACTIONS_DAG)
        if dag is None or dag.is_stale:
            return f"There is no DAG {ACTIONS_DAG!r}: add the file from the guide to the DAG folder."
        return f"The DAG {ACTIONS_DAG!r} is paused: unpause it." if dag.is_paused else None


def _count(order: Order) -> tuple[Order, str]:
    """The order with its count, and a sentence for the user."""
    if order.action in ACTIONS:
        return count_failed(order)
    if order.action == "sweep":
        return _count_finished(order)
    with servers.session_of(order.connection) as (client, session):
        _, info = find_batch(client, session, uuid.UUID(order.batch_id))
        if order.action == "requeue":
            shown_queue(client, session, info.queue)
    if order.action not in actions_for(info):
        raise HTTPException(
            409,
            f"The batch is {info.state}{' and a copy' if info.kept else ' and redacted' if info.redacted else ''}: the "
            "action is not possible.",
        )
    counted = replace(order, messages=info.messages, queue=Address(info.queue))
    if not info.messages:
        end = "requeued" if order.action == "requeue" else "consumed"
        return counted, f"The batch holds no messages: it would be marked {end}, and a sweep could remove it."
    if order.action == "requeue":
        return counted, f"{info.messages} messages would be put back into {info.queue}."
    return counted, f"The batch of {info.messages} messages would count as read for good."


def _count_finished(order: Order) -> tuple[Order, str]:
    options = SweepOptions()
    with servers.session_of(order.connection) as (client, session):
        catalog = client.settings.database if order.queue is None else address_of(client, order.queue).catalog
        ledger = Ledger(session, catalog, client.ledger_schema)
        found = len(batches(ledger, states=FINISHED, older_than=options.retain))
    sentence = (
        f"{found} batches of {catalog} that were finished more than {options.retain.days} days ago would be removed, "
        "and orphaned files of dead runs; files only from the staging folder that the DAG names."
    )
    return replace(order, messages=found), sentence
