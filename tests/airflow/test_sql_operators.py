"""Airflow's own SQL operators on a queue table, through its hook for SQL Server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.providers.common.sql.operators.sql import (
    SQLCheckOperator,
    SQLColumnCheckOperator,
    SQLExecuteQueryOperator,
    SQLTableCheckOperator,
    SQLThresholdCheckOperator,
    SQLValueCheckOperator,
)
from bench_setting import connection_fields

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.server.settings import ConnectionSettings

Context = Callable[..., dict[str, Any]]
IDS = [uuid.UUID(int=number) for number in (1, 2, 3)]


@pytest.fixture
def mssql(connection: Any, server: Any) -> str:
    """A connection for ``MsSqlHook``."""
    settings = ConnectionSettings.from_url(server.url("sqlqueue"))
    return str(connection("mssql", conn_id="mssql_default", **connection_fields(settings)))


@pytest.fixture
def table(hook: SqlQueueHook, queue_name: str) -> Iterator[str]:
    """A queue with three messages, one of them without a body."""
    hook.send(queue_name, [Message({"Kind": "Order"}, b"x" if each != IDS[1] else b"", id=each) for each in IDS])
    return hook.client.resolve(queue_name).qualified_name


def test_checks_of_columns(mssql: str, table: str, context: Context) -> None:
    checks: dict[str, dict[str, Any]] = {
        "Headers": {"null_check": {"equal_to": 0}, "distinct_check": {"equal_to": 1}},
        "Id": {"unique_check": {"equal_to": 0}},
        "RowVersion": {"min": {"geq_to": 1}, "max": {"greater_than": 2}},
        "CorrelationId": {"null_check": {"equal_to": 3}},
    }
    SQLColumnCheckOperator(task_id="t", conn_id=mssql, table=table, column_mapping=checks).execute(context())
    failing = {"CorrelationId": {"null_check": {"equal_to": 0}}}
    where = "RowVersion > 0"
    with pytest.raises(AirflowException, match="The following tests have failed"):
        SQLColumnCheckOperator(
            task_id="t", conn_id=mssql, table=table, column_mapping=failing, partition_clause=where
        ).execute(context())


def test_checks_of_a_table(mssql: str, table: str, context: Context) -> None:
    checks = {
        "three_messages": {"check_statement": "COUNT(*) = 3"},
        "headers_are_json": {"check_statement": "ISJSON(Headers) = 1"},
        "of_one_kind": {
            "check_statement": "JSON_VALUE(Headers, '$.Kind') = 'Order'",
            "partition_clause": "Id IS NOT NULL",
        },
    }
    SQLTableCheckOperator(task_id="t", conn_id=mssql, table=table, checks=checks).execute(context())
    with pytest.raises(AirflowException, match="bodies"):
        SQLTableCheckOperator(
            task_id="t", conn_id=mssql, table=table, checks={"bodies": {"check_statement": "DATALENGTH(Body) > 0"}}
        ).execute(context())


def test_checks_of_values(mssql: str, table: str, context: Context) -> None:
    count = f"SELECT COUNT(*) FROM {table} WITH (READPAST, READCOMMITTEDLOCK)"
    SQLCheckOperator(task_id="t", conn_id=mssql, sql=count).execute(context())
    SQLValueCheckOperator(task_id="t", conn_id=mssql, sql=count, pass_value=3).execute(context())
    SQLThresholdCheckOperator(task_id="t", conn_id=mssql, sql=count, min_threshold=1, max_threshold=3).execute(
        context()
    )
    with pytest.raises(AirflowException, match="Test failed"):
        SQLValueCheckOperator(task_id="t", conn_id=mssql, sql=count, pass_value=4).execute(context())


def test_a_query_receives(mssql: str, table: str, context: Context) -> None:
    receive = f"""WITH m AS (SELECT TOP(1) * FROM {table} WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY RowVersion)
        DELETE FROM m OUTPUT deleted.Id, deleted.Headers, deleted.Body"""
    operator = SQLExecuteQueryOperator(task_id="t", conn_id=mssql, sql=receive, autocommit=True)
    assert [operator.execute(context())[0][0] for _ in IDS] == IDS
    assert operator.execute(context()) == []


def test_a_query_with_parameters_and_several_statements(mssql: str, table: str, context: Context) -> None:
    operator = SQLExecuteQueryOperator(
        task_id="t",
        conn_id=mssql,
        sql=f"DELETE FROM {table} WHERE Id = %(id)s; SELECT COUNT(*) FROM {table} WHERE Headers LIKE %(like)s",
        parameters={"id": str(IDS[0]), "like": "%Order%"},
        split_statements=True,
        return_last=True,
    )
    assert operator.execute(context()) == [(2,)]
