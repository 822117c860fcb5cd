"""SQLAlchemy's mssql dialect reflects a queue table."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mssql
from sqlalchemy.pool import NullPool

from support import transport
from support.servers import Server


@pytest.fixture
def engine(server: Server) -> Iterator[sa.Engine]:
    url = sa.URL.create("mssql+pyodbc", query={"odbc_connect": server.odbc_connection_string()})
    engine = sa.create_engine(url, poolclass=NullPool)
    yield engine
    engine.dispose()


@pytest.fixture
def queue(engine: sa.Engine) -> Iterator[sa.Table]:
    name = f"q_{uuid.uuid4().hex[:12]}"
    body_string = "[BodyString] AS CAST([Body] AS nvarchar(max)),"
    filled = transport.CREATE.format(
        f"[dbo].[{name}]", "", name, "nvarchar(max)", "CLUSTERED", body_string, "WHERE [Expires] IS NOT NULL"
    )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(filled)
        try:
            yield sa.Table(name, sa.MetaData(), schema="dbo", autoload_with=engine)
        finally:
            connection.exec_driver_sql(f"DROP TABLE [dbo].[{name}]")


def test_a_queue_table_is_reflected(engine: sa.Engine, queue: sa.Table) -> None:
    assert {column.name: (str(column.type), column.nullable) for column in queue.columns if not column.computed} == {
        "Id": ("UNIQUEIDENTIFIER", False),
        "CorrelationId": ('VARCHAR(255) COLLATE "SQL_Latin1_General_CP1_CI_AS"', True),
        "ReplyToAddress": ('VARCHAR(255) COLLATE "SQL_Latin1_General_CP1_CI_AS"', True),
        "Recoverable": ("BIT", False),
        "Expires": ("DATETIME", True),
        "Headers": ('NVARCHAR COLLATE "SQL_Latin1_General_CP1_CI_AS"', False),
        "Body": ("VARBINARY", True),
        "RowVersion": ("BIGINT", False),
    }
    assert queue.c.Body.type.length is None or queue.c.Body.type.length == "max"
    identity, computed = queue.c.RowVersion.identity, queue.c.BodyString.computed
    assert identity is not None
    assert (identity.start, identity.increment) == (1, 1)
    assert computed is not None
    assert "[Body]" in str(computed.sqltext)
    assert (list(queue.primary_key), list(queue.foreign_keys)) == ([], [])
    indexes = {index["name"]: index for index in sa.inspect(engine).get_indexes(queue.name, schema="dbo")}
    found = {
        name: (index["column_names"], index["unique"], index["dialect_options"].get("mssql_include"))
        for name, index in indexes.items()
    }
    assert found == {
        "Index_RowVersion": (["RowVersion"], False, []),
        "Index_Expires": (["Expires"], False, ["Id", "RowVersion"]),
    }
    assert indexes["Index_RowVersion"]["dialect_options"]["mssql_clustered"] is True
    assert "[Expires] IS NOT NULL" in str(indexes["Index_Expires"]["dialect_options"]["mssql_where"])


def test_a_reflected_queue_sends_and_receives(engine: sa.Engine, queue: sa.Table) -> None:
    written = [queue.c.Id, queue.c.Recoverable, queue.c.Headers, queue.c.Body]
    ids = [uuid.uuid4() for _ in range(3)]
    with engine.begin() as connection:
        rows = [{"Id": each, "Recoverable": True, "Headers": '{"a": "Ω"}', "Body": bytes(3)} for each in ids]
        connection.execute(queue.insert(), rows)
    with engine.connect() as first, engine.connect() as second:
        oldest = sa.select(queue.c.RowVersion).order_by(queue.c.RowVersion).limit(1)
        hinted = oldest.with_hint(queue, "WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)", "mssql")
        receive = queue.delete().where(queue.c.RowVersion == hinted.scalar_subquery()).returning(*written)
        held, other = first.execute(receive).one(), second.execute(receive).one()
        assert (held.Id, other.Id) == (ids[0], ids[1])
        first.rollback()
        second.commit()
        left = sa.select(queue.c.Id).order_by(queue.c.RowVersion)
        assert first.scalars(left).all() == [ids[0], ids[2]]


def test_the_isolation_level_is_found(engine: sa.Engine) -> None:
    """It is read from the view of sessions that sys.system_views names."""
    with engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
        assert connection.get_isolation_level() == "SERIALIZABLE"
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "READ COMMITTED"
        views = "SELECT SCHEMA_NAME(schema_id) + '.' + name FROM sys.system_views WHERE name IN ('TABLES', 'objects')"
        assert set(connection.exec_driver_sql(views).scalars()) >= {"INFORMATION_SCHEMA.TABLES", "sys.objects"}


def test_a_table_made_by_the_dialect_comes_back(engine: sa.Engine) -> None:
    metadata = sa.MetaData()
    name = f"t_{uuid.uuid4().hex[:12]}"
    made = sa.Table(
        name,
        metadata,
        sa.Column("Id", sa.Integer, sa.Identity(start=10, increment=5), primary_key=True),
        sa.Column("Text", mssql.NVARCHAR(40), nullable=False, unique=True),
        sa.Column("At", mssql.DATETIME2(3), server_default=sa.text("SYSUTCDATETIME()")),
        schema="dbo",
    )
    made.create(engine)
    found = sa.Table(name, sa.MetaData(), schema="dbo", autoload_with=engine)
    try:
        assert [column.name for column in found.primary_key] == ["Id"]
        assert found.c.Id.identity is not None
        assert found.c.Id.identity.start == 10
        assert isinstance(found.c.At.type, mssql.DATETIME2)
        assert "sysutcdatetime" in str(found.c.At.server_default.arg).lower()  # type: ignore[union-attr]
        with pytest.raises(sa.exc.IntegrityError), engine.begin() as connection:
            connection.execute(found.insert(), [{"Text": "twice"}, {"Text": "twice"}])
    finally:
        found.drop(engine)
    assert not sa.inspect(engine).has_table(name, schema="dbo")
