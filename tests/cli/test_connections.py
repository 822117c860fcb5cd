"""How a command finds its server: a connection of Airflow's database, a password that is not in the URL."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import uuid
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.cli.runner import one_sentence, sqlqueue

ENDPOINT = f"Shipping.{uuid.uuid4().hex[:10]}"
SET_UP = """
import sys
from airflow.__main__ import main

connection = sys.argv[1]
for arguments in (["db", "migrate"], ["connections", "add", "saved", "--conn-json", connection]):
    sys.argv[1:] = arguments
    main()
"""
NOWHERE = "mssql://sa:x@127.0.0.1:1/nowhere"


@pytest.fixture(scope="module")
def url(server: Any) -> str:
    return str(server.url("sqlqueue"))


@pytest.fixture(scope="module")
def airflow(url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of an Airflow of its own, whose database has the connection ``saved``."""
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
    done = subprocess.run(
        [sys.executable, "-c", SET_UP, json.dumps(fields)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return variables


def test_an_endpoint_is_routed_by_the_connections_settings(airflow: dict[str, str]) -> None:
    address = f"{ENDPOINT}@[shipping]"
    made = sqlqueue("create", address, "--create-schema", "--conn-id", "saved", **airflow)
    assert made.returncode == 0, made.stderr
    sent = sqlqueue("send", ENDPOINT, "--endpoint", "--type", "Order", "--conn-id", "saved", **airflow)
    assert sent.returncode == 0, sent.stderr
    counted = sqlqueue("depth", ENDPOINT, "--endpoint", "--conn-id", "saved", "--json", **airflow)
    assert json.loads(counted.stdout)["queue"].startswith(address)
    assert json.loads(counted.stdout)["messages"] == 1
    dropped = sqlqueue("drop", address, "--force", "--conn-id", "saved", **airflow)
    assert dropped.returncode == 0, dropped.stderr


def test_a_connection_of_airflows_database(url: str, airflow: dict[str, str]) -> None:
    name = f"cli.{uuid.uuid4().hex[:10]}"
    done = sqlqueue("create", name, "--conn-id", "saved", "--json", **airflow)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["created"] is True


def test_the_named_connection_wins_over_the_environments_url(airflow: dict[str, str]) -> None:
    done = sqlqueue("batches", "--conn-id", "saved", "--json", url=NOWHERE, **airflow)
    assert (done.returncode, done.stderr) == (0, "")


def test_two_servers_are_one_too_many(airflow: dict[str, str]) -> None:
    done = sqlqueue("batches", "--conn-id", "saved", "--url", NOWHERE, **airflow)
    assert "one of --url" in one_sentence(done, 2)


def test_an_unknown_connection_is_one_sentence(airflow: dict[str, str]) -> None:
    done = sqlqueue("batches", "--conn-id", "unknown", **airflow)
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
