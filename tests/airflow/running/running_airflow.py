"""An Airflow that runs: its services as processes, and its REST API as a person uses it."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
import psycopg
from bench_setting import connection_fields
from psycopg.conninfo import conninfo_to_dict

from airflow_sqlqueue.server.settings import ConnectionSettings
from fakemssql.postgres import DATABASE, USER, Postgres

Value = TypeVar("Value")

DAGS = Path(__file__).parent / "dags"

WAIT = 240
"""Seconds within which everything happens, on a machine that has other things to do as well."""

PRELOAD = """
import sys
from contextlib import suppress

if "scheduler" in sys.argv:
    import airflow.dag_processing.bundles.manager
    with suppress(ModuleNotFoundError):  # Airflow 3.1
        import airflow.dag_processing.dagbag
    import airflow.sdk.execution_time.task_runner
    import airflow_sqlqueue.drain.drain
    import airflow_sqlqueue.hooks.sqlqueue
    import airflow_sqlqueue.operators.drain_to_spark
"""
"""Import the modules of a task: its process is forked from a worker, and that from the scheduler, so they load once."""

SETTINGS = {
    "CORE__EXECUTOR": "LocalExecutor",
    "CORE__PARALLELISM": "16",
    "CORE__LOAD_EXAMPLES": "False",
    "CORE__UNIT_TEST_MODE": "False",
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "API__HOST": "127.0.0.1",
    "API__WORKERS": "1",
    # A request that waits for a second connection holds its first one.
    "DATABASE__SQL_ALCHEMY_POOL_SIZE": "50",
    # What has happened to a task is to be known within seconds; what is only slow must not be taken for dead.
    "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "SCHEDULER__JOB_HEARTBEAT_SEC": "1",
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    # By this a scheduler is taken for dead by the next one, at its start.
    "SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "10",
    # A slow scheduler would take itself for dead.
    "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "3600",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    # An API server that has many things to do at its first request takes longer than 5 s for it.
    "WORKERS__EXECUTION_API_TIMEOUT": "60",
    "WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
    "WORKERS__MAX_FAILED_HEARTBEATS": "30",
    "SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "1",
    # What a triggerer has left that was killed is taken over by another one.
    "TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
    "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    # A file of DAGs that a test adds is found.
    "DAG_PROCESSOR__REFRESH_INTERVAL": "4",
    "DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "2",
    "LOGGING__LOGGING_LEVEL": "INFO",
}


def free_port() -> int:
    """A port that no other program gets before a server binds it, outside of the range that systems assign."""
    for port in random.sample(range(20_000, 30_000), 100):
        with closing(socket.socket()) as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def until(what: str, look: Callable[[], Value], *, seconds: float = WAIT) -> Value:
    """Look until there is something to see, and return it; fail when that takes too long."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"in {seconds} s it did not happen: {what}"
        time.sleep(1)
    return seen


_LAST_TRIGGERER = """
SELECT latest_heartbeat, (SELECT count(*) FROM trigger WHERE triggerer_id = job.id)
FROM job WHERE job_type = 'TriggererJob' AND start_date > %s ORDER BY id DESC
"""


class RunningAirflow:
    """API server, scheduler, triggerer and DAG processor of one home, with the LocalExecutor, on PostgreSQL.

    On SQLite the API server waits for itself where two requests write at the same time.

    :param home: the folder for database, settings, DAGs and logs.
    :param environment: further variables of all its processes.
    """

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        port = free_port()
        settings = {
            **SETTINGS,
            "CORE__DAGS_FOLDER": str(home / "dags"),
            "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
            "API__PORT": str(port),
            "API__SECRET_KEY": secrets.token_hex(16),
            "API_AUTH__JWT_SECRET": secrets.token_hex(32),
        }
        self.home = home
        self._environment = {**os.environ, "AIRFLOW_HOME": str(home), **_variables(settings), **environment}
        # Not under the home: started by root, PostgreSQL runs as a user who cannot enter pytest's folders.
        self._data = tempfile.TemporaryDirectory(prefix="sqlqueue-airflow-")
        Path(self._data.name).chmod(0o711)
        self._database = Postgres(Path(self._data.name) / "database")
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=WAIT)
        self._mutex = threading.Lock()
        self._services: dict[str, subprocess.Popen[bytes]] = {}
        self._sessions: set[int] = set()

    def start(self) -> None:
        """Make the database and start the services; return when the API answers."""
        self._database.start()
        where = f"{USER}@/{DATABASE}?host={conninfo_to_dict(self._database.conninfo())['host']}"
        urls = {
            "DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg://{where}",
            "DATABASE__SQL_ALCHEMY_CONN_ASYNC": f"postgresql+psycopg_async://{where}",
        }
        self._environment.update(_variables(urls))
        # The workers of a scheduler that is killed keep its connection open, and the rows locked that it had locked.
        ended = "&options=-cidle_in_transaction_session_timeout=15000"
        self._of_scheduler = {name: url + ended for name, url in urls.items()}
        (self.home / "dags").mkdir()
        (self.home / "config").mkdir()
        (self.home / "config" / "airflow_local_settings.py").write_text(PRELOAD, "utf-8")
        migration = self._start("migration", "db", "migrate")
        assert migration.wait(WAIT) == 0, self.log("migration")
        self._start("api-server", "api-server")
        self._start("dag-processor", "dag-processor")
        self.start_scheduler()
        self.start_triggerer()
        token = until("the API server answers", self._token)
        self._http.headers["Authorization"] = f"Bearer {token}"

    def stop(self) -> None:
        """Kill every process that the services have started, orphans too: they keep the session of their service."""
        self._http.close()
        while living := [process for process in psutil.process_iter() if _session(process) in self._sessions]:
            for process in living:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            for service in self._services.values():
                service.wait(60)
            psutil.wait_procs(living, 60)
        self._database.stop()
        self._data.cleanup()

    def start_scheduler(self) -> None:
        """Start it after the end of the previous one."""
        self._start("scheduler", "scheduler", "--skip-serve-logs", **self._of_scheduler)

    def start_triggerer(self) -> None:
        """Start it, once one that was killed has ended."""
        self._triggerer_since = datetime.now(timezone.utc)
        self.triggerer = psutil.Process(self._start("triggerer", "triggerer", "--skip-serve-logs").pid)

    def restart_triggerer(self) -> None:
        """End it, as a deployment does, and start another one, which gets all triggers at once."""
        self._services["triggerer"].terminate()
        self.start_triggerer()

    def is_triggerer_alive(self) -> bool:
        return self._services["triggerer"].poll() is None

    def triggers_live(self, count: int, seconds: float) -> bool:
        """Wait until the triggerer has had a number of triggers for some seconds; False if it ends before."""
        begun: list[datetime] = []

        def is_decided() -> str:
            (beat, taken), *_ = self.select(_LAST_TRIGGERER, self._triggerer_since) or [(None, 0)]
            # Airflow's own process may stay for a while without the one that runs the triggers.
            if not self.is_triggerer_alive() or (taken and not any(map(_session, self.triggerer.children()))):
                return "ended"
            if taken < count:
                begun.clear()
                return ""
            begun.append(beat)
            return "lives" if beat >= begun[0] + timedelta(seconds=seconds) else ""

        return until(f"the triggerer has {count} triggers", is_decided) == "lives"

    def select(self, statement: Any, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of Airflow's database."""
        with psycopg.connect(self._database.conninfo()) as connection:
            return connection.execute(statement, values).fetchall()

    def stop_scheduler(self, signum: signal.Signals) -> None:
        """Send a signal to the scheduler alone; its workers are processes of their own."""
        self._services["scheduler"].send_signal(signum)

    def is_scheduler_missed(self) -> bool:
        """Whether a scheduler that said nothing any more is taken for dead."""
        return bool(self.get("monitor/health")["scheduler"]["status"] == "unhealthy")

    def log(self, service: str) -> str:
        """The last lines that a service has printed."""
        return "\n".join((self.home / f"{service}.log").read_text("utf-8", "replace").splitlines()[-60:])

    def get(self, path: str, **parameters: Any) -> Any:
        return self._request("GET", path, params=parameters)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._request("POST", path, json=body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._request("PATCH", path, json=body)

    def add_connection(self, conn_id: str, url: str, **keywords: str) -> None:
        """Add a connection to a server's database, with further ODBC keywords."""
        settings = ConnectionSettings.from_url(url)
        extra = {"encrypt": "yes", "trust_server_certificate": True, "keywords": keywords}
        connection = {
            "connection_id": conn_id,
            "conn_type": "sqlqueue",
            **connection_fields(settings),
            "extra": json.dumps(extra),
        }
        self.post("connections", connection)

    def add_dags(self, file: str, settings: Any, dag_ids: Collection[str], *, folder: Path = DAGS) -> None:
        """Add a file of DAGs, which finds its settings beside itself, and wait until all of them are known."""
        # Files of several tests are in one Airflow, where a second DAG of a name takes the place of the first.
        taken = self._dag_ids() & set(dag_ids)
        assert not taken, f"{file} has DAGs of another file: {sorted(taken)}"
        target = self.home / "dags" / file
        target.with_suffix(".json").write_text(json.dumps(settings), "utf-8")
        target.write_text((folder / file).read_text("utf-8"), "utf-8")

        def are_known() -> bool:
            errors = self.get("importErrors")["import_errors"]
            assert not errors, errors
            return self._dag_ids().issuperset(dag_ids)

        until(f"Airflow knows the DAGs of {file}", are_known)

    def _dag_ids(self) -> set[str]:
        return {dag["dag_id"] for dag in self.get("dags", limit=100)["dags"]}

    def _request(self, method: str, path: str, **arguments: Any) -> Any:
        with self._mutex:
            response = self._http.request(method, f"/api/v2/{path}", **arguments)
        why = self.log("api-server") if response.is_server_error else ""
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}\n{why}"
        return response.json()

    def _token(self) -> str:
        ended = {name: service.poll() for name, service in self._services.items() if name != "migration"}
        assert not any(code is not None for code in ended.values()), "\n".join(map(self.log, ended))
        try:
            response = self._http.get("/auth/token")
        except httpx.TransportError:
            return ""
        return str(response.json()["access_token"]) if response.is_success else ""

    def _start(self, name: str, *arguments: str, **settings: str) -> subprocess.Popen[bytes]:
        """A service of its own name, with settings that the others do not have."""
        command = [sys.executable, "-m", "airflow", *arguments]
        if name in self._services:
            self._services[name].wait(WAIT)
        with (self.home / f"{name}.log").open("ab") as output:
            service = subprocess.Popen(
                command,
                env={**self._environment, **_variables(settings)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A session has no way out for those in it: Airflow's workers and tasks make process groups only.
                start_new_session=True,
            )
        self._services[name] = service
        self._sessions.add(service.pid)
        return service


def _session(process: psutil.Process) -> int | None:
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else os.getsid(process.pid)
    except (ProcessLookupError, psutil.NoSuchProcess):
        return None


def _variables(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"AIRFLOW__{name}": value for name, value in settings.items()}
