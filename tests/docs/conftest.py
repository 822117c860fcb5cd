"""A server's database for each page of the manual, and Airflow as in tests/airflow."""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from bench_setting import connection_fields

# Airflow reads these when it is first imported; tests/airflow has homes of its own.
if "AIRFLOW_HOME" not in os.environ:
    HOME = Path(tempfile.mkdtemp(prefix="sqlqueue-docs-"))
    atexit.register(shutil.rmtree, HOME, ignore_errors=True)
    os.environ.update(
        AIRFLOW_HOME=str(HOME),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__UNIT_TEST_MODE="True",
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{HOME}/airflow.db",
    )

# It logs when the interpreter ends, to streams that pytest has closed by then.
logging.getLogger("py4j").setLevel(logging.WARNING)


@pytest.fixture
def database(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], str]:
    """Makes an empty database of that name; ``SQLQUEUE_URL`` and ``sqlqueue_default`` lead there. Returns the URL."""

    def make(name: str) -> str:
        from airflow_sqlqueue import QueueClient

        QueueClient(settings).run_sql(f"DROP DATABASE IF EXISTS [{name}]; CREATE DATABASE [{name}]")
        login = f"{quote(settings.user, safe='')}:{quote(settings.password, safe='')}"
        options = "Encrypt=yes&TrustServerCertificate=yes"
        url = f"mssql://{login}@{settings.host}:{settings.port}/{name}?{options}"
        values = {
            "conn_type": "sqlqueue",
            **connection_fields(settings),
            "schema": name,
            "extra": {"encrypt": "yes", "trust_server_certificate": True},
        }
        monkeypatch.setenv("SQLQUEUE_URL", url)
        monkeypatch.setenv("AIRFLOW_CONN_SQLQUEUE_DEFAULT", json.dumps(values))
        monkeypatch.chdir(tmp_path)
        return url

    return make
