"""Server of a command: a connection of Airflow's database, a password outside of the URL."""

from __future__ import annotations

import json
import multiprocessing
import os
import pty
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.cli.runner import Done, one_sentence, sqlqueue

ENDPOINT = f"Shipping.{uuid.uuid4().hex[:10]}"
NOWHERE = "mssql://sa:x@127.0.0.1:1/nowhere"


def set_up_airflow(variables: dict[str, str], connection: dict[str, Any]) -> None:
    """Make what commands ask of Airflow's database, the table of connections with one, in this process."""
    os.environ.update(variables)
    from airflow import settings
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    settings.initialize()
    Connection.metadata.create_all(settings.engine)
    with create_session() as session:
        session.add(Connection("saved", **connection))


@pytest.fixture(scope="module")
def with_airflow(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Done]]:
    """Runs commands in a process of its own, whose Airflow has the connection ``saved`` and is loaded once."""
    pytest.importorskip("airflow", reason="Airflow is not installed")
    home = tmp_path_factory.mktemp("airflow")
    variables = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
    }
    parts = urlsplit(url)
    fields = {
        "conn_type": "sqlqueue",
        "host": parts.hostname,
        "port": parts.port,
        "login": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "schema": parts.path.lstrip("/"),
        "extra": {"trust_server_certificate": True, "endpoint_schemas": {ENDPOINT: "shipping"}},
    }
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawned) as process:
        process.submit(set_up_airflow, variables, fields).result(timeout=240)
        yield lambda *arguments, **options: process.submit(sqlqueue, *arguments, **options).result(timeout=240)


def test_an_endpoint_is_routed_by_the_connections_settings(with_airflow: Callable[..., Done]) -> None:
    address = f"{ENDPOINT}@[shipping]"
    made = with_airflow("create", address, "--create-schema", "--conn-id", "saved")
    assert made.returncode == 0, made.stderr
    sent = with_airflow("send", ENDPOINT, "--endpoint", "--type", "Order", "--conn-id", "saved")
    assert sent.returncode == 0, sent.stderr
    counted = with_airflow("depth", ENDPOINT, "--endpoint", "--conn-id", "saved", "--json")
    assert json.loads(counted.stdout)["queue"].startswith(address)
    assert json.loads(counted.stdout)["messages"] == 1
    dropped = with_airflow("drop", address, "--force", "--conn-id", "saved")
    assert dropped.returncode == 0, dropped.stderr


def test_a_connection_of_airflows_database(with_airflow: Callable[..., Done]) -> None:
    name = f"cli.{uuid.uuid4().hex[:10]}"
    done = with_airflow("create", name, "--conn-id", "saved", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["items"][0]["created"] is True


def test_the_named_connection_wins_over_the_environments_url(with_airflow: Callable[..., Done]) -> None:
    done = with_airflow("batches", "--conn-id", "saved", "--json", url=NOWHERE)
    assert (done.returncode, done.stderr) == (0, "")


def test_two_servers_are_one_too_many(with_airflow: Callable[..., Done]) -> None:
    done = with_airflow("batches", "--conn-id", "saved", "--url", NOWHERE)
    assert "one of --url" in one_sentence(done, 2)


def test_an_unknown_connection_is_one_sentence(with_airflow: Callable[..., Done]) -> None:
    done = with_airflow("batches", "--conn-id", "unknown")
    assert "no connection 'unknown'" in one_sentence(done, 2)


def without_password(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    asking = parts._replace(netloc=f"{parts.username}:-@{parts.hostname}:{parts.port}").geturl()
    return asking, unquote(parts.password or "")


def test_a_password_from_the_environment(url: str) -> None:
    asking, password = without_password(url)
    done = sqlqueue("batches", "--url", asking, "--json", SQLQUEUE_PASSWORD=password)
    assert (done.returncode, done.stderr) == (0, "")
    text = f"Server={urlsplit(url).hostname},{urlsplit(url).port};Database=sqlqueue;User ID=sa;Password=-;"
    done = sqlqueue("batches", "--url", text + "TrustServerCertificate=True", "--json", SQLQUEUE_PASSWORD=password)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_password_that_is_asked_for(url: str) -> None:
    asking, password = without_password(url)
    command = [sys.executable, "-m", "airflow_sqlqueue", "batches", "--url", asking, "--json"]
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, command)
    shown = b""
    while b"Password of" not in shown:
        shown += os.read(terminal, 1024)
    os.write(terminal, password.encode() + b"\n")
    try:
        while data := os.read(terminal, 65_536):
            shown += data
    except OSError:  # Linux: the process has ended
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0, shown
    assert b"[" in shown
    assert password.encode() not in shown


def test_nowhere_to_ask_for_a_password(url: str) -> None:
    asking, _ = without_password(url)
    command = [sys.executable, "-m", "airflow_sqlqueue", "batches", "--url", asking]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True, check=False
    )
    assert "set SQLQUEUE_PASSWORD" in one_sentence(done, 2)
