"""An extra that comes as arguments of the hook, as SQL operators of Airflow pass it, is trusted as an extra only."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from airflow.models.connection import Connection as StoredConnection
from airflow.providers.common.compat.sdk import BaseHook
from airflow.providers.common.sql import decorators, operators, sensors, triggers
from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.providers.common.sql.operators.sql import BaseSQLOperator

from airflow_sqlqueue.errors import ConfigurationError, DriverNotFoundError, SqlQueueError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.provider_info import get_provider_info
from tests.forks import fork

CONN_ID = "sqlqueue_default"

_ASKS = {"conn_id": CONN_ID, "sql": "SELECT 1"}
_CHECKS: dict[str, dict[str, Any]] = {
    "SQLCheckOperator": _ASKS,
    "SQLColumnCheckOperator": {
        "conn_id": CONN_ID,
        "table": "t",
        "column_mapping": {"a": {"null_check": {"equal_to": 0}}},
    },
    "SQLTableCheckOperator": {"conn_id": CONN_ID, "table": "t", "checks": {"c": {"check_statement": "COUNT(*) = 1"}}},
    "SQLValueCheckOperator": {**_ASKS, "pass_value": 1},
    "SQLIntervalCheckOperator": {"conn_id": CONN_ID, "table": "t", "metrics_thresholds": {"COUNT(*)": 1}},
    "SQLThresholdCheckOperator": {**_ASKS, "min_threshold": 0, "max_threshold": 1},
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    **_CHECKS,
    "BaseSQLOperator": {"conn_id": CONN_ID},
    "SQLExecuteQueryOperator": _ASKS,
    "_SQLDecoratedOperator": {"conn_id": CONN_ID, "python_callable": lambda: "SELECT 1"},
    "BranchSQLOperator": {**_ASKS, "follow_task_ids_if_true": "a", "follow_task_ids_if_false": "b"},
    "SQLInsertRowsOperator": {"conn_id": CONN_ID, "table_name": "t", "rows": [(1,)], "preoperator": "SELECT 1"},
    "SQLBulkLoadOperator": {"conn_id": CONN_ID, "table": "t", "tmp_file": "f", "preoperator": "SELECT 1"},
    "GenericTransfer": {
        "sql": "SELECT 1",
        "destination_table": "t",
        "source_conn_id": CONN_ID,
        "destination_conn_id": CONN_ID,
    },
    "SqlSensor": _ASKS,
    "SQLExecuteQueryTrigger": _ASKS,
}
"""Arguments of each class of common-sql that makes a hook."""


def makers_of_hooks() -> dict[str, type]:
    """All classes of the installed common-sql that make the hook of a connection, by their names."""
    found = {}
    for package in (operators, sensors, triggers, decorators):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, each in vars(importlib.import_module(module.name)).items():
                makes = hasattr(each, "get_hook") or hasattr(each, "_get_hook")
                if isinstance(each, type) and each.__module__ == module.name and makes:
                    found[name] = each
    return found


def reach_server(made_by: type, context: Any) -> None:
    """Have an operator, a sensor or a trigger of common-sql use its connection."""
    made = made_by(**ARGUMENTS[made_by.__name__], **({} if made_by.__name__.endswith("Trigger") else {"task_id": "t"}))
    if made_by.__name__ == "BaseSQLOperator":
        made.get_db_hook().get_first("SELECT 1")
    elif made_by.__name__ == "SqlSensor":
        made.poke(context)
    elif made_by.__name__ == "SQLExecuteQueryTrigger":
        made.get_hook().get_records(made.sql)
    else:
        made.execute(context)


def test_a_new_class_of_common_sql_is_found() -> None:
    assert makers_of_hooks().keys() - ARGUMENTS.keys() == set()
    assert "SQLExecuteQueryOperator" in makers_of_hooks()


@pytest.fixture
def port() -> Iterator[int]:
    """A port that accepts connections: without one the driver would not be loaded."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listener:
        yield listener.getsockname()[1]


class Library:
    """A file, and whether something has opened it."""

    def __init__(self, path: Path, loaded: Callable[[], bool]) -> None:
        self.path, self.loaded = str(path), loaded


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    """A pipe that someone opens who loads it as a library."""
    path = tmp_path / "libmsodbcsql-evil.so"
    os.mkfifo(path)
    opened = threading.Event()

    def wait() -> None:
        with path.open("wb"):
            opened.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    yield Library(path, opened.is_set)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    waiting.join()  # before the close: a writer that is not yet here would wait for another reader
    os.close(reading)


@pytest.fixture
def evil(library: Library, connection: Any, port: int) -> Library:
    connection(
        host="127.0.0.1", port=port, login="sa", password="p", extra={"driver": library.path, "login_timeout": 1}
    )
    return library


def load(path: str, stored_connection: str) -> None:
    """Work of a process: use the library as the driver of a connection.

    Not of this process: a library that is no driver damages unixODBC's list of drivers where another connection is
    open (source: its SQLConnect.c, what follows IM004), and the next connection would crash or hang.
    """
    os.environ[f"AIRFLOW_CONN_{CONN_ID.upper()}"] = stored_connection
    with pytest.raises(DriverNotFoundError):
        SqlQueueHook(driver=path).get_first("SELECT 1")


def test_the_library_would_tell_of_a_load(library: Library, connection: Any, port: int) -> None:
    connection(host="127.0.0.1", port=port, login="sa", password="p")
    process = fork(load, library.path, os.environ[f"AIRFLOW_CONN_{CONN_ID.upper()}"])
    process.join(120)
    assert process.exitcode == 0
    assert library.loaded()


@pytest.mark.parametrize("made_by", makers_of_hooks().values(), ids=lambda each: each.__name__)
def test_no_class_of_common_sql_loads_the_library_of_an_extra(evil: Library, made_by: type, context: Any) -> None:
    with pytest.raises(ConfigurationError, match="allow_driver_in_extra"):
        reach_server(made_by, context())
    assert not evil.loaded()


def from_environment(hook_params: Mapping[str, Any] | None = None) -> DbApiHook:
    hook: DbApiHook = BaseHook.get_connection(CONN_ID).get_hook(hook_params=hook_params)
    return hook


def stored(hook_params: Mapping[str, Any] | None = None) -> DbApiHook:
    made = StoredConnection.from_json(os.environ[f"AIRFLOW_CONN_{CONN_ID.upper()}"], conn_id=CONN_ID)
    hook: DbApiHook = made.get_hook(hook_params=hook_params)
    return hook


HOOKS: list[Callable[..., Any]] = [
    from_environment,
    stored,
    lambda hook_params=None: SqlQueueHook(**(hook_params or {})),
]


@pytest.mark.filterwarnings("ignore:ProvidersManager.hooks is deprecated")
@pytest.mark.parametrize("as_arguments", [False, True])
@pytest.mark.parametrize("made", HOOKS)
def test_no_hook_loads_the_library_of_an_extra(evil: Library, made: Any, as_arguments: bool) -> None:
    hook = made({"driver": evil.path} if as_arguments else None)
    for use in (hook.get_conn, hook.get_uri, hook.get_sqlalchemy_engine, lambda: hook.get_first("SELECT 1")):
        with pytest.raises(ConfigurationError, match="allow_driver_in_extra"):
            use()
    ok, sentence = hook.test_connection()
    assert (ok, "allow_driver_in_extra" in sentence, evil.loaded()) == (False, True, False)


def test_the_test_button_loads_no_library(evil: Library) -> None:
    ok, sentence = BaseHook.get_connection(CONN_ID).test_connection()
    assert (ok, "allow_driver_in_extra" in sentence, evil.loaded()) == (False, True, False)


@pytest.mark.parametrize(("kind", "key"), [("mssql", "driver"), ("odbc", "driver"), ("odbc", "Driver")])
def test_connections_of_other_types_too(evil: Library, connection: Any, kind: str, key: str, port: int) -> None:
    connection(kind, {key: evil.path}, host="127.0.0.1", port=port, login="sa", password="p")
    for arguments in ({}, {key: evil.path}, {"driver": evil.path}):
        with pytest.raises(ConfigurationError, match="allow_driver_in_extra"):
            SqlQueueHook(**arguments).get_conn()
    assert not evil.loaded()


VALUES: tuple[Any, ...] = ("x", '["a", "b"]', ["a"], {"a": "b"}, 5, True, float("nan"))


def keys_of_an_extra() -> set[str]:
    """The keys that the form, the hook and its base class know."""
    known = set(get_provider_info()["connection-types"][0]["conn-fields"])
    for each in (SqlQueueHook, DbApiHook):
        known |= inspect.signature(each.__init__).parameters.keys()
    known |= {"connection", "insert_statement_format", "placeholder", "connect_kwargs", "access_token_conn_id"}
    # With these two Airflow itself fails, before there is a hook: they are the arguments that it passes.
    return known - {"self", "args", "kwargs", "sqlqueue_conn_id"}


@pytest.mark.parametrize("key", sorted(keys_of_an_extra()))
def test_each_other_key_means_the_same_as_an_argument(connection: Any, key: str) -> None:
    """Whatever an extra has comes out as if the operator had not passed it, or is refused with the same words."""

    def outcome(hook: Any) -> Any:
        try:
            read = hook.queue_connection
        except SqlQueueError as error:
            return type(error), str(error)
        return read, hook.get_uri(), hook.insert_statement_format

    for value in VALUES:
        connection(extra={key: value})
        assert outcome(BaseSQLOperator.get_hook(CONN_ID)) == outcome(SqlQueueHook()), value
