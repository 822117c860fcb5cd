"""The buttons: a preview that counts, and an order to the DAG that does it.

What the preview answers is signed and names exactly what was counted, for this user and for some minutes. Bodies and
headers go into no run's configuration: messages are edited by :mod:`airflow_sqlqueue.plugin.message_edits`.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, replace
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
from airflow_sqlqueue.drain.sweep import SweepOptions
from airflow_sqlqueue.errorqueue.destinations import Destinations, Reason
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.plugin import audit
from airflow_sqlqueue.plugin.action_tokens import ACTIONS, PREVIEWED_SECONDS, Order, read, signed
from airflow_sqlqueue.plugin.actions_dag import PROGRESS, TASK
from airflow_sqlqueue.plugin.batches import actions_for, find_batch
from airflow_sqlqueue.plugin.failures import SECONDS, Group, Grouping, looked_through, of_group
from airflow_sqlqueue.plugin.responses import RequestBody, read_as
from airflow_sqlqueue.plugin.rights import may_act, may_start_actions
from airflow_sqlqueue.plugin.servers import address_of, queue_of, session_of
from airflow_sqlqueue.plugin.settings import ACTIONS_DAG

router = APIRouter(prefix="/actions")

MAX_SELECTED = 1_000

_ACTING = [Depends(may_act), Depends(may_start_actions)]


class Wanted(RequestBody):
    """An action, and on what."""

    action: str
    queue: str | None = None
    batch_id: uuid.UUID | None = None
    group_by: Grouping | None = None
    group: Group | None = None
    row_versions: list[int] | None = Field(None, max_length=MAX_SELECTED)
    destination: str | None = None
    body: str | None = None
    headers: dict[str, str | None] | None = None

    def order(self, conn_id: str) -> Order:
        """The action as an order that nothing was counted for yet. 400 for what makes none."""
        if self.action == "edit_and_return" or self.body is not None or self.headers is not None:
            raise HTTPException(
                400,
                "Nothing of a message may lie in a run: a message is edited by a request of its own.",
            )
        if self.action not in ACTIONS:
            raise HTTPException(400, f"There is no such action: it is one of {', '.join(ACTIONS)}.")
        order = Order(self.action, conn_id, 0, self.queue)
        if self.action in ("return", "redirect"):
            return self._return(order)
        if (self.action == "sweep") != (self.batch_id is None):
            raise HTTPException(400, "Say which batch is meant; a sweep is of a ledger, and names a queue beside it.")
        return replace(order, batch_id=None if self.batch_id is None else str(self.batch_id))

    def _return(self, order: Order) -> Order:
        by_group = self.group is not None and self.group_by is not None
        if not order.queue or by_group == bool(self.row_versions):
            raise HTTPException(400, "Say which error queue is meant, and a group of it or messages: one of the two.")
        if (self.action == "redirect") != bool(self.destination):
            raise HTTPException(400, "A redirect names the queue that takes the messages; a return names none.")
        order = replace(order, destination=self.destination)
        if by_group:
            assert self.group is not None
            assert self.group_by is not None
            return replace(order, group=of_group(self.group_by, self.group).group)
        return replace(order, row_versions=tuple(self.row_versions or ()))


class Confirmed(RequestBody):
    """A preview again, and the count that the user has seen."""

    token: str
    count: int


@dataclass(frozen=True)
class _Counted:
    """An order with what was counted for it, and a sentence on it."""

    order: Order
    sentence: str


@router.post("/preview", dependencies=_ACTING)
def preview(conn_id: str, wanted: Annotated[Wanted, Depends(read_as(Wanted))], user: GetUserDep) -> dict[str, Any]:
    """What the action would do. Nothing is changed."""
    counted = _count(wanted.order(conn_id))
    token = signed(counted.order, str(user.get_id()), "preview")
    return {
        "messages": counted.order.messages,
        "possible": _is_possible(counted.order),
        "sentence": counted.sentence,
        "token": token,
    }


@router.post("", dependencies=_ACTING)
def start(
    conn_id: str, confirmed: Annotated[Confirmed, Depends(read_as(Confirmed))], user: GetUserDep
) -> dict[str, Any]:
    """Have the DAG do what a preview has shown; 409 where that does not hold any more."""
    try:
        order = read(confirmed.token, str(user.get_id()), "preview", seconds=PREVIEWED_SECONDS)
    except ConfigurationError as error:
        raise HTTPException(409, str(error)) from None
    if order.connection != conn_id:
        raise HTTPException(400, "The preview is of another connection.")
    if confirmed.count != order.messages or _count(order).order.messages < order.messages:
        raise HTTPException(409, "What was counted has changed meanwhile: look again at what would be done.")
    if not _is_possible(order):
        raise HTTPException(409, "There is nothing to return.")
    if reason := unavailable():
        raise HTTPException(409, reason)
    # Of what is signed: the same signature may be written in several ways.
    run_id = f"sqlqueue__{uuid.uuid5(uuid.NAMESPACE_OID, confirmed.token.rpartition('.')[0])}"
    conf = {**replace(order, holder="").to_dict(), "order": signed(order, run_id, "order")}
    details = {"connection": conn_id, "queue": order.queue, "batch_id": order.batch_id, "messages": order.messages}
    audit.note(user, order.action, dag_id=ACTIONS_DAG, run_id=run_id, destination=order.destination, **details)
    try:
        trigger_dag(
            dag_id=ACTIONS_DAG,
            run_id=run_id,
            conf=conf,
            triggered_by=DagRunTriggeredByType.UI,
            triggering_user_name=user.get_name(),
        )
    except DagRunAlreadyExists:
        raise HTTPException(409, "This was confirmed before: its run is under way, or has ended.") from None
    except (DagNotFound, ValueError):
        raise HTTPException(409, f"The DAG {ACTIONS_DAG} cannot be run now: look at it in Airflow.") from None
    return {"run_id": run_id, "dag_id": ACTIONS_DAG}


@router.get("/{run_id}")
def progress(conn_id: str, run_id: str) -> dict[str, Any]:
    """How far the run of an action is."""
    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == ACTIONS_DAG, DagRun.run_id == run_id))
        conf = (run.conf or {}) if run is not None else {}
        if run is None or conf.get("connection") != conn_id:
            raise HTTPException(404, "There is no such action of this connection.")
        said = session.scalar(
            select(XComModel).where(
                XComModel.dag_id == ACTIONS_DAG,
                XComModel.run_id == run_id,
                XComModel.task_id == TASK,
                XComModel.key == PROGRESS,
            )
        )
        value = XComModel.deserialize_value(said) if said is not None else {}
        state = str(getattr(run.state, "value", run.state))
    found = value if isinstance(value, dict) else {}
    sentence = found.get("sentence")
    if sentence is None and state == "failed":
        sentence = "The run failed before it could say why: look at its log."
    return {"state": state, "done": found.get("done", 0), "of": conf.get("messages", 0), "sentence": sentence}


def _is_possible(order: Order) -> bool:
    """Whether the order does anything: an empty batch can come to its end, and a sweep takes more than it counts."""
    return order.messages > 0 or order.action not in ("return", "redirect")


def unavailable() -> str | None:
    """Why actions cannot run, as a sentence; None where they can."""
    with create_session() as session:
        dag = session.get(DagModel, ACTIONS_DAG)
        if dag is None or dag.is_stale:
            return f"There is no DAG {ACTIONS_DAG!r}: a file in the DAG folder has to make it, as in the guide."
        return f"The DAG {ACTIONS_DAG!r} is paused: unpause it." if dag.is_paused else None


def _count(order: Order) -> _Counted:
    if order.action in ("return", "redirect"):
        return _count_failed(order)
    if order.action == "sweep":
        return _count_finished(order)
    with session_of(order.connection) as (client, session):
        _, info = find_batch(client, session, uuid.UUID(order.batch_id))
    if order.action not in actions_for(info):
        raise HTTPException(409, f"The batch is {info.state}{' and a copy' if info.kept else ''}: that cannot be done.")
    counted = replace(order, messages=info.messages, queue=info.queue)
    if not info.messages:
        end = "requeued" if order.action == "requeue" else "consumed"
        return _Counted(counted, f"The batch holds no messages: it would be marked {end}, and a sweep could remove it.")
    if order.action == "requeue":
        return _Counted(counted, f"{info.messages} messages would be put back into {info.queue}.")
    return _Counted(counted, f"The batch of {info.messages} messages would count as read for good.")


def _count_failed(order: Order) -> _Counted:
    where = ErrorFilter.of(order.filters)
    to: Counter[str] = Counter()
    stays: Counter[str] = Counter()
    is_whole = True
    last: int | None = None
    with queue_of(order.connection, order.queue or "") as (client, queue):
        destinations = Destinations(queue, client.resolver, order.destination)
        # What was counted within the time for a look is found again in twice that.
        for message in looked_through(queue, where, 2 * SECONDS if order.messages else SECONDS):
            if message is None:
                is_whole = False
            elif where.matches(message):
                if order.messages and to.total() == order.messages:
                    break
                last = message.row_version
                found = destinations.of(message)
                if isinstance(found, Reason):
                    stays[found.value] += 1
                else:
                    to[found.address.canonical] += 1
        address = queue.address.canonical
    parts = [f"{count} to {name}" for name, count in to.most_common(3)]
    if len(to) > len(parts):
        parts.append(f"{sum(to.values()) - sum(count for _, count in to.most_common(3))} to {len(to) - 3} others")
    sentence = f"{to.total()} messages of {address} would go back"
    sentence += f": {', '.join(parts)}" if parts else ""
    sentence += "".join(f"; {count} stay, {reason}" for reason, count in stays.items())
    sentence += "." if is_whole else "; more may be in the queue, which was not looked through to its end."
    return _Counted(replace(order, messages=to.total(), up_to=last if order.up_to is None else order.up_to), sentence)


def _count_finished(order: Order) -> _Counted:
    options = SweepOptions()
    with session_of(order.connection) as (client, session):
        catalog = client.settings.database if order.queue is None else address_of(client, order.queue).catalog
        ledger = Ledger(session, catalog, client.ledger_schema)
        found = len(batches(ledger, states=FINISHED, older_than=options.retain))
    sentence = (
        f"{found} batches of {catalog} that were finished more than {options.retain.days} days ago would be removed, "
        "and what dead runs have left there; files only of the staging folder that the DAG names."
    )
    return _Counted(replace(order, messages=found), sentence)
