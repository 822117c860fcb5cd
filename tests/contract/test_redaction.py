"""Drains with rules of redaction, on any server: what a rule names is in no file, no table and no quarantine."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.bodies.decoding import MAX_BYTES
from airflow_sqlqueue.bodies.redaction.redactor import Redactor
from airflow_sqlqueue.drain.batch_reader import batch_rows
from airflow_sqlqueue.drain.batches import batches
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.requeue import abandon, requeue
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchError, StatementError, WrongBatchError
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.row import Row
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.tables.create import create
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.conftest import Connect
from tests.contract.conftest import run_sql
from tests.drains import SMALL_PARTS, bodies, drain

KEY = "a key of 16 bytes or more"
ORDER, OTHER = "Shop.PlaceOrder", "Shop.Other"
RULES = [
    {
        "message_type": ORDER,
        "headers": {"Secret": "hash", HeaderNames.CORRELATION_ID: "drop", HeaderNames.REPLY_TO_ADDRESS: "hash"},
        "fields": {"Customer.Email": "hash", "Lines[].Card": "mask"},
    }
]
REDACTOR = Redactor.of(RULES, KEY)
SECRETS = ("hush-header", "hush-column", "hush-reply", "hush-email", "hush-card")


@pytest.fixture(params=["files", "table"])
def stage(request: pytest.FixtureRequest, staging: StagingFolder) -> Stage | StagingFolder:
    return staging if request.param == "files" else TableStage()


def order(body: bytes | None = None, kind: str = ORDER, **headers: str) -> Message:
    named = {
        HeaderNames.ENCLOSED_MESSAGE_TYPES: kind,
        "Secret": "hush-header",
        HeaderNames.CORRELATION_ID: "hush-column",
        HeaderNames.REPLY_TO_ADDRESS: "hush-reply",
        **headers,
    }
    fields = {"Id": 1.50, "Customer": {"Email": "hush-email"}, "Lines": [{"Card": "hush-card", "Sku": "å"}]}
    return Message(named, json.dumps(fields, ensure_ascii=False).encode() if body is None else body)


def staged(connect: Connect, queue: QueueTable, batch: Batch) -> list[Row]:
    with connect() as session:
        return list(batch_rows(Ledger(session, queue.address.catalog), uuid.UUID(batch.batch_id), batch.stage))


def content(file: Path) -> bytes:
    return str(pq.read_table(file).to_pylist()).encode() if file.suffix == ".parquet" else file.read_bytes()


def stored(
    queue: QueueTable, staging: StagingFolder, batch: Batch, names: Sequence[str] = SECRETS
) -> dict[str, list[str]]:
    """Places in the files and in the tables of the package where a secret is stored, each with the secrets."""
    places = {str(file): content(file) for file in Path(staging.root).rglob("*") if file.is_file()}
    for table in ("Batch", "Part", "BatchMessage", "Quarantine"):
        rows = run_sql(queue.session, f"SELECT * FROM [sqlqueue].[{table}] WHERE [BatchId] = '{batch.batch_id}'")
        places[table] = b"\n".join(
            value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
            for row in rows
            for value in row
        )
    found = {place: [name for name in names if name.encode() in content] for place, content in places.items()}
    return {place: secrets for place, secrets in found.items() if secrets}


def test_a_drain_redacts_what_rules_name_and_leaves_the_rest(
    connect: Connect, queue: QueueTable, stage: Any, staging: StagingFolder
) -> None:
    other = order(
        b"a body", OTHER, **{"Secret": "a", HeaderNames.CORRELATION_ID: "b", HeaderNames.REPLY_TO_ADDRESS: "c"}
    )
    queue.send([order(), other] * 15)
    run_sql(
        queue.session,
        f"UPDATE {queue.address.qualified_name} SET [CorrelationId] = 'hush-column', [ReplyToAddress] = 'hush-reply' "
        f"WHERE [Headers] LIKE '%{ORDER}%'",
    )
    result = drain(connect, queue, stage, redaction=REDACTOR)
    rows = staged(connect, queue, result.batch)
    assert len(rows) == result.batch.messages == 30
    concerned = [row for row in rows if ORDER in row.headers]
    for row in concerned:
        headers = json.loads(row.headers)
        assert headers["Secret"] == REDACTOR.hashed("hush-header")
        assert HeaderNames.CORRELATION_ID not in headers
        assert (row.correlation_id, row.reply_to_address) == (None, REDACTOR.hashed("hush-reply"))
        fields = {"Id": 1.5, "Customer": {"Email": REDACTOR.hashed("hush-email")}}
        assert json.loads(row.body or b"") == {**fields, "Lines": [{"Card": "***", "Sku": "å"}]}
    untouched = [row for row in rows if OTHER in row.headers]
    assert [(json.loads(row.headers), row.body) for row in untouched] == [(other.headers, other.body)] * 15
    assert len(concerned) == 15
    factor = 2 if result.batch.stage == "table" else 1
    assert result.batch.bytes == sum(factor * len(row.headers) + len(row.body or b"") for row in rows)


def test_secrets_of_rules_are_not_stored(
    connect: Connect, queue: QueueTable, stage: Any, staging: StagingFolder
) -> None:
    """Also of bodies that cannot be parsed, of malformed headers, and of messages in quarantine."""
    queue.send([order(), order(b"hush-email {"), order(b"hush-card", **{HeaderNames.CONTENT_TYPE: "text/csv"})] * 3)
    queue.send([Message('{"Secret": "hush-header", "hush-reply"', b'{"Customer": {"Email": "hush-email"}, "A": 1}')])
    queue.send([Message({"Secret": "hush-header"}, b'{"Lines": {"Card": "hush-card"}}')])
    batch = drain(connect, queue, stage, redaction=REDACTOR).batch
    assert batch.messages == 11
    assert stored(queue, staging, batch, (ORDER,)), "the places are searched"
    assert stored(queue, staging, batch) == {}
    rows = staged(connect, queue, batch)
    assert [row.body for row in rows[1:9:3]] == [row.body for row in rows[2:9:3]] == [None] * 3
    assert (rows[9].headers, json.loads(rows[9].body or b"")["A"]) == ("{}", 1)


def test_messages_in_quarantine_are_redacted(
    connect: Connect, queue: QueueTable, stage: Any, staging: StagingFolder
) -> None:
    """A half of a surrogate pair in a column that no rule names: no file can hold the row."""
    queue.send([order(), order()])
    table = queue.address.qualified_name
    run_sql(queue.session, f"ALTER TABLE {table} ALTER COLUMN [ReplyToAddress] nvarchar(255) NULL")
    run_sql(
        queue.session, f"UPDATE TOP (1) {table} SET [ReplyToAddress] = NCHAR(0xD83D), [CorrelationId] = 'hush-column'"
    )
    rules = Redactor.of([{**RULES[0], "headers": {"Secret": "hash", HeaderNames.CORRELATION_ID: "drop"}}], KEY)
    batch = drain(connect, queue, stage, redaction=rules).batch
    assert (batch.messages, batch.quarantined) == (1, 1)
    assert stored(queue, staging, batch, ("hush-header", "hush-column", "hush-email", "hush-card")) == {}
    select = f"SELECT [Headers], [Body] FROM [sqlqueue].[Quarantine] WHERE [BatchId] = '{batch.batch_id}'"
    ((headers, body),) = run_sql(queue.session, select)
    assert json.loads(headers)["Secret"] == REDACTOR.hashed("hush-header")
    assert json.loads(body)["Lines"] == [{"Card": "***", "Sku": "å"}]


LARGE = DrainOptions(inline_body_bytes=100, rows_per_part=20, locked_wait_seconds=0)


@pytest.mark.parametrize("copy", [False, True])
def test_large_bodies_are_redacted_left_out_or_kept(
    connect: Connect, queue: QueueTable, staging: StagingFolder, copy: bool
) -> None:
    text = json.dumps({"Customer": {"Email": "hush-email"}, "Note": "x" * 200}).encode()
    huge = b'{"Customer": {"Email": "hush-email"}, "Note": "' + b"x" * MAX_BYTES + b'"}'
    queue.send([order(text), order(huge), order(b"y" * 200, OTHER), order(b"hush-card" * 30)])
    batch = drain(connect, queue, staging, LARGE, redaction=REDACTOR, copy=copy).batch
    found = [row.body for row in staged(connect, queue, batch)]
    assert json.loads(found[0] or b"") == {"Customer": {"Email": REDACTOR.hashed("hush-email")}, "Note": "x" * 200}
    assert found[1:] == [None, b"y" * 200, None]
    assert stored(queue, staging, batch, ("hush-email", "hush-card")) == {}


def test_large_bodies_in_quarantine_are_redacted_left_out_or_kept(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    text = json.dumps({"Customer": {"Email": "hush-email"}, "Note": "x" * 200}).encode()
    queue.send([order(text), order(b"y" * 200, OTHER), order(b"hush-card" * 30)])
    table = queue.address.qualified_name
    run_sql(queue.session, f"ALTER TABLE {table} ALTER COLUMN [ReplyToAddress] nvarchar(255) NULL")
    run_sql(queue.session, f"UPDATE {table} SET [ReplyToAddress] = NCHAR(0xD83D)")
    rules = Redactor.of([{**RULES[0], "headers": {"Secret": "hash"}}], KEY)
    batch = drain(connect, queue, staging, LARGE, redaction=rules).batch
    assert (batch.messages, batch.quarantined) == (0, 3)
    select = f"SELECT [Body] FROM [sqlqueue].[Quarantine] WHERE [BatchId] = '{batch.batch_id}' ORDER BY [QuarantineId]"
    first, *others = (row[0] for row in run_sql(queue.session, select))
    assert json.loads(first) == {"Customer": {"Email": REDACTOR.hashed("hush-email")}, "Note": "x" * 200}
    assert others == [b"y" * 200, None]


def test_large_bodies_in_the_table_are_redacted_left_out_or_kept(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    huge = b'{"Customer": {"Email": "hush-email"}, "Note": "' + b"x" * MAX_BYTES + b'"}'
    queue.send([order(huge), order(huge, OTHER), order()])
    headers_only = Redactor.of([{"message_type": ORDER, "headers": {"Secret": "drop"}}])
    batch = drain(connect, queue, TableStage(), redaction=REDACTOR).batch
    rows = staged(connect, queue, batch)
    assert [row.body and len(row.body) for row in rows[:2]] == [None, len(huge)]
    assert batch.bytes == sum(2 * len(row.headers) + len(row.body or b"") for row in rows)
    queue.send([order(huge)])
    batch = drain(connect, queue, TableStage(), redaction=headers_only).batch
    (row,) = staged(connect, queue, batch)
    assert row.body == huge
    assert "hush-header" not in row.headers


def test_a_copy_is_redacted_and_the_queue_is_not(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    message = order()
    queue.send([message])
    batch = drain(connect, queue, staging, redaction=REDACTOR, copy=True).batch
    assert (batch.kept, batch.redacted) == (True, REDACTOR.fingerprint)
    assert stored(queue, staging, batch) == {}
    assert bodies(queue) == [message.body]


def test_the_batch_says_that_it_was_redacted(connect: Connect, queue: QueueTable, stage: Any) -> None:
    queue.send([order()])
    plain, redacted = (drain(connect, queue, stage, redaction=rules).batch for rules in (None, REDACTOR))
    assert (plain.redacted, redacted.redacted) == (None, REDACTOR.fingerprint)
    assert Batch.from_dict(json.loads(json.dumps(redacted.to_dict()))) == redacted
    listed = {str(info.batch_id): info.redacted for info in batches(Ledger(queue.session, queue.address.catalog))}
    assert (listed[plain.batch_id], listed[redacted.batch_id]) == (None, REDACTOR.fingerprint)


@pytest.mark.parametrize("other", [None, Redactor.of({"message_type": "*", "body": "drop"})])
def test_a_retry_with_other_rules_is_refused(connect: Connect, queue: QueueTable, stage: Any, other: Any) -> None:
    batch_id = uuid.uuid4()
    drain(connect, queue, stage, redaction=REDACTOR, batch_id=batch_id)
    with pytest.raises(WrongBatchError, match="other rules"):
        drain(connect, queue, stage, redaction=other, batch_id=batch_id)
    with pytest.raises(WrongBatchError, match="other rules"):
        drain(
            connect, queue, stage, redaction=REDACTOR, batch_id=uuid.UUID(drain(connect, queue, stage).batch.batch_id)
        )
    assert drain(connect, queue, stage, redaction=replace(REDACTOR), batch_id=batch_id).resumed


def test_a_redacted_batch_goes_back_only_with_a_word(connect: Connect, queue: QueueTable, stage: Any) -> None:
    queue.send([order()])
    batch = drain(connect, queue, stage, redaction=REDACTOR).batch
    ledger, batch_id = Ledger(queue.session, queue.address.catalog), uuid.UUID(batch.batch_id)
    with pytest.raises(BatchError, match="accept_redacted"):
        requeue(ledger, batch_id)
    assert (ledger.find(batch_id).state, bodies(queue)) == ("sealed", [])
    assert not requeue(ledger, batch_id, accept_redacted=True).repeated
    assert requeue(ledger, batch_id).repeated
    assert json.loads(bodies(queue)[0])["Lines"] == [{"Card": "***", "Sku": "å"}]


def test_an_open_redacted_batch_is_not_abandoned_without_a_word(
    connect: Connect, queue: QueueTable, locks_of: Callable[[], BatchLocks]
) -> None:
    ledger, batch_id = Ledger(queue.session, queue.address.catalog), uuid.uuid4()
    drain(connect, queue, TableStage(), redaction=REDACTOR, batch_id=batch_id)
    run_sql(queue.session, f"UPDATE [sqlqueue].[Batch] SET [State] = 'open' WHERE [BatchId] = '{batch_id}'")
    with locks_of() as locks:
        with pytest.raises(BatchError, match="accept_redacted"):
            abandon(ledger, locks, batch_id)
        assert ledger.find(batch_id).state == "open"
        assert abandon(ledger, locks, batch_id, accept_redacted=True).batch.state == "requeued"


@pytest.fixture
def locks_of(connect: Connect, queue: QueueTable) -> Callable[[], BatchLocks]:
    return lambda: BatchLocks(connect, queue.address.catalog)


def test_a_drain_takes_nothing_while_an_older_ledger_lacks_columns(
    settings: ConnectionSettings, queue: QueueTable, schema: str
) -> None:
    def connect() -> Session:
        return Session(replace(settings, ledger_schema=schema))

    ledger = Ledger(queue.session, queue.address.catalog, schema)
    ledger.create()
    run_sql(queue.session, f"ALTER TABLE [{schema}].[Batch] DROP COLUMN [Redacted], [Erased]")
    queue.send([order()])
    with pytest.raises(StatementError, match="run 'sqlqueue create <queue> --ledger'"):
        drain(connect, queue, TableStage(), SMALL_PARTS, redaction=REDACTOR)
    assert depth(queue).messages == 1
    create(queue.session, Ledger.definition(queue.address.catalog, schema))
    result = drain(connect, queue, TableStage(), SMALL_PARTS, redaction=REDACTOR)
    assert (result.batch.redacted, result.batch.messages) == (REDACTOR.fingerprint, 1)
    assert ledger.find(uuid.UUID(result.batch.batch_id)).erased == 0
