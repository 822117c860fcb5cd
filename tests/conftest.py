"""The server that tests run on: fakemssql, or the one that ``SQLQUEUE_TEST_SERVER`` names."""

from __future__ import annotations

import gc
import os
import uuid
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as examples

from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.tables.create import Definition, queue_definition
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from fakemssql import FakeServer
from tests.scopes import DurationRecorder, ScopeScheduling, known_seconds, longest_first

Connect = Callable[[], Session]

if find_spec("pyspark") is not None:
    from spark_archive import quick_start

    for _name, _value in quick_start().items():
        os.environ.setdefault(_name, _value)


# How fast an example runs is the machine's matter: other processes may have it for a while.
_HEALTHY = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
examples.register_profile("change", max_examples=50, deadline=None, suppress_health_check=_HEALTHY)
examples.register_profile("night", examples.get_profile("change"), max_examples=1_000)
examples.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "change")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Scheduler for ``--dist loadfile``."""
    return ScopeScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("SQLQUEUE_DURATIONS") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(DurationRecorder())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep the format of ``caplog.text``: PySpark makes JSON of each handler that a logger of its own is given."""
    plugin: Any = session.config.pluginmanager.get_plugin("logging-plugin")
    plugin.caplog_handler.setFormatter = lambda formatter: None


def pytest_collection() -> None:
    """Collect no garbage while modules are imported, of which nothing becomes garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep the modules of the tests out of garbage collections, which took a fifth of the time of a test process."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure() -> None:
    """Let Python collect all at its end: extension modules would report what is left as leaks."""
    gc.unfreeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items[:] = [items[number] for number in longest_first([item.nodeid for item in items], known_seconds())]


class Server(Protocol):
    """Server of the tests. Its database ``sqlqueue``, or the one of the URL, exists."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def user(self) -> str: ...
    @property
    def password(self) -> str: ...
    def url(self, database: str = "sqlqueue") -> str: ...
    def odbc_connection_string(
        self, database: str = "sqlqueue", *, encrypt: str = "no", driver: str | None = None
    ) -> str: ...


class RemoteServer:
    """A real SQL Server, from ``mssql://user:password@host:port/database``; its database stands for ``sqlqueue``.

    The URL's query, ODBC keywords, is part of :meth:`url`.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 1433
        self.user, self.password = unquote(parts.username or ""), unquote(parts.password or "")
        self._database = unquote(parts.path.lstrip("/")) or "sqlqueue"
        self._parts = parts

    def _named(self, database: str) -> str:
        return self._database if database == "sqlqueue" else database

    def url(self, database: str = "sqlqueue") -> str:
        return urlunsplit(self._parts._replace(path=f"/{quote(self._named(database), safe='')}"))

    def odbc_connection_string(
        self, database: str = "sqlqueue", *, encrypt: str = "no", driver: str | None = None
    ) -> str:
        keywords = {"Encrypt": encrypt, "TrustServerCertificate": "yes"}
        settings = ConnectionSettings(
            self.host, self._named(database), self.port, self.user, self.password, driver=driver, keywords=keywords
        )
        return settings.odbc_connection_string()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Server shared by all tests of a session; a test uses names of its own."""
    url = os.environ.get("SQLQUEUE_TEST_SERVER")
    if url:
        yield RemoteServer(url)
        return
    with FakeServer(databases=["sqlqueue"]) as fake:
        yield fake


@pytest.fixture(scope="session")
def server_url(server: Any) -> str:
    return str(server.url("sqlqueue"))


@pytest.fixture(scope="session")
def settings(server_url: str) -> ConnectionSettings:
    return ConnectionSettings.from_url(server_url)


@pytest.fixture
def connect(settings: ConnectionSettings) -> Connect:
    return lambda: Session(settings, lock_timeout=10)


@pytest.fixture
def address_of(settings: ConnectionSettings) -> AddressResolver:
    return AddressResolver(default_catalog=settings.database)


@pytest.fixture
def queue_name(connect: Connect, address_of: AddressResolver) -> Iterator[str]:
    """A name that no other test uses; the table is dropped afterwards."""
    name = f"test.{uuid.uuid4().hex[:12]}"
    yield name
    drop = Query("drop", "drop a test's queue", f"DROP TABLE IF EXISTS {address_of.resolve(name).qualified_name}")
    with connect() as session:
        session.run(drop)


def make_tables(session: Session, *definitions: Definition) -> None:
    """Make tables that are not there, without the look that ``create_all`` takes at what is there."""
    for definition in definitions:
        for statement in definition.statements:
            session.run(statement)


def make_queue(session: Session, table: ResolvedAddress, layout: str = "modern") -> QueueTable:
    """Make an empty queue."""
    make_tables(session, queue_definition(table, layout=layout))
    return QueueTable(session, table)


@pytest.fixture
def staging(tmp_path: Path) -> StagingFolder:
    """An empty folder on the disk."""
    return StagingFolder.of(tmp_path / "staging")


@pytest.fixture
def queue(connect: Connect, address_of: AddressResolver, queue_name: str) -> Iterator[QueueTable]:
    """An empty queue through a connection of its own."""
    with connect() as session:
        yield make_queue(session, address_of.resolve(queue_name))
