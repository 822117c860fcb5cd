"""A PostgreSQL of their own for the engine's tests, and sessions on it."""

from __future__ import annotations

import itertools
import os
import select
from collections.abc import Callable, Iterator
from unittest.mock import patch

import pytest

from fakemssql.postgres import Postgres
from fakemssql.server import SNAPSHOT_VARIABLE
from fakemssql.tsql import install
from fakemssql.tsql.engine import Engines
from fakemssql.tsql.parser import batches
from fakemssql.tsql.runtime.requests import SessionEngine
from support.engine_client import Client
from support.folders import data_folder
from support.grammar import MAXDOP
from support.mutants import Noted, disagreements, mutants

NOTED = Noted()

QUEUE = """
CREATE TABLE {0} (
    Id uniqueidentifier NOT NULL, CorrelationId varchar(255), ReplyToAddress varchar(255), Recoverable bit NOT NULL,
    Expires datetime, Headers nvarchar(max) NOT NULL, Body varbinary(max), RowVersion bigint IDENTITY(1,1) NOT NULL);
CREATE NONCLUSTERED INDEX Index_RowVersion ON {0} (RowVersion ASC);
CREATE NONCLUSTERED INDEX Index_Expires ON {0} (Expires) INCLUDE (Id, RowVersion) WHERE Expires IS NOT NULL
"""


@pytest.fixture(scope="session")
def conninfo() -> Iterator[str]:
    with data_folder() as folder:
        postgres = Postgres(folder / "data")
        postgres.start()
        try:
            install.install(postgres.conninfo())
            install.version_reads(postgres.conninfo(), os.environ.get(SNAPSHOT_VARIABLE, "").lower() == "on")
            install.create_database(postgres.conninfo(), "shop")
            install.create_database(postgres.conninfo(), "Other.Catalog")
            yield postgres.conninfo()
        finally:
            postgres.stop()


@pytest.fixture(scope="session")
def engines(conninfo: str) -> Iterator[Engines]:
    """One for all tests: what one session leaves behind on its backend, another test meets."""
    opener = Engines(conninfo)
    yield opener
    opener.close()


@pytest.fixture(scope="session", params=["OFF", "ON"], ids=lambda setting: f"versions {setting}")
def versions(request: pytest.FixtureRequest) -> str:
    """READ_COMMITTED_SNAPSHOT of ``database``."""
    return str(request.param)


@pytest.fixture(scope="session")
def database(engines: Engines, versions: str) -> str:
    """A database with a setting of READ_COMMITTED_SNAPSHOT; it allows SNAPSHOT. No test changes that."""
    engine = engines.open("shop", "sa", _readable)
    name = _database(Client(engine), versions)
    Client(engine).ok(f"ALTER DATABASE {name} SET ALLOW_SNAPSHOT_ISOLATION ON")
    engine.close()
    return name


@pytest.fixture
def numbers(client: Client, database: str, table: str) -> str:
    """A table of ``database`` with the keys 1 to 3 in column k and 0 in column v."""
    name = f"{database}.dbo.{table}"
    client.ok(f"CREATE TABLE {name} (k int NOT NULL PRIMARY KEY, v int); INSERT {name} VALUES (1, 0), (2, 0), (3, 0)")
    return name


@pytest.fixture(scope="module", autouse=True)
def _as_the_grammar_has_it() -> Iterator[None]:
    """What the tests of a module have fakemssql accept, Microsoft's grammar accepts as well, and mutants of it alike.

    Mutants are made where FAKEMSSQL_MUTANTS says how many for each module: their texts depend on the tests that ran.
    """
    with patch.object(batches, "parse", NOTED.parse):
        yield
    texts = NOTED.take()
    if MAXDOP is None:
        return
    seed = int(os.environ.get("FAKEMSSQL_MUTANTS_SEED", "16"))
    changed = mutants(texts, int(os.environ.get("FAKEMSSQL_MUTANTS", "0")), seed) if texts else []
    assert "\n\n".join(disagreements(texts + changed)) == ""


@pytest.fixture
def connect(engines: Engines) -> Iterator[Callable[..., Client]]:
    """Open sessions, of the administrator or of a login with a password; all are closed in the end."""
    opened: list[SessionEngine] = []

    def make(login: str = "sa", password: str | None = None, database: str = "shop") -> Client:
        engine = engines.open(database, login, _readable, password)
        opened.append(engine)
        return Client(engine)

    yield make
    for engine in opened:
        engine.close()


def _readable(fd: int) -> None:
    select.select([fd], [], [])


@pytest.fixture
def client(connect: Callable[[], Client]) -> Client:
    return connect()


_numbers = itertools.count(1)


@pytest.fixture
def queue(client: Client) -> str:
    """An empty queue table with a dot and a bracket in its name; the name comes quoted."""
    name = f"[dbo].[queue.{next(_numbers)}]]x]"
    client.ok(QUEUE.format(name))
    return name


@pytest.fixture
def locking(client: Client) -> str:
    """A database in which READ_COMMITTED_SNAPSHOT is OFF."""
    return _database(client, "OFF")


@pytest.fixture
def without_versions(client: Client) -> Iterator[None]:
    """READ_COMMITTED_SNAPSHOT OFF in the database that is common to the tests, for statements that need it so."""
    client.ok("ALTER DATABASE shop SET READ_COMMITTED_SNAPSHOT OFF")
    yield
    default = client.value("SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = 'model'")
    client.ok(f"ALTER DATABASE shop SET READ_COMMITTED_SNAPSHOT {'ON' if default else 'OFF'}")


@pytest.fixture
def versioned(client: Client) -> str:
    """A database in which READ_COMMITTED_SNAPSHOT is ON."""
    return _database(client, "ON")


def _database(client: Client, setting: str) -> str:
    name = f"d{next(_numbers)}"
    client.ok(f"CREATE DATABASE {name}; ALTER DATABASE {name} SET READ_COMMITTED_SNAPSHOT {setting}")
    return name


@pytest.fixture
def table() -> str:
    """The name of a table that is not there."""
    return f"t{next(_numbers)}"
