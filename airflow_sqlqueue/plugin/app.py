"""FastAPI application of the page: every route checks rights, and no route blocks the event loop."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, FastAPI
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

from airflow_sqlqueue.plugin import metrics, settings
from airflow_sqlqueue.plugin.actions_dag import page_actions
from airflow_sqlqueue.plugin.api import actions, batches, failures, flow, message_edits, messages, queues
from airflow_sqlqueue.plugin.responses import AsciiResponse, add_error_responses
from airflow_sqlqueue.plugin.rights import bodies_refused, can_act, can_read, can_start, knows, may_read, may_view
from airflow_sqlqueue.plugin.servers import MAX_CONNECTIONS, shown_connections
from airflow_sqlqueue.queue.errors.groupings import GROUPINGS

STATIC = Path(__file__).parent / "static"

VIEWS = (queues, messages, message_edits, batches, failures, flow, actions)
"""Modules with the routes of the views; ``static/routes.js`` lists the views themselves."""

general = APIRouter()


@cache
def the_app() -> FastAPI:
    """Return the application of this process."""
    return create_app()


def create_app() -> FastAPI:
    """Make an application, to be mounted under ``/sqlqueue``."""
    # Without the pages that describe the API: these would be open to everybody.
    app = FastAPI(default_response_class=AsciiResponse, docs_url=None, redoc_url=None, openapi_url=None)
    add_error_responses(app)
    app.include_router(metrics.router)
    app.include_router(general, dependencies=[Depends(may_view)])
    of_connection = APIRouter(prefix="/api/connections/{conn_id}", dependencies=[Depends(may_view), Depends(may_read)])
    for module in VIEWS:
        of_connection.include_router(module.router)
    app.include_router(of_connection)
    app.mount("/static", StaticFiles(directory=STATIC), "static")
    return app


@general.get("/page")
def page() -> FileResponse:
    """Return the HTML of the page, the same for everybody."""
    return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")


@general.get("/api/session")
def session(user: GetUserDep) -> dict[str, Any]:
    """Return the signed-in user, whether actions can run at all, and the tables of actions and groupings."""
    reason = actions.unavailable()
    if reason is None and not can_start(user):
        reason = f"You may not run the DAG {settings.ACTIONS_DAG!r}."
    return {
        "version": settings.VERSION,
        "user": user.get_name(),
        "actions": {"available": reason is None, "reason": reason, "dag_id": settings.ACTIONS_DAG},
        "offered": [action.to_dict() for action in page_actions().values()],
        "groupings": [
            {"key": key, "label": grouping.label, "archived": grouping.archived} for key, grouping in GROUPINGS.items()
        ],
    }


@general.get("/api/connections")
def connections(user: GetUserDep) -> dict[str, Any]:
    """Return the connections that the user may read; the request contacts no server."""
    readable = [each for each in shown_connections() if can_read(each.conn_id, user)]
    return {
        "connections": [
            {
                "id": each.conn_id,
                "host": each.host if knows(each.conn_id, user) else None,
                "may_act": can_act(each.conn_id, user),
                "bodies_refused": bodies_refused(each.conn_id, user),
            }
            for each in readable[:MAX_CONNECTIONS]
        ]
    }
