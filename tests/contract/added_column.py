"""A program with a column more in every queue: ``row.py`` has two lines more, and nothing else is another.

It prints what each verb makes of the column, as JSON. Arguments: the server's URL, a schema, a folder.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import uuid
from datetime import datetime, timezone
from typing import Any

FIELD = "    recoverable: bool | None\n", "    trace_parent: str | None\n"
ENTRY = ('    Column("Expires", ', '    Column("TraceParent", *_TEXT, added=True, header="traceparent"),\n')


def add_column() -> None:
    """Load the module with a field and an entry more."""
    name = "airflow_sqlqueue.messages.row"
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin, encoding="utf-8") as file:
        text = file.read()
    field, more = FIELD
    entry, before = ENTRY
    assert (text.count(field), text.count(entry)) == (1, 1)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(text.replace(field, field + more).replace(entry, before + entry), spec.origin, "exec"), vars(module))


def main(url: str, schema: str, folder: str) -> dict[str, Any]:
    """The values of the column, by what was done."""
    import pyarrow.parquet as pq

    from airflow_sqlqueue import Message, PurgeOptions, QueueClient
    from airflow_sqlqueue.messages.row import spark_schema
    from airflow_sqlqueue.queue.browsing import browse
    from airflow_sqlqueue.queue.forwarding import transfer
    from airflow_sqlqueue.spark.source.messages import message_row

    client = QueueClient.from_url(url, ledger_schema=schema)
    found: dict[str, Any] = {}

    def column(queue: str) -> list[str | None]:
        rows = client.run_sql(f"SELECT [TraceParent] FROM [{schema}].[{queue}] ORDER BY [RowVersion]")
        return [value for (value,) in rows]

    for name in ("orders", "archive"):
        client.tables.create(f"{name}@{schema}", delayed=True)
        client.run_sql(f"ALTER TABLE [{schema}].[{name}] ADD [TraceParent] varchar(255) NULL")
    orders, archive = client.queue(f"orders@{schema}"), client.queue(f"archive@{schema}")
    inspected = client.tables.inspect(f"orders@{schema}")
    found["findings"] = [finding.code for finding in inspected.findings]
    found["unknown columns"] = list(inspected.layout.unknown_columns)

    orders.send([Message({"traceparent": "sent"}), Message({})])
    found["send"] = column("orders")
    orders.forward(f"archive@{schema}")
    found["forward"] = column("archive")
    with archive.open() as table, orders.open() as target, table.session.transaction():
        first, second = (head.row_version for head in browse(table, 2))
        transfer(table, target, [first, second], {second: {"traceparent": "given"}})
    found["transfer"] = column("orders")
    for stage, staging in (("files", folder), ("table", None)):
        batch = orders.drain(staging, stage=stage).batch
        if batch.paths:
            rows = pq.read_table(batch.paths[0].removeprefix("file://")).to_pylist()
            found["files"] = [row["TraceParent"] for row in rows]
        assert column("orders") == []
        client.batches.requeue(uuid.UUID(batch.batch_id), f"orders@{schema}")
        found[f"requeue from {stage}"] = column("orders")
    orders.purge(PurgeOptions(all_messages=True, confirm=True))
    delayed = client.delayed(f"orders@{schema}")
    delayed.send([Message({"traceparent": "late"})], due=datetime(2020, 1, 1, tzinfo=timezone.utc))
    delayed.move()
    found["delayed move"] = column("orders")
    found["spark"] = [field["name"] for field in spark_schema()["fields"]]
    found["sent by spark"] = [
        message_row({"TraceParent": "column", "Body": b""}).trace_parent,  # type: ignore[attr-defined]
        message_row({"headers": {"traceparent": "header"}}).trace_parent,  # type: ignore[attr-defined]
    ]
    return found


if __name__ == "__main__":
    add_column()
    json.dump(main(*sys.argv[1:]), sys.stdout)
