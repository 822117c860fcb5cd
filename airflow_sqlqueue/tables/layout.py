"""What a table of the transport looks like (docs/transport/queue-tables.md, "Properties of a table")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from airflow_sqlqueue.errors import NotAQueueError
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.row import ADDED, LEGACY
from airflow_sqlqueue.sql.columns import DELAYED, SUBSCRIPTION, queue_columns
from airflow_sqlqueue.tables.shapes import SHAPES, Shape

_TEXT = {"varchar", "nvarchar"}
_TIME = {"datetime", "datetime2", "smalldatetime", "datetimeoffset"}
_KINDS: dict[str, dict[str, set[str]]] = {
    "queue": {
        "Id": {"uniqueidentifier"},
        "Expires": _TIME,
        "Headers": _TEXT,
        "Body": {"varbinary"},
        "RowVersion": {"bigint"},
    },
    "delayed": {"Headers": _TEXT, "Body": {"varbinary"}, "Due": _TIME, "RowVersion": {"bigint"}},
    "subscription": {"QueueAddress": _TEXT, "Endpoint": _TEXT, "Topic": _TEXT},
}
"""What makes a table one of a kind: its columns and the base types that statements can work with."""

CREATE_COMMANDS = {
    "queue": "sqlqueue create",
    "delayed": "sqlqueue create <queue> --delayed",
    "subscription": "sqlqueue create <endpoint> --subscriptions",
}
"""The commands that make a table of each kind."""

_OURS = {"BatchId", "AttemptId"}
"""One of these and ``Expired`` are columns of the tables beside the ledger, in which messages stand as in a queue:
nobody receives there."""

NAMES = {name.lower(): name for name in (*queue_columns("", legacy=True, body_string=True), *DELAYED, *SUBSCRIPTION)}
"""The transport's columns by their lower-case names: the server may compare without case."""


@dataclass(frozen=True)
class TableColumn:
    """A column: base type, and ``length`` in bytes, -1 for max. ``filled`` columns need no value from a sender."""

    type: str
    length: int
    nullable: bool
    identity: bool = False
    computed: bool = False
    has_default: bool = False
    encrypted: bool = False

    @property
    def filled(self) -> bool:
        """Whether an INSERT may leave the column out."""
        return self.nullable or self.identity or self.computed or self.has_default

    def __str__(self) -> str:
        """As CREATE TABLE has it."""
        if self.computed:
            return "computed"
        text = self.type
        if self.type in {"varchar", "nvarchar", "varbinary", "char", "nchar", "binary"}:
            size = self.length // 2 if self.type.startswith("n") else self.length
            text += f"({'max' if self.length == -1 else size})"
        return f"{text}{' IDENTITY(1, 1)' if self.identity else ''} {'NULL' if self.nullable else 'NOT NULL'}"


@dataclass(frozen=True)
class Index:
    """A rowstore index by its first key column.

    ``filter`` is the server's text of its predicate, empty where the login may not see it; None where it has every row.
    """

    name: str
    column: str
    clustered: bool
    disabled: bool = False
    filter: str | None = None

    @property
    def state(self) -> str:
        if self.disabled:
            return "disabled"
        return "clustered" if self.clustered else "nonclustered"

    @property
    def filtered(self) -> bool:
        """Whether rows are left out."""
        return self.filter is not None

    @property
    def has_all_that_expire(self) -> bool:
        """Whether its filter is ``([Expires] IS NOT NULL)``, however it is written.

        One that is not seen is taken for it: the transport makes no other, and no statement names the index.
        """
        return re.sub(r"[\[\]()]", "", self.filter or "expires is not null").lower() == "expires is not null"


@dataclass(frozen=True)
class Trigger:
    """A trigger for one event (INSERT, UPDATE or DELETE)."""

    name: str
    event: str
    disabled: bool = False
    instead_of: bool = False


@dataclass(frozen=True)
class Layout:
    """A table's real shape.

    ``table`` is where the rows are: behind a synonym its base table. ``object_type`` is table, synonym or view.
    ``output_into`` says that rows can be put out only into a table variable, because a trigger stands on DELETE.
    """

    table: ResolvedAddress
    object_type: str
    columns: Mapping[str, TableColumn]
    indexes: tuple[Index, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    read_committed_snapshot: bool = False
    memory_optimized: bool = False
    system_versioned: bool = False
    change_data_capture: bool = False
    lock_escalation: str = "TABLE"
    output_into: bool = False

    @cached_property
    def types(self) -> dict[str, str]:
        """The columns' base types, by name."""
        return {name: column.type for name, column in self.columns.items()}

    @property
    def kind(self) -> str:
        """queue, delayed, subscription or other: by the columns."""
        return kind_of(self.types)

    @property
    def shape(self) -> Shape:
        """The shape of a queue table, whatever else stands in it. Raises :class:`NotAQueueError` for other tables."""
        if self.kind != "queue":
            self.require("queue")
        row_version = self.index_on("RowVersion")
        return Shape(
            headers=self.columns["Headers"].type,
            row_version_index=row_version.state if row_version else "none",
            expires_index=expires_state(self.index_on("Expires")),
            legacy_columns=all(name in self.columns for name in LEGACY),
            body_string="BodyString" in self.columns,
            added=tuple(name for name in ADDED if name in self.columns),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The layouts of :data:`SHAPES` that this table has, apart from legacy columns and BodyString; often none."""
        shape = replace(self.shape, legacy_columns=True, body_string=False)
        return tuple(name for name, known in SHAPES.items() if known == shape)

    @property
    def unknown_columns(self) -> tuple[str, ...]:
        """Columns that no version of the transport makes."""
        return tuple(name for name in self.columns if name not in _EXPECTED.get(self.kind, {}))

    @property
    def unfilled_columns(self) -> tuple[str, ...]:
        """Unknown columns that take no NULL and have no default: with one of them nothing can be sent."""
        return tuple(name for name in self.unknown_columns if not self.columns[name].filled)

    def index_on(self, column: str) -> Index | None:
        """The index to find rows by ``column``: an enabled one rather than a disabled, a clustered one first.

        Filtered indexes count for Expires alone, where they leave out rows that have none.
        """
        fitting = [
            index
            for index in self.indexes
            if index.column == column and (not index.filtered or (column == "Expires" and index.has_all_that_expire))
        ]
        return min(fitting, key=lambda index: (index.disabled, not index.clustered), default=None)

    @property
    def seek_index(self) -> str | None:
        """The name of the index in which rows can be sought by RowVersion; None where there is none in use."""
        index = self.index_on("RowVersion")
        return None if index is None or index.disabled else index.name

    def differences(self, shape: Shape) -> list[str]:
        """What distinguishes this queue table from a shape, as phrases; empty where it is the same."""
        found = column_differences(self.columns, shape.columns)
        own = self.shape
        for what, is_now, expected in (
            ("RowVersion", own.row_version_index, shape.row_version_index),
            ("Expires", own.expires_index, shape.expires_index),
        ):
            if is_now != expected:
                found.append(f"the index on {what} is {is_now}, not {expected}")
        return found

    @property
    def unusable(self) -> str | None:
        """Why no statement of ours works on the table, whatever its columns; None where they do."""
        name = self.table.canonical
        if self.object_type == "view":
            return f"{name} is a view: name the table that it selects from."
        if self.memory_optimized:
            return f"The table {name} is memory-optimised, which has no row locks to pass over: use one that is not."
        for trigger in self.triggers:
            if trigger.instead_of and not trigger.disabled and trigger.event in {"INSERT", "DELETE"}:
                return f"The trigger {trigger.name} of {name} stands in for every {trigger.event}: disable it."
        return None

    def require(self, *kinds: str) -> None:
        """Raise :class:`NotAQueueError` where the table is of none of the kinds, or statements cannot work on it."""
        if self.kind not in kinds:
            reason = _missing(kinds[0], self.types)
            advice = "check the address"
            if kinds[0] != "queue" and self.kind in {"queue", "delayed"} and self.object_type == "table":
                advice += (
                    "; if it was made by mistake, drop it with 'sqlqueue drop', and create the right one with "
                    f"'{CREATE_COMMANDS[kinds[0]]}'"
                )
            raise NotAQueueError(f"{self.table.canonical} is not a {kinds[0]} table ({reason}): {advice}.")
        if self.unusable:
            raise NotAQueueError(self.unusable)

    def to_dict(self) -> dict[str, Any]:
        """The layout as plain JSON values."""
        row_version, expires = self.index_on("RowVersion"), self.index_on("Expires")
        return {
            "table": self.table.canonical,
            "object_type": self.object_type,
            "kind": self.kind,
            "layouts": list(self.names) if self.kind == "queue" else [],
            "columns": {name: str(column) for name, column in self.columns.items()},
            "row_version_index": row_version.state if row_version else "none",
            "expires_index": expires_state(expires),
            "triggers": sorted({trigger.name for trigger in self.triggers if not trigger.disabled}),
            "lock_escalation": self.lock_escalation,
            "read_committed_snapshot": self.read_committed_snapshot,
            "memory_optimized": self.memory_optimized,
            "system_versioned": self.system_versioned,
            "change_data_capture": self.change_data_capture,
        }


def expires_state(index: Index | None) -> str:
    """filtered, plain, disabled or none, for the index on Expires."""
    if index is None:
        return "none"
    if index.disabled:
        return "disabled"
    return "filtered" if index.filtered else "plain"


def kind_of(types: Mapping[str, str]) -> str:
    """queue, delayed, subscription or other, by the names and base types of the columns.

    The drain's own tables have a queue's columns, and those that say which batch a row belongs to.
    """
    return next((kind for kind in _KINDS if not _missing(kind, types)), "other")


def column_differences(columns: Mapping[str, TableColumn], expected: Mapping[str, str]) -> list[str]:
    """How a table's columns differ from those of a CREATE TABLE."""
    found = [f"the column {name} is missing" for name in expected if name not in columns]
    for name, column in columns.items():
        if name not in expected:
            found.append(f"the column {name} is not part of it")
        elif column.computed != expected[name].startswith("AS ") or not (
            column.computed or str(column) == expected[name]
        ):
            found.append(f"the column {name} is {column}, not {expected[name]}")
    return found


_EXPECTED: dict[str, Mapping[str, str]] = {
    "queue": queue_columns("nvarchar", legacy=True, body_string=True),
    "delayed": DELAYED,
    "subscription": SUBSCRIPTION,
}


def _missing(kind: str, types: Mapping[str, str]) -> str:
    """Why a table is not of a kind, as a phrase; empty where it is."""
    if kind == "queue" and "Expired" in types and not _OURS.isdisjoint(types):
        return "its messages were taken out of a queue"
    wanted = _KINDS[kind]
    if absent := [name for name in wanted if name not in types]:
        return f"no column {', '.join(absent)}"
    return ", ".join(f"the column {name} is {types[name]}" for name in wanted if types[name] not in wanted[name])
