"""The embedded PostgreSQL by itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fakemssql.postgres import Postgres, PostgresError, connect, execute
from support.folders import data_folder


@pytest.fixture
def directory() -> Iterator[Path]:
    with data_folder() as found:
        yield found


@pytest.fixture
def postgres(directory: Path) -> Iterator[Postgres]:
    found = Postgres(directory / "postgres")
    found.start()
    yield found
    found.stop()


def value(postgres: Postgres, statement: str) -> str:
    with connect(postgres.conninfo()) as connection:
        found = execute(connection, statement).get_value(0, 0)
        assert found is not None
        return found.decode()


def test_data_survive_a_stop_and_a_kill(postgres: Postgres) -> None:
    with connect(postgres.conninfo()) as connection:
        execute(connection, "CREATE TABLE kept AS SELECT 42 AS a")
    postgres.stop()
    assert not postgres.running
    postgres.start()
    assert value(postgres, "SELECT a FROM kept") == "42"
    assert postgres.pid is not None
    family = psutil.Process(postgres.pid).children(recursive=True)
    os.kill(postgres.pid, signal.SIGKILL)
    psutil.wait_procs(family, timeout=20)
    postgres.start()
    assert value(postgres, "SELECT a FROM kept") == "42"


def test_a_killed_server_that_its_parent_has_not_reaped_is_not_waited_for(postgres: Postgres) -> None:
    assert postgres.pid is not None
    family = psutil.Process(postgres.pid).children(recursive=True)
    os.kill(postgres.pid, signal.SIGKILL)
    psutil.wait_procs(family, timeout=20)
    assert psutil.Process(postgres.pid).status() == psutil.STATUS_ZOMBIE
    again = Postgres(postgres.directory)
    again.start()
    assert value(again, "SELECT 1") == "1"
    again.stop()
    assert "already exists" not in (postgres.directory.parent / "postgres.log").read_text()


def test_two_servers_share_no_data(postgres: Postgres, directory: Path) -> None:
    other = Postgres(directory / ("long-" * 25) / "postgres")
    other.start()
    try:
        with connect(other.conninfo()) as connection:
            execute(connection, "CREATE TABLE elsewhere ()")
        assert value(postgres, "SELECT count(*) FROM pg_class WHERE relname = 'elsewhere'") == "0"
    finally:
        other.stop()
    assert postgres.running
    assert value(postgres, "SELECT 1") == "1"


def test_settings_and_locale(postgres: Postgres) -> None:
    assert value(postgres, "SHOW fsync") == "off"
    assert value(postgres, "SHOW server_version_num").startswith("18")
    assert value(postgres, "SHOW listen_addresses") == ""
    locale = "SELECT datlocprovider::text || datlocale FROM pg_database WHERE datname = current_database()"
    assert value(postgres, locale) == "bC.UTF-8"


def test_errors_name_what_went_wrong(postgres: Postgres) -> None:
    with pytest.raises(PostgresError), connect(postgres.conninfo("nowhere")):
        pass
    with connect(postgres.conninfo()) as connection, pytest.raises(PostgresError):
        execute(connection, "SELECT nothing")


def test_no_table_is_locked_to_give_its_pages_back(postgres: Postgres) -> None:
    with connect(postgres.conninfo()) as connection:
        execute(connection, "CREATE TABLE emptied AS SELECT generate_series(1, 9999) AS a")
        size = value(postgres, "SELECT pg_relation_size('emptied')")
        execute(connection, "DELETE FROM emptied")
        execute(connection, "VACUUM emptied")
    assert value(postgres, "SELECT pg_relation_size('emptied')") == size != "0"
