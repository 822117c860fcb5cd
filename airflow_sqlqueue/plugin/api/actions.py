"""Actions of the page: a preview that counts, and a signed request to the DAG that acts.

The preview's answer is signed and names exactly what it counted, for this user and for some minutes. No run's
configuration has bodies or headers: :mod:`airflow_sqlqueue.plugin.api.message_edits` edits messages.
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

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.plugin import action_tokens, audit
from airflow_sqlqueue.plugin.action_tokens import ActionRequest
from airflow_sqlqueue.plugin.actions_dag import PROGRESS, TASK, page_action
from airflow_sqlqueue.plugin.addresses import Address
from airflow_sqlqueue.plugin.api.failures import Group, GroupKey, group_of
from airflow_sqlqueue.plugin.responses import RequestBody, read_as
from airflow_sqlqueue.plugin.rights import may_act, may_start_actions
from airflow_sqlqueue.plugin.servers import RequestedServer
from airflow_sqlqueue.plugin.settings import ACTIONS_DAG

router = APIRouter(prefix="/actions")

MAX_SELECTED = 1_000

_ACTING = [Depends(may_act), Depends(may_start_actions)]


class PreviewRequest(RequestBody):
    """Request for the preview of an action, with the messages or the batch."""

    action: str
    queue: Address | None = None
    batch_id: uuid.UUID | None = None
    group_by: GroupKey | None = None
    group: Group | None = None
    row_versions: list[int] | None = Field(None, max_length=MAX_SELECTED)
    to_queue: Address | None = None
    max_messages: int | None = Field(None, ge=1)
    rate: float | None = Field(None, gt=0, allow_inf_nan=False)
    reason: str | None = None

    def checked(self, conn_id: str) -> ActionRequest:
        """Return the request for the action, before anything is counted. Raises :class:`ConfigurationError`."""
        request = ActionRequest(
            self.action,
            conn_id,
            0,
            self.queue,
            batch_id=None if self.batch_id is None else str(self.batch_id),
            group=group_of(self.group_by, self.group),
            row_versions=tuple(self.row_versions) if self.row_versions else None,
            to_queue=self.to_queue,
            limit=self.max_messages,
            rate=self.rate,
            reason=self.reason or None,
        )
        page_action(self.action).check(request)
        return request


class StartRequest(RequestBody):
    """Confirmation of a preview, with the count that the user has seen."""

    token: str
    count: int


@router.post("/preview", dependencies=_ACTING)
def preview(
    server: RequestedServer, wanted: Annotated[PreviewRequest, Depends(read_as(PreviewRequest))], user: GetUserDep
) -> dict[str, Any]:
    """Preview of an action: the count, a sentence, a token, and the label of its confirmation. Nothing is changed."""
    action = page_action(wanted.action)
    request, sentence, label = action.count(server, wanted.checked(server.conn_id))
    return {
        "messages": request.messages,
        "possible": action.is_possible(request),
        "sentence": sentence,
        "label": label,
        "token": action_tokens.signed(request, str(user.get_id()), "preview"),
    }


@router.post("", dependencies=_ACTING)
def start(
    server: RequestedServer, confirmed: Annotated[StartRequest, Depends(read_as(StartRequest))], user: GetUserDep
) -> dict[str, Any]:
    """Start the DAG run that does the previewed action; 409 if the preview is no longer true."""
    try:
        request = action_tokens.read(confirmed.token, str(user.get_id()), "preview")
    except ConfigurationError as error:
        raise HTTPException(409, str(error)) from None
    if request.connection != server.conn_id:
        raise HTTPException(400, "The preview is of another connection.")
    action = page_action(request.action)
    if confirmed.count != request.messages or action.count(server, request)[0].messages < request.messages:
        raise HTTPException(409, "The count has changed meanwhile: request a new preview.")
    if not action.is_possible(request):
        raise HTTPException(409, "There is nothing to do.")
    if reason := unavailable():
        raise HTTPException(409, reason)
    # Of the signed part only, because one signature has several spellings.
    run_id = f"sqlqueue__{uuid.uuid5(uuid.NAMESPACE_OID, confirmed.token.rpartition('.')[0])}"
    request = replace(request, by=user.get_name())
    conf = {**replace(request, holder="").to_dict(), "order": action_tokens.signed(request, run_id, "order")}
    noted = {"connection", "queue", "batch_id", "messages", "to_queue", "rate", "reason"}
    details = {name: value for name, value in request.to_dict().items() if name in noted}
    audit.note(user, request.action, dag_id=ACTIONS_DAG, run_id=run_id, **details)
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
    """Return the progress of the run of an action."""
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


def unavailable() -> str | None:
    """Reason why actions cannot run, as a sentence; None if they can."""
    with create_session() as session:
        dag = session.get(DagModel, ACTIONS_DAG)
        if dag is None or dag.is_stale:
            return f"There is no DAG {ACTIONS_DAG!r}: add the file from the guide to the DAG folder."
        return f"The DAG {ACTIONS_DAG!r} is paused: unpause it." if dag.is_paused else None
