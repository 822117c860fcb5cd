"""Installation of the engine's functions, metadata tables and system views in a PostgreSQL database."""

from __future__ import annotations

from contextlib import closing
from importlib.resources import files

from fakemssql.tsql.definitions.databases import create_database as _create
from fakemssql.tsql.names import fold
from fakemssql.tsql.pg import Pg
from fakemssql.tsql.runtime.connection import activity

SCRIPTS = (
    "10_values.sql",
    "20_dates.sql",
    "30_catalog.sql",
    "40_functions.sql",
    "50_views.sql",
    "55_storage.sql",
    "60_sessions.sql",
    "70_security.sql",
)
_LONGEST_NAME = 128


def _wait(fd: int) -> None:
    """Do not wait: the installation blocks in libpq and cannot be cancelled."""


def _opened(conninfo: str) -> closing[Pg]:
    return closing(Pg(conninfo, _wait))


def install(conninfo: str) -> None:
    """Install the engine in the database of ``conninfo`` if it is not there, with master, tempdb, model and msdb."""
    with _opened(conninfo) as pg:
        pg.execute("SELECT pg_advisory_lock(7146313)")
        activity.clear(pg)
        if pg.query("SELECT 1 FROM pg_namespace WHERE nspname = 'mssql'"):
            return
        pg.conn.exit_pipeline_mode()
        folder = files("fakemssql.tsql") / "sql"
        text = "\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)
        result = pg.conn.exec_(f"BEGIN;{text};COMMIT".encode())
        if result.status not in (1, 2):
            raise RuntimeError("installing the catalog: " + result.error_message.decode(errors="replace"))
        pg.conn.enter_pipeline_mode()
        for number, name in enumerate(("master", "tempdb", "model", "msdb"), 1):
            _create(pg.execute, lambda sql: str(pg.query(sql)[0][0]), name, number)


def name_administrator(conninfo: str, name: str) -> None:
    """Name the login of the command line. Raises :class:`ValueError` if CREATE LOGIN has created that name."""
    with _opened(conninfo) as pg:
        if pg.query("SELECT 1 FROM mssql.logins WHERE folded = $1 AND principal_id <> 1", fold(name)):
            raise ValueError(f"the login {name!r} exists already: choose another --user")
        pg.query("UPDATE mssql.logins SET name = $1, folded = $2 WHERE principal_id = 1", name, fold(name))


def version_reads(conninfo: str, on: bool) -> None:
    """Set READ_COMMITTED_SNAPSHOT and ALLOW_SNAPSHOT_ISOLATION of databases that are created from now on.

    Both are ON in Azure SQL Database and OFF on a newly installed SQL Server.
    """
    with _opened(conninfo) as pg:
        pg.query(
            "UPDATE mssql.databases SET read_committed_snapshot = $1::smallint, snapshot_isolation = $1::smallint"
            " WHERE folded = 'model'",
            int(on),
        )


def create_database(conninfo: str, name: str) -> None:
    """Create the SQL Server database ``name`` if it does not exist.

    Raises :class:`ValueError` for a name that SQL Server refuses.
    """
    if not name.strip() or "\0" in name or len(name.encode("utf-16-le", "surrogatepass")) > 2 * _LONGEST_NAME:
        raise ValueError(f"the name of a database has 1 to {_LONGEST_NAME} characters and no NUL")
    with _opened(conninfo) as pg:
        pg.execute("BEGIN")
        pg.execute("LOCK TABLE mssql.databases IN SHARE ROW EXCLUSIVE MODE")
        if not pg.query("SELECT 1 FROM mssql.databases WHERE folded = $1", fold(name)):
            _create(pg.execute, lambda sql: str(pg.query(sql)[0][0]), name)
        pg.execute("NOTIFY mssql_catalog")
        pg.execute("COMMIT")
