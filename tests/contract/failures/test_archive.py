"""The archive of failed messages on any server: what it keeps, how messages come back, and when they go."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import (
    ConfigurationError,
    DataMovedError,
    MessageNotFoundError,
    QueueNotFoundError,
    TransactionError,
)
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.queue.errors.archive import MAX_REASON
from airflow_sqlqueue.queue.errors.bulk_action import ErrorQueueOptions, ErrorQueueResult
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query
from tests.contract.conftest import Connect, run_sql
from tests.contract.return_to_source.conftest import failed

ALL = {"all_messages": True}


def bodies(client: QueueClient, name: str = "error") -> list[bytes]:
    return [message.body for message in client.queue(name).peek(500)]


@pytest.mark.parametrize("layout", ["v1", "modern"])
def test_a_message_comes_back_as_it_was(settings: object, client: QueueClient, session: Session, layout: str) -> None:
    name = f"errors.{layout}"
    client.tables.create(name, layout=layout)
    sent = [failed("Sales", b"%d" % n) for n in range(150)]
    poison = Message("{poison" + "é" * 10, b"\x00")
    client.queue(name).send([*sent, poison])
    before = client.queue(name).peek(200)
    done = client.errors.archive(name, **ALL, reason="known fault", by="anna")
    assert (done.messages, done.left, done.complete, done.unseen) == (151, {}, True, 0)
    assert client.queue(name).depth().total == 0
    back = client.errors.archived.restore(name, **ALL)
    assert (back.messages, back.left, back.complete, back.unseen) == (151, {}, True, 0)
    after = client.queue(name).peek(200)
    # A restored message does not expire: a purge would delete it behind the back of who restored it.
    assert [(m.id, m.headers, m.body, m.correlation_id, m.reply_to_address, m.recoverable) for m in after] == [
        (m.id, m.headers, m.body, m.correlation_id, m.reply_to_address, m.recoverable) for m in before
    ]
    assert {m.expires for m in after} == {None}
    assert min(m.row_version for m in after) > max(m.row_version for m in before)
    assert client.errors.archived.triage(name).matched == 0
    client.tables.drop(name, force=True)


def test_person_time_and_reason_are_kept(client: QueueClient) -> None:
    client.queue("error").send([failed("Sales"), failed("Billing")])
    client.errors.archive(filters={"failed_queue": "Sales"}, reason="bad card", by="anna")
    client.errors.archive(filters={"failed_queue": "Billing"})
    for key in ("reason", "archived_by"):
        with pytest.raises(ConfigurationError, match=f"Only archived messages have '{key}': group these by another"):
            client.errors.triage(by=["kind", key])
    found = client.errors.archived.triage(by=["archived_by", "reason"])
    assert [(group.values["reason"], group.messages) for group in found.groups] == [("bad card", 1), ("", 1)]
    assert found.groups[0].values["archived_by"] == "anna"
    by = found.groups[1].values["archived_by"]
    assert by is not None
    assert "@" in by
    shown = client.errors.archived.show(number=found.groups[0].example, with_body=True)
    assert shown.body == b"\x00\xff"
    assert shown.message.archived is not None
    assert shown.message.archived.reason == "bad card"
    described = shown.message.to_dict()
    assert (described["archived_by"], described["reason"]) == ("anna", "bad card")
    ((now,),) = client.run_sql("SELECT SYSUTCDATETIME()")
    assert timedelta(0) <= now.replace(tzinfo=timezone.utc) - shown.message.archived.at < timedelta(minutes=1)
    with pytest.raises(MessageNotFoundError, match="No message 999999"):
        client.errors.archived.show(number=999999)


def test_the_archive_knows_how_large_a_message_is(client: QueueClient, session: Session) -> None:
    queue = client.queue("error")
    queue.send([failed("Sales", b"12345"), failed("Billing", b"")])
    table = client.resolve("error").qualified_name
    run_sql(session, f"UPDATE {table} SET [Body] = NULL WHERE DATALENGTH([Body]) = 0")
    client.errors.archive(**ALL)
    groups = client.errors.archived.triage(by=["failed_queue"]).groups
    shown = {each.values["failed_queue"]: client.errors.archived.show(number=each.example).message for each in groups}
    assert {name: message.body_bytes for name, message in shown.items()} == {"Sales": 5, "Billing": 0}
    assert all(message.size > message.body_bytes + 100 for message in shown.values()), "with their headers"


def test_a_filter_chooses_and_limits_stop(client: QueueClient) -> None:
    client.queue("error").send(failed("Sales" if n % 2 else "Billing", b"%d" % n) for n in range(20))
    seen: list[int] = []

    def note(done: ErrorQueueResult) -> None:
        seen.append(done.messages)

    options = ErrorQueueOptions(max_messages=5, rows_per_transaction=2)
    some = client.errors.archive(filters={"failed_queue": "Sales"}, options=options, on_progress=note)
    assert (some.messages, some.complete, seen) == (5, False, [2, 4, 5])
    numbers = client.errors.archived.triage(by=["failed_queue"])
    assert (numbers.matched, numbers.groups[0].values) == (5, {"failed_queue": "Sales"})
    first = client.errors.archived.restore(**ALL, options=ErrorQueueOptions(max_messages=2))
    assert (first.messages, first.complete) == (2, False)
    # The oldest were archived and restored first.
    assert bodies(client)[-2:] == [b"1", b"3"]
    number = client.errors.archived.triage().groups[0].example
    named = client.errors.archived.restore(filters={"row_versions": [number, 10**9]})
    assert (named.messages, named.left) == (1, {"not there, or locked by others": 1})


def test_a_dry_run_changes_nothing_and_makes_no_table(client: QueueClient, session: Session, schema: str) -> None:
    client.queue("error").send([failed("Sales")] * 3)
    plan = client.errors.archive(**ALL, options=ErrorQueueOptions(dry_run=True))
    assert (plan.messages, plan.dry_run) == (3, True)
    assert run_sql(session, f"SELECT OBJECT_ID('[{schema}].[Archive]')")[0][0] is None
    assert client.errors.archived.triage().groups == ()
    assert client.errors.archived.restore(**ALL).messages == 0
    client.errors.archive(**ALL)
    for plan in (
        client.errors.archived.restore(**ALL, options=ErrorQueueOptions(dry_run=True)),
        client.errors.archived.delete(**ALL, options=ErrorQueueOptions(dry_run=True)),
    ):
        assert (plan.messages, plan.complete) == (3, True)
    assert client.errors.archived.triage().matched == 3


def test_retention_deletes_what_is_old_enough(client: QueueClient, session: Session, schema: str) -> None:
    client.queue("error").send(failed("Sales", b"%d" % n) for n in range(4))
    client.errors.archive(**ALL)
    run_sql(
        session,
        f"UPDATE [{schema}].[Archive] SET [ArchivedAt] = DATEADD(day, -31, [ArchivedAt]) WHERE [ArchiveId] % 2 = 0",
    )
    month = timedelta(days=30)
    with pytest.raises(ConfigurationError, match="confirm"):
        client.errors.archived.delete(older_than=month)
    with pytest.raises(ConfigurationError, match="choose one"):
        client.errors.archived.delete(older_than=month, all_messages=True, confirm=True)
    with pytest.raises(ConfigurationError, match="below zero"):
        client.errors.archived.delete(older_than=-month, confirm=True)
    with pytest.raises(ConfigurationError, match="which messages"):
        client.errors.archived.delete(confirm=True)
    assert client.errors.archived.delete(older_than=timedelta.max, confirm=True).messages == 0
    none = client.errors.archived.delete(older_than=month, filters={"failed_queue": "Billing"}, confirm=True)
    done = client.errors.archived.delete(older_than=month, confirm=True)
    assert (none.messages, done.messages, done.complete, done.unseen) == (0, 2, True, 0)
    assert client.errors.archived.triage().matched == 2
    assert client.errors.archived.delete(older_than=timedelta(0), confirm=True).messages == 2


def test_no_row_version_at_all_is_no_message(client: QueueClient) -> None:
    """In an empty queue as well."""
    assert client.errors.archive(filters={"row_versions": []}).to_dict()["left"] == {}
    client.queue("error").send([failed("Sales")])
    assert client.errors.archive(filters={"row_versions": []}).messages == 0


def test_locked_messages_stay_where_they_are(client: QueueClient, connect: Connect, schema: str) -> None:
    client.queue("error").send(failed("Sales", b"%d" % n) for n in range(4))
    with connect() as other, other.transaction():
        run_sql(other, f"UPDATE TOP (1) [{schema}].[error] SET [Recoverable] = 1")
        done = client.errors.archive(**ALL)
        assert (done.messages, done.unseen, done.complete) == (3, 1, True)
    with connect() as other, other.transaction():
        run_sql(other, f"UPDATE [{schema}].[Archive] SET [Reason] = N'' WHERE [ArchiveId] = 1")
        done = client.errors.archived.restore(**ALL)
        assert (done.messages, done.unseen) == (2, 1)
    assert client.errors.archived.restore(**ALL).messages == 1
    assert sorted(bodies(client)) == [b"0", b"1", b"2", b"3"]


def test_a_refused_message_stays_in_the_archive(client: QueueClient, session: Session, schema: str) -> None:
    client.queue("error").send([failed("Sales", b"%d" % n) for n in range(5)])
    client.errors.archive(**ALL)
    run_sql(session, f"ALTER TABLE [{schema}].[error] ADD CONSTRAINT [c{schema}] CHECK ([Body] <> 0x33)")
    done = client.errors.archived.restore(**ALL)
    assert (done.messages, done.left) == (4, {"the server refused the message": 1})
    assert client.errors.archived.triage().matched == 1


def test_queues_share_a_table_and_nothing_else(client: QueueClient) -> None:
    client.tables.create("error2")
    client.queue("error").send([failed("Sales", b"1")])
    client.queue("error2").send([failed("Sales", b"2")])
    client.errors.archive(**ALL)
    client.errors.archive("error2", **ALL)
    assert client.errors.archived.triage("error2").matched == 1
    assert client.errors.archived.restore("error2", **ALL).messages == 1
    assert (bodies(client), bodies(client, "error2")) == ([], [b"2"])
    client.tables.drop("error", force=True)
    with pytest.raises(QueueNotFoundError):
        client.errors.archived.restore(**ALL)
    assert client.errors.archived.delete(**ALL, confirm=True).messages == 1


@pytest.mark.parametrize("reason", ["x" * (MAX_REASON + 1), "\U0001f600" * MAX_REASON, "half \ud800", "nul \0"])
def test_a_reason_that_no_row_can_hold_is_refused(client: QueueClient, reason: str) -> None:
    with pytest.raises(ConfigurationError, match="500 characters"):
        client.errors.archive(**ALL, reason=reason)


def test_the_calls_are_no_part_of_a_transaction_and_want_a_choice(client: QueueClient) -> None:
    client.queue("error").send([failed("Sales")])
    client.errors.archive(**ALL)
    client.tables.create("parked")
    calls = [
        lambda **what: client.errors.archive(**what),
        lambda **what: client.errors.delete(**what, confirm=True),
        lambda **what: client.errors.park("parked", **what),
        lambda **what: client.errors.archived.restore(**what),
        lambda **what: client.errors.archived.delete(**what, confirm=True),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match="which messages"):
            call()
        with pytest.raises(TransactionError, match="outside of a transaction"), client.transaction():
            call(all_messages=True)
    assert client.errors.archived.triage().matched == 1


def test_an_altered_queue_is_archived_and_restored(client: QueueClient, session: Session, schema: str) -> None:
    client.queue("error").send(failed("Sales", b"%d" % n) for n in range(4))

    def alter(done: ErrorQueueResult) -> None:
        if done.messages == 1:
            run_sql(session, f"ALTER TABLE [{schema}].[error] DROP COLUMN [ReplyToAddress]")

    one = ErrorQueueOptions(rows_per_transaction=1)
    assert client.errors.archive(**ALL, options=one, on_progress=alter).messages == 4

    def alter_again(done: ErrorQueueResult) -> None:
        if done.messages == 1:
            run_sql(session, f"ALTER TABLE [{schema}].[error] DROP COLUMN [CorrelationId]")

    assert client.errors.archived.restore(**ALL, options=one, on_progress=alter_again).messages == 4
    assert sorted(bodies(client)) == [b"0", b"1", b"2", b"3"]


def test_the_headers_of_the_failure_are_readable_in_the_archive(client: QueueClient) -> None:
    client.queue("error").send([failed("Sales"), Message("{poison")])
    client.errors.archive(**ALL)
    kinds = client.errors.archived.triage(by=["kind"], filters={"kind": "failed"})
    assert (kinds.scanned, kinds.matched) == (2, 1)
    shown = client.errors.archived.show(number=kinds.groups[0].example)
    assert shown.envelope.headers[HeaderNames.FAILED_Q] == "Sales"
    assert shown.body is None


def test_rows_that_move_during_a_read_without_locks_are_read_again(
    client: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, value = ["error_archive.end", "error_archive.count_left", "errors.end"], Session.results

    def results(session: Session, statement: Query, *values: Any, **sizes: Any) -> Any:
        if statement.name in moved:
            moved.remove(statement.name)
            raise DataMovedError("601")
        return value(session, statement, *values, **sizes)

    monkeypatch.setattr(Session, "results", results)
    client.queue("error").send([failed("Sales", b"0")])
    assert client.errors.archive("error", **ALL).messages == 1
    assert client.errors.archived.delete("error", **ALL, confirm=True).messages == 1
    assert moved == []
