"""Layouts as values: shapes by name, kinds by columns, what distinguishes a table from a shape."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_sqlqueue.errors import ConfigurationError, NotAQueueError
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue.tables.layout import SHAPES, Index, Layout, TableColumn, Trigger, kind_of, shape_of

TABLE = ResolvedAddress("audit", "dbo", "nsb")
COLUMNS = {
    "Id": TableColumn("uniqueidentifier", 16, nullable=False),
    "CorrelationId": TableColumn("varchar", 255, nullable=True),
    "ReplyToAddress": TableColumn("varchar", 255, nullable=True),
    "Recoverable": TableColumn("bit", 1, nullable=False),
    "Expires": TableColumn("datetime", 8, nullable=True),
    "Headers": TableColumn("nvarchar", -1, nullable=False),
    "Body": TableColumn("varbinary", -1, nullable=True),
    "RowVersion": TableColumn("bigint", 8, nullable=False, identity=True),
}
ROW_VERSION = Index("Index_RowVersion", "RowVersion", clustered=False)
EXPIRES = Index("Index_Expires", "Expires", clustered=False, filter="([Expires] IS NOT NULL)")
MODERN = Layout(TABLE, "table", COLUMNS, (ROW_VERSION, EXPIRES))


def test_the_matrix_of_versions() -> None:
    """docs/transport/queue-tables.md, "Layouts by version"."""
    facts = {name: (shape.headers, shape.row_version_index, shape.expires_index) for name, shape in SHAPES.items()}
    assert facts["v1"] == ("varchar", "clustered", "none")
    assert facts["v2"] == ("nvarchar", "clustered", "plain")
    assert facts["v3.0"] == ("varchar", "clustered", "plain")
    assert facts["v3.1"] == facts["v4"] == facts["clustered"] == ("nvarchar", "clustered", "filtered")
    for name in ("v5", "v6", "v7", "v8", "v9", "v10", "modern"):
        assert facts[name] == ("nvarchar", "nonclustered", "filtered")


def test_an_unknown_layout() -> None:
    with pytest.raises(ConfigurationError, match="no layout 'v99': choose one of modern, clustered, v1"):
        shape_of("v99")


def test_the_modern_layout_goes_by_its_names() -> None:
    assert MODERN.names == ("modern", "v5", "v6", "v7", "v8", "v9", "v10")
    assert MODERN.differences(SHAPES["modern"]) == []


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, "queue"),
        ({"RowVersion": "timestamp"}, "other"),
        ({"Body": "nvarchar"}, "other"),
        ({"Expires": "datetimeoffset"}, "queue"),
        ({"Extra": "xml"}, "queue"),
    ],
)
def test_kinds_are_recognised_by_columns_and_types(change: dict[str, str], kind: str) -> None:
    assert kind_of({**MODERN.types, **change}) == kind


def test_a_table_of_another_kind_says_why() -> None:
    without = {name: column for name, column in COLUMNS.items() if name not in {"Expires", "Body"}}
    with pytest.raises(NotAQueueError, match=r"not a queue table \(no column Expires, Body\): check the address"):
        Layout(TABLE, "table", without).require("queue")
    changed = {**COLUMNS, "RowVersion": TableColumn("timestamp", 8, nullable=False)}
    with pytest.raises(NotAQueueError, match=r"\(the column RowVersion is timestamp\)"):
        Layout(TABLE, "table", changed).require("queue")


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        (replace(MODERN, object_type="view"), "is a view"),
        (replace(MODERN, memory_optimized=True), "is memory-optimised"),
        (replace(MODERN, columnstore=True), "has a clustered columnstore index"),
        (replace(MODERN, triggers=(Trigger("t", "DELETE", instead_of=True),)), "replaces every DELETE"),
        (replace(MODERN, triggers=(Trigger("t", "INSERT", instead_of=True),)), "replaces every INSERT"),
    ],
)
def test_tables_that_no_statement_works_on(layout: Layout, reason: str) -> None:
    with pytest.raises(NotAQueueError, match=reason):
        layout.require("queue")
    assert layout.kind == "queue"


@pytest.mark.parametrize(
    "trigger",
    [
        Trigger("t", "DELETE", disabled=True, instead_of=True),
        Trigger("t", "UPDATE", instead_of=True),
        Trigger("t", "DELETE"),
    ],
)
def test_triggers_that_can_be_lived_with(trigger: Trigger) -> None:
    replace(MODERN, triggers=(trigger,)).require("queue")


def test_the_index_that_serves_a_column() -> None:
    clustered = Index("PK", "RowVersion", clustered=True)
    partial = Index("part", "RowVersion", clustered=False, filter="([RowVersion]>(5))")
    disabled = Index("old", "RowVersion", clustered=True, disabled=True)
    layout = replace(MODERN, indexes=(disabled, partial, ROW_VERSION))
    assert layout.index_on("RowVersion") == ROW_VERSION
    assert replace(layout, indexes=(*layout.indexes, clustered)).index_on("RowVersion") == clustered
    assert replace(layout, indexes=(partial,)).shape.row_version_index == "none"
    assert replace(layout, indexes=(replace(partial, filter=""),)).seek_index is None, "whatever its filter is"
    assert replace(layout, indexes=(disabled,)).shape.row_version_index == "disabled"


@pytest.mark.parametrize(
    ("predicate", "disabled", "state"),
    [
        ("([Expires] IS NOT NULL)", False, "filtered"),
        ("([Expires] IS NOT NULL)", True, "disabled"),
        (None, False, "plain"),
        ("", False, "filtered"),
        ("([Expires]>'2020-01-01')", False, "none"),
    ],
)
def test_the_state_of_the_index_on_expires(predicate: str | None, disabled: bool, state: str) -> None:
    index = Index("any name", "Expires", clustered=False, disabled=disabled, filter=predicate)
    assert replace(MODERN, indexes=(ROW_VERSION, index)).shape.expires_index == state


def test_differences_are_named_one_by_one() -> None:
    columns = {
        **COLUMNS,
        "Headers": TableColumn("varchar", 8000, nullable=True),
        "Note": TableColumn("nvarchar", 40, nullable=True),
    }
    del columns["Recoverable"]
    layout = Layout(TABLE, "table", columns, (ROW_VERSION,))
    assert layout.differences(SHAPES["clustered"]) == [
        "the column Recoverable is missing",
        "the column Headers is varchar(8000) NULL, not nvarchar(max) NOT NULL",
        "the column Note is not part of it",
        "the index on RowVersion is nonclustered, not clustered",
        "the index on Expires is none, not filtered",
    ]


def test_columns_that_a_sender_must_fill() -> None:
    optional = {
        "Null": TableColumn("int", 4, nullable=True),
        "Default": TableColumn("int", 4, nullable=False, has_default=True),
        "Computed": TableColumn("int", 4, nullable=False, computed=True),
    }
    needed = {"Tenant": TableColumn("int", 4, nullable=False)}
    layout = replace(MODERN, columns={**COLUMNS, **optional, **needed})
    assert layout.unknown_columns == ("Null", "Default", "Computed", "Tenant")
    assert layout.unfilled_columns == ("Tenant",)
    copied = {"RowVersion": TableColumn("bigint", 8, nullable=False)}
    assert replace(MODERN, columns={**COLUMNS, **copied}).unfilled_columns == ("RowVersion",)
