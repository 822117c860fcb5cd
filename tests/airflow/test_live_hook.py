"""The hook on a server, over ODBC."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from airflow_sqlqueue.errors import BatchError, LoginFailedError, QueueNotFoundError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.provider_info import get_provider_info
from airflow_sqlqueue.queue import Depth, MessageFilter, PurgeOptions
from fakemssql import FakeServer


def test_the_connection_test_passes_in_one_sentence(hook: SqlQueueHook) -> None:
    settings = hook.queue_connection.settings
    answer = f"SQL Server at {settings.host}:{settings.port} answers, database {settings.database!r}."
    assert hook.test_connection() == (True, answer)


def test_an_untrusted_certificate_names_the_switch_of_the_form(server: Any, connection: Any) -> None:
    if not isinstance(server, FakeServer):
        pytest.skip("a real server's certificate may be trusted")
    conn_id = connection(host=server.host, port=server.port, login=server.user, password=server.password)
    ok, sentence = SqlQueueHook(conn_id).test_connection()
    assert not ok
    field = get_provider_info()["connection-types"][0]["conn-fields"]["trust_server_certificate"]
    assert f"switch on {field['label']!r} in the Airflow connection" in sentence


def test_a_refused_login_names_its_connection(live: str, monkeypatch: Any) -> None:
    values = json.loads(os.environ["AIRFLOW_CONN_SQLQUEUE_DEFAULT"])
    monkeypatch.setenv("AIRFLOW_CONN_WRONG", json.dumps({**values, "password": "wr0ng"}))
    for use in (lambda hook: hook.depth("audit"), lambda hook: hook.get_first("SELECT 1")):
        with pytest.raises(
            LoginFailedError, match=r"refused the login '.*' of the connection 'wrong' for the database"
        ):
            use(SqlQueueHook("wrong"))


def test_a_connection_without_a_login_says_so(live: str, monkeypatch: Any) -> None:
    values = json.loads(os.environ["AIRFLOW_CONN_SQLQUEUE_DEFAULT"])
    monkeypatch.setenv("AIRFLOW_CONN_WRONG", json.dumps({**values, "login": None, "password": None}))
    with pytest.raises(LoginFailedError, match="refused a login without a name of the connection 'wrong'"):
        SqlQueueHook("wrong").depth("audit")


def test_airflows_command_line_tests_the_connection(live: str, airflow: Any) -> None:
    assert "success" in airflow("connections", "test", live).lower()


def test_plain_sql_works_as_with_any_database_hook(hook: SqlQueueHook) -> None:
    assert hook.get_first("SELECT CAST(? AS varbinary(max)), 2", parameters=(b"\x00\xff",)) == (b"\x00\xff", 2)
    assert hook.get_records("SELECT 1") == [(1,)]
    assert type(hook.get_records("SELECT 1")[0]) is tuple


def test_parameters_of_plain_sql_are_in_no_lineage_and_no_log(live: str, capfd: pytest.CaptureFixture[str]) -> None:
    hook = SqlQueueHook(log_sql=True)
    where = "airflow.providers.common.sql.hooks.lineage.get_hook_lineage_collector"
    with mock.patch(where) as collector:
        assert hook.get_first("SELECT ?, 2", parameters=("s3cret",)) == ("s3cret", 2)
        assert hook.get_first("SELECT ?, 2", parameters=["s3cret"]) == ("s3cret", 2)
    add_extra = collector.return_value.add_extra
    assert add_extra.call_count == 2
    assert "SELECT ?" in str(add_extra.call_args_list)
    assert "s3cret" not in str(add_extra.call_args_list)
    logged = "".join(capfd.readouterr())
    assert "Running statement: SELECT ?" in logged
    assert "s3cret" not in logged


def test_the_hooks_connection_commits_by_its_autocommit_setting(hook: SqlQueueHook, queue_name: str) -> None:
    table = hook.client.resolve(queue_name).qualified_name
    insert = f"INSERT INTO {table} ([Id], [Recoverable], [Headers], [Body]) VALUES (?, 1, '', ?)"
    connection = hook.get_conn()
    assert not hook.get_autocommit(connection)
    connection.execute(insert, str(uuid.uuid4()), b"undone")
    connection.rollback()
    hook.set_autocommit(connection, True)
    assert hook.get_autocommit(connection)
    connection.execute(insert, str(uuid.uuid4()), b"kept")
    connection.close()
    assert [message.body for message in hook.receive(queue_name, 10)] == [b"kept"]


def test_a_queues_life(hook: SqlQueueHook) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    with pytest.raises(QueueNotFoundError):
        hook.depth(name)
    assert hook.create_queue(name, ledger=True)[0].made
    assert not hook.create_queue(name)[0].made
    assert hook.client.tables.inspect(name).layout.names[0] == "modern"
    assert name in [examination.layout.table.table for examination in hook.client.tables.inspect_all()]
    expiring = Message({"n": "2"}, b"2", timedelta(milliseconds=-1))
    assert hook.send(name, [Message({"n": "1"}, b"1"), expiring, Message({"n": "3"}, b"3")]) == 3
    assert hook.depth(name) == Depth(messages=2, expired=1)
    assert [message.body for message in hook.client.queue(name).peek()] == [b"1", b"2", b"3"]
    assert hook.purge(name, PurgeOptions(dry_run=True)).remaining == 1
    assert hook.purge(name).deleted == 1
    assert [message.body for message in hook.receive(name, 5)] == [b"1", b"3"]
    assert hook.depth(name) == Depth(0, 0)
    assert hook.client.tables.drop(name) == 0
    with pytest.raises(QueueNotFoundError):
        hook.depth(name)


def test_an_old_queue_is_mended(hook: SqlQueueHook) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    hook.create_queue(name, layout="v1")
    codes = [finding.code for finding in hook.client.tables.inspect(name).findings]
    assert codes == ["headers-not-unicode", "expires-index-missing"]
    assert hook.client.tables.fix(name, codes[1]).code == codes[1]
    assert [finding.code for finding in hook.client.tables.inspect(name).findings] == codes[:1]


def test_messages_are_searched_and_received_one_by_one(hook: SqlQueueHook, queue_name: str) -> None:
    numbers = hook.client.queue(queue_name).send_numbered([Message({"n": f"{n}"}, b"%d" % n) for n in range(5)])
    assert [head.row_version for head in hook.client.queue(queue_name).browse(2, after=numbers[0])] == numbers[1:3]
    assert [message.body for message in hook.client.queue(queue_name).peek(1, after=numbers[3])] == [b"4"]
    where = MessageFilter(headers={"n": "3"})
    (found,) = hook.client.queue(queue_name).find(where)
    assert [message.body for message in hook.client.queue(queue_name).take(ids=[found.id])] == [b"3"]
    assert hook.receive(queue_name, 5, where=where) == []
    assert [message.body for message in hook.client.queue(queue_name).take(numbers[:2])] == [b"0", b"1"]
    assert hook.depth(queue_name, kind="catalog").messages == 2


def test_the_backlog_finds_the_table_of_delayed_messages(hook: SqlQueueHook) -> None:
    name = f"test.{uuid.uuid4().hex[:12]}"
    hook.create_queue(name, delayed=True)
    hook.send(name, [Message()])
    backlog = hook.client.queue(name).backlog(kind="quick")
    assert (backlog.depth.messages, backlog.delayed, backlog.inserted) == (1, 0, 1)
    hook.client.tables.drop(f"{name}.Delayed")
    assert hook.client.queue(name).backlog().delayed is None
    hook.client.tables.drop(name, force=True)


def test_secondary_queues_are_found_by_name(hook: SqlQueueHook, queue_name: str) -> None:
    hook.create_queue(f"{queue_name}.WEB01")
    addresses = [hook.client.resolve(name).canonical for name in (queue_name, f"{queue_name}.WEB01")]
    assert hook.client.tables.with_secondary_queues(queue_name) == addresses


def test_an_address_with_a_machine_name(hook: SqlQueueHook, queue_name: str) -> None:
    assert hook.send(f"{queue_name}@WEB01", [Message(body=b"x")]) == 1
    assert hook.client.find(f"{queue_name}@WEB01") == hook.client.resolve(queue_name)
    assert hook.depth(queue_name).messages == 1


def test_a_send_is_all_or_nothing(hook: SqlQueueHook, queue_name: str) -> None:
    def messages() -> Any:
        yield from (Message({}, b"x") for _ in range(200))
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        hook.send(queue_name, messages())
    assert hook.depth(queue_name).messages == 0


def test_a_batch_is_drained_found_and_consumed(hook: SqlQueueHook, queue_name: str, tmp_path: Path) -> None:
    hook.send(queue_name, [Message({}, b"x")] * 5)
    batch = hook.drain(queue_name, tmp_path).batch
    assert (batch.state, batch.messages, batch.parts) == ("sealed", 5, 1)
    batch_id = uuid.UUID(batch.batch_id)
    assert hook.client.batches.get(batch_id) == hook.client.batches.get(batch_id, queue_name) == batch
    hook.client.batches.mark_consumed(batch)
    hook.client.batches.mark_consumed(batch)
    assert hook.client.batches.get(batch_id).state == "consumed"


def test_a_manifest_that_the_ledger_contradicts_is_not_consumed(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path
) -> None:
    hook.send(queue_name, [Message({}, b"x")] * 5)
    batch = hook.drain(queue_name, tmp_path).batch
    with pytest.raises(BatchError, match="cannot be marked consumed"):
        hook.client.batches.mark_consumed(replace(batch, messages=4))
