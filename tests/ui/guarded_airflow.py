"""An Airflow that asks for a name and a password, with the page in it, at its root and below a path."""

from __future__ import annotations

import json
import secrets
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import httpx

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.traffic import FAILED_QUEUES, generate, generate_failed
from fakemssql import FakeServer
from tests.airflow.running.running_airflow import WAIT, RunningAirflow, free_port, until

DAGS = Path(__file__).parent / "dags"
CONNECTION = "sqlqueue_default"
DOWN = "sqlqueue_down"
BELOW = "/team/af"
ROLES = {"ada": "admin", "vera": "viewer"}


class GuardedAirflow(RunningAirflow):
    """Its people are those of :data:`ROLES`. Everybody may look at every connection.

    :param home: as the base class has it.
    """

    def __init__(self, home: Path) -> None:
        self.passwords = {name: secrets.token_urlsafe(12) for name in ROLES}
        people = home / "passwords.json"
        people.write_text(json.dumps(self.passwords), "utf-8")
        settings = {
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in ROLES.items()),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(people),
            "AIRFLOW__SQLQUEUE__PAGE_CONNECTIONS": "*",
            "AIRFLOW__SQLQUEUE__PAGE_OPEN_CONNECTIONS": "*",
            "AIRFLOW__SQLQUEUE__PAGE_SHOW_BODIES": "True",
        }
        super().__init__(home, settings)
        self.root = str(self._http.base_url).rstrip("/")

    def start_below(self) -> str:
        """A second API server of the same Airflow, below :data:`BELOW`; its address."""
        port = free_port()
        address = f"http://127.0.0.1:{port}{BELOW}"
        self._start("api-server-below", "api-server", API__PORT=str(port), API__BASE_URL=address)
        until("the second API server answers", lambda: _answers(f"{address}/api/v2/version"))
        return address

    def token(self, name: str) -> str:
        """A person's token for the API."""
        person = {"username": name, "password": self.passwords[name]}
        response = httpx.post(f"{self.root}/auth/token", json=person, timeout=WAIT)
        response.raise_for_status()
        return str(response.json()["access_token"])

    def _token(self) -> str:
        ended = {name: service.poll() for name, service in self._services.items() if name != "migration"}
        assert not any(code is not None for code in ended.values()), "\n".join(map(self.log, ended))
        try:
            return self.token("ada")
        except (httpx.TransportError, httpx.HTTPStatusError):
            return ""

    def add_traffic(self, server: FakeServer) -> QueueClient:
        """A shop's queues on a server, the connections to it and to one that is down, and the DAGs."""
        client = QueueClient.from_url(server.url("sqlqueue"))
        for name in ("audit", "error", "orders", "hostile", *FAILED_QUEUES):
            client.tables.create(name)
        now = datetime.now(timezone.utc)
        client.queue("audit").send(generate(400, seed=1, start=now))
        client.queue("orders").send(generate(30, seed=2, start=now))
        client.queue("error").send(generate_failed(120, seed=3, start=now, catalog="sqlqueue"))
        client.queue("audit").drain(
            request=DrainRequest(options=DrainOptions(max_messages=100), origin="a notebook"), stage="table"
        )
        client.queue("hostile").send([Message(hostile_headers(), b'{"note": "<b>body</b>"}')])
        client.run_sql("DROP INDEX [Index_Expires] ON [dbo].[hostile]")
        self.add_connection(CONNECTION, server.url("sqlqueue"))
        self.add_connection(DOWN, f"mssql://sa:none@127.0.0.1:{free_port()}/sqlqueue")
        self.add_dags("page.py", {}, {"orders_to_lake", "sqlqueue_actions"}, folder=DAGS)
        return client

    def run(self, dag_id: str, task_id: str) -> str:
        """Run a DAG of one task to its good end; the run's id."""
        run_id = str(self.post(f"dags/{dag_id}/dagRuns", {"logical_date": None})["dag_run_id"])
        where = f"dags/{dag_id}/dagRuns/{run_id}"
        ended = {"success", "failed"}
        until(f"{dag_id} has run", lambda: self.get(where)["state"] in ended)
        log = self.get(f"{where}/taskInstances/{task_id}/logs/1", full_content=True)["content"]
        assert self.get(where)["state"] == "success", json.dumps(log, indent=1)
        return run_id


def hostile_headers() -> dict[str, Any]:
    """Headers that a page would run, follow, turn around or break on if it did not treat them as text."""
    return {
        HeaderNames.MESSAGE_ID: "<script>document.title = 'taken'</script>",
        HeaderNames.ENCLOSED_MESSAGE_TYPES: "<img src=x onerror=\"document.title='taken'\">",
        HeaderNames.CONTENT_TYPE: "application/json",
        "javascript:document.title='taken'": "javascript:document.title='taken'",
        "turned\u202eeman": "left \u202etfel\u202c \u2066isolate\u2069 \u0007bell",
        "N" * 10_240: "<a href='javascript:alert(1)'>a long name</a>",
        "long": "v" * 50_000,
        "rows": "one\r\ntwo",
    }


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=WAIT).is_success
    except httpx.TransportError:
        return False
