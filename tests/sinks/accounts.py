"""Account of every value of many bodies in the tables of a format, written in two batches with other fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from airflow_sqlqueue.bodies.names import RESCUED, UNPARSED, column_names
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.spark.message_tables import write_message_tables
from airflow_sqlqueue.spark.message_tables.chunks import COLUMNS
from tests.bodies.test_account import Json, Xml, account_json, account_xml, data_names, messages, models, names
from tests.spark.conftest import batches_in

if TYPE_CHECKING:
    from tests.sinks.message_tables import Place

T = TypeVar("T")

JSON: dict[str, dict[str, bool]] = {
    "Shop.Plain": {},
    "Shop.Referring": {"numbers": True},
    "Shop.Typed": {"numbers": True, "types": True},
}
XML: dict[str, dict[str, Any]] = {
    "Shop.Current": {},
    "Shop.Old": {"indent": "\r\n  ", "blank": "\n", "wrapped": True},
}
"""Message types, each with a style of writing."""

BODIES = 60
"""Bodies of each type and batch."""


def drawn(strategy: st.SearchStrategy[T], count: int, number: int) -> list[T]:
    """Examples of a strategy, always the same ones."""
    found: list[T] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @seed(number)
    @given(strategy)
    def draw(example: T) -> None:
        found.append(example)

    draw()
    return found


def bodies_of(name: str, number: int) -> list[Json] | list[Xml]:
    """The bodies of a type in a batch."""
    if name in XML:
        return [Xml(each, **XML[name]) for each in drawn(messages, BODIES, number)]
    some = models(names if JSON[name] else data_names, bool(JSON[name].get("numbers")))
    return [Json(each, **JSON[name]) for each in drawn(some, BODIES, number)]


def message(name: str, body: str, number: str) -> Message:
    content_type = "text/xml" if name in XML else "application/json"
    headers = {
        "NServiceBus.EnclosedMessageTypes": name,
        "NServiceBus.ContentType": content_type,
        "NServiceBus.MessageId": number,
    }
    return Message(headers, body.encode())


def check_account(place: Place) -> None:
    """Write two batches, and account for every value of every body in all tables."""
    make, schemas = batches_in(place.tmp_path), SchemaFolder(place.tmp_path / "schemas")
    sent: dict[str, dict[str, Json | Xml]] = {name: {} for name in (*JSON, *XML)}
    rows: dict[str, dict[str, Any]] = {name: {} for name in sent}
    for batch in range(2):
        some = []
        for number, name in enumerate(sent):
            for each, body in enumerate(bodies_of(name, 10 * batch + number)):
                some.append(message(name, body.text, f"{batch}-{each}"))
                sent[name][f"{batch}-{each}"] = body
        tables = write_message_tables(
            place.spark, make(some, batch_id=f"batch-{batch}"), place.location, schemas=schemas, **place.options
        )
    for table in tables:
        name = str(table.message_type)
        columns = column_names(schemas.get(name), COLUMNS) if not table.is_unparsed else {}  # type: ignore[arg-type]
        for row in place.rows(table.table).toArrow().to_pylist():
            assert row["message_id"] not in rows[name]
            fields = {field: row[column] for field, column in columns.items()} or None
            rows[name][row["message_id"]] = {
                "fields": fields,
                "rescued": row.get(RESCUED),
                "unparsed": row.get(UNPARSED),
            }
    for name, bodies in sent.items():
        account: Any = account_xml if name in XML else account_json
        assert rows[name].keys() == bodies.keys()
        found = [rows[name][number] for number in bodies]
        assert sum(row["unparsed"] is None for row in found) > len(found) // 2
        account(list(bodies.values()), found, schemas.get(name))
