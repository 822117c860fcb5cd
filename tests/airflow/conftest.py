"""Airflow for tests: a home of its own, SQLite for what needs a database, connections from the environment."""

from __future__ import annotations

import atexit
import io
import json
import logging
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

EXAMPLES = Path(__file__).parents[2] / "example_dags"
HOME = Path(tempfile.mkdtemp(prefix="sqlqueue-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

# Airflow reads these when it is first imported.
os.environ.update(
    AIRFLOW_HOME=str(HOME),
    AIRFLOW__CORE__DAGS_FOLDER=str(EXAMPLES),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__UNIT_TEST_MODE="True",
    AIRFLOW__CORE__TEST_CONNECTION="Enabled",
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{HOME}/airflow.db",
)

# It logs when the interpreter ends, to streams that pytest has closed by then.
logging.getLogger("py4j").setLevel(logging.WARNING)

Connect = Callable[..., str]

THIRD_PARTY_WARNINGS = (
    "GitWildMatchPattern:DeprecationWarning",  # pathspec, in Airflow's DAG discovery
    "Using `httpx` with `starlette.testclient`",  # starlette, in Airflow's in-process API server
)


def pytest_configure(config: pytest.Config) -> None:
    for warning in THIRD_PARTY_WARNINGS:
        config.addinivalue_line("filterwarnings", f"ignore:{warning}")


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Makes an Airflow connection, by its fields, and returns its id."""

    def make(conn_type: str = "sqlqueue", extra: Any = None, conn_id: str = "sqlqueue_default", **fields: Any) -> str:
        values = {"conn_type": conn_type, "host": "sql.example.com", "schema": "shop", "extra": extra or {}, **fields}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(values))
        return conn_id

    return make


@pytest.fixture
def live(connection: Connect, server: Any) -> str:
    """The connection ``sqlqueue_default`` to the test server."""
    from bench_setting import connection_fields

    from airflow_sqlqueue.server.settings import ConnectionSettings

    settings = ConnectionSettings.from_url(server.url("sqlqueue"))
    return connection(**connection_fields(settings), extra={"encrypt": "yes", "trust_server_certificate": True})


@pytest.fixture
def hook(live: str) -> Any:
    """The hook of that connection; importing it is for those who use it."""
    from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

    return SqlQueueHook(live)


@pytest.fixture
def queue_name(live: str) -> Iterator[str]:
    """A queue that is there, and that no other test uses; dropped afterwards."""
    from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

    hook = SqlQueueHook(live)
    name = f"test.{uuid.uuid4().hex[:12]}"
    hook.create_queue(name)
    yield name
    hook.client.run_sql(f"DROP TABLE IF EXISTS {hook.client.resolve(name).qualified_name}")


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Airflow's metrics, on, and what arrives of them."""
    from tests.airflow.statsd_listener import listening

    with listening(monkeypatch) as listener:
        yield listener


@pytest.fixture
def run_id() -> str:
    """A run of its own for each test: the ledger of the test server keeps the batches of all."""
    return f"test__{uuid.uuid4().hex[:12]}"


@pytest.fixture
def context(run_id: str) -> Callable[..., dict[str, Any]]:
    """Context of an operator's ``execute``, with the keys that these operators read."""

    def make(
        run_id: str = run_id, task_id: str = "task", dag_id: str = "dag", map_index: int = -1, try_number: int = 1
    ) -> dict[str, Any]:
        return {"ti": TaskInstance(dag_id, run_id, task_id, map_index, try_number)}

    return make


class TaskInstance:
    def __init__(self, dag_id: str, run_id: str, task_id: str, map_index: int, try_number: int) -> None:
        self.dag_id, self.run_id, self.task_id, self.map_index = dag_id, run_id, task_id, map_index
        self.try_number = try_number

    def get_first_reschedule_date(self, context: Any) -> None:
        """As on a task's first poke in reschedule mode."""


@pytest.fixture(scope="session")
def airflow() -> Callable[..., str]:
    """Runs a command of Airflow's in this process, which spares its start, and returns what it printed."""

    def run(*arguments: str) -> str:
        from airflow.__main__ import main

        with patch.object(sys, "argv", ["airflow", *arguments]), redirect_stdout(io.StringIO()) as output:
            main()
        return output.getvalue()

    return run


@pytest.fixture(scope="session")
def metadata_db(airflow: Callable[..., str]) -> None:
    """Airflow's database, made once."""
    airflow("db", "migrate")
