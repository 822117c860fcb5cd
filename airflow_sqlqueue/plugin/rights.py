"""Who may do what: dependencies of the routes, which ask Airflow's auth manager.

Airflow guards no route of a plugin's app, so each route has one of these. They come before anything else of a request
is looked at. To read takes the view ``SQL Queues`` and the connection, unless that is open to all; to act takes
``POST`` on that view and ``PUT`` on the connection, as SimpleAuthManager grants every view to everybody, whatever the
method; bodies have a view of their own, and are off unless the configuration says otherwise.
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
    """The page itself."""
    _require(_view("GET", VIEW, user), "You may not see the queues: ask for the right to read 'SQL Queues'.")


def may_read(conn_id: str, user: GetUserDep) -> None:
    """What a connection's server has."""
    _require(can_read(conn_id, user), f"You may not read the connection {conn_id!r}.")


def may_act(conn_id: str, user: GetUserDep) -> None:
    """Change something on a connection's server."""
    _require(can_act(conn_id, user), f"You may not change anything through the connection {conn_id!r}.")


def may_start_actions(user: GetUserDep) -> None:
    """Have the page's DAG run, which is what an action is."""
    _require(can_use_dag("POST", settings.ACTIONS_DAG, user), f"You may not run the DAG {settings.ACTIONS_DAG!r}.")


def may_see_bodies(conn_id: str, user: GetUserDep) -> None:
    """The body of a message."""
    reason = bodies_refused(conn_id, user)
    _require(reason is None, reason or "")


def can_read(conn_id: str, user: Any) -> bool:
    """Whether the user may see what the connection's server has: by the connection, or because it is open to all."""
    return settings.is_open(conn_id) or knows(conn_id, user)


def knows(conn_id: str, user: Any) -> bool:
    """Whether the user may read the connection itself."""
    return _connection("GET", conn_id, user)


def can_act(conn_id: str, user: Any) -> bool:
    """Whether the user may act through the connection, as far as the page is concerned; the DAG is another matter."""
    return _view("POST", VIEW, user) and _connection("PUT", conn_id, user)


def bodies_refused(conn_id: str, user: Any) -> str | None:
    """Why the user may not see bodies of the connection's messages, as a sentence; None where he may."""
    if not settings.shows_bodies():
        return "Bodies are shown to nobody: [sqlqueue] page_show_bodies in Airflow's configuration is off."
    if _view("GET", BODIES, user) and _connection("PUT", conn_id, user):
        return None
    return "To see bodies takes the right to read 'SQL Queue Bodies', and that to edit the connection."


def can_use_dag(method: str, dag_id: str, user: Any) -> bool:
    """Whether the user may start (``POST``) or see (``GET``) runs of the DAG."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    manager: Any = get_auth_manager()
    return bool(manager.is_authorized_dag(method=method, access_entity=DagAccessEntity.RUN, details=details, user=user))


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
