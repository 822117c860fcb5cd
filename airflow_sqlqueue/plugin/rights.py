"""Rights of users: dependencies of the routes, which ask Airflow's auth manager.

Airflow guards no route of a plugin's app, so each route has one of these, and checks it before it reads the request.
Reading needs the view ``SQL Queues`` and the connection, unless the connection is open to all. Acting needs ``POST``
on that view and ``PUT`` on the connection, because SimpleAuthManager grants every method of every view to everybody.
Bodies have a view of their own, and are off unless the configuration allows them.
"""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from fastapi import HTTPException

from airflow_sqlqueue.plugin import settings

VIEW = "SQL Queues"
BODIES = "SQL Queue Bodies"


def may_view(user: GetUserDep) -> None:
    """Check the right to see the page."""
    _require(_view("GET", VIEW, user), "You may not see the queues: ask for the right to read 'SQL Queues'.")


def may_read(conn_id: str, user: GetUserDep) -> None:
    """Check the right to read a connection's server."""
    _require(can_read(conn_id, user), f"You may not read the connection {conn_id!r}.")


def may_act(conn_id: str, user: GetUserDep) -> None:
    """Check the right to change a connection's server."""
    _require(can_act(conn_id, user), f"You may not change anything through the connection {conn_id!r}.")


def may_start_actions(user: GetUserDep) -> None:
    """Check the right to start the page's DAG, which runs the actions."""
    _require(can_start(user), f"You may not run the DAG {settings.ACTIONS_DAG!r}.")


def may_see_bodies(conn_id: str, user: GetUserDep) -> None:
    """Check the right to see bodies."""
    reason = bodies_refused(conn_id, user)
    _require(reason is None, reason or "")


def can_read(conn_id: str, user: Any) -> bool:
    """Return whether the user may read the server: by the right to the connection, or if it is open to all."""
    return settings.is_open(conn_id) or knows(conn_id, user)


def knows(conn_id: str, user: Any) -> bool:
    """Return whether the user may read the connection itself."""
    return _connection("GET", conn_id, user)


def can_act(conn_id: str, user: Any) -> bool:
    """Return whether the user may act through the connection; the right to start the DAG is checked apart."""
    return _view("POST", VIEW, user) and _connection("PUT", conn_id, user)


def bodies_refused(conn_id: str, user: Any) -> str | None:
    """Reason why the user may not see bodies of the connection's messages, as a sentence; None if allowed."""
    if not settings.shows_bodies():
        return "The page shows no bodies: [sqlqueue] page_show_bodies in Airflow's configuration is off."
    if _view("GET", BODIES, user) and _connection("PUT", conn_id, user):
        return None
    return "Seeing bodies needs the right to read 'SQL Queue Bodies', and the right to edit the connection."


def can_start(user: Any) -> bool:
    """Return whether the user may start the page's DAG."""
    details = DagDetails(id=settings.ACTIONS_DAG, team_name=DagModel.get_team_name(settings.ACTIONS_DAG))
    manager: Any = get_auth_manager()
    return bool(manager.is_authorized_dag(method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user))


def _view(method: str, name: str, user: Any) -> bool:
    manager: Any = get_auth_manager()
    return bool(manager.is_authorized_custom_view(method=method, resource_name=name, user=user))


def _connection(method: str, conn_id: str, user: Any) -> bool:
    manager: Any = get_auth_manager()
    team = Connection.get_team_name(conn_id) if conf.getboolean("core", "multi_team", fallback=False) else None
    details = ConnectionDetails(conn_id=conn_id, team_name=team)
    return bool(manager.is_authorized_connection(method=method, details=details, user=user))


def _require(granted: bool, sentence: str) -> None:
    if not granted:
        raise HTTPException(403, sentence)
