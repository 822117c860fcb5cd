"""Layouts of the transport's tables: the shapes that each version makes, and the layout of an existing table.

Upgrades never migrate a table, so any mix of shapes exists in production (docs/transport/queue-tables.md, "Layouts by
version", "Columns" and "Properties of a table").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError, NotAQueueError
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.messages.row import ADDED, LEGACY
from airflow_sqlqueue.server.sql.columns import DELAYED, STAGED, SUBSCRIPTION, queue_columns

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
"""Columns of each kind of table, with the base types that statements can work with."""

CREATE_COMMANDS = {
    "queue": "'sqlqueue create <queue>'",
    "delayed": "'sqlqueue create <queue> --delayed'",
    "subscription": "'sqlqueue create <endpoint> --subscriptions'",
}
"""Commands that create a table of each kind."""

_OWN = {name: re.split(r"\W", text)[0] for name, text in STAGED.items()}
"""Columns of this package's own tables with messages, with their base types, which differ from a queue's. Such a table
has a queue's columns, but it is not a queue: no receiver may use it.
"""

NAMES = {name.lower(): name for name in (*queue_columns("", legacy=True, body_string=True), *DELAYED, *SUBSCRIPTION)}
"""The transport's columns by their lower-case names: names may be case-insensitive on the server."""


@dataclass(frozen=True)
class Shape:
    """Columns and indexes of a queue table.

    ``headers`` is nvarchar or varchar; ``row_version_index`` nonclustered (the table is a heap), clustered, none or
    disabled; ``expires_index`` filtered (on rows that expire), plain, none or disabled. ``legacy_columns`` are
    CorrelationId, ReplyToAddress and Recoverable. ``body_string`` is a computed column BodyString for people.
    ``added`` has the columns of :data:`~airflow_sqlqueue.messages.row.ADDED` in the layout.
    """

    headers: str = "nvarchar"
    row_version_index: str = "nonclustered"
    expires_index: str = "filtered"
    legacy_columns: bool = True
    body_string: bool = False
    added: tuple[str, ...] = ()

    @property
    def columns(self) -> dict[str, str]:
        """Columns for CREATE TABLE, by name."""
        return queue_columns(self.headers, legacy=self.legacy_columns, body_string=self.body_string, added=self.added)

    def __str__(self) -> str:
        return f"{self.headers} headers, RowVersion {self.row_version_index}, Expires {self.expires_index}"


_MODERN = Shape()
_CLUSTERED = Shape(row_version_index="clustered")

SHAPES: dict[str, Shape] = {
    "modern": _MODERN,
    "clustered": _CLUSTERED,
    "v1": Shape("varchar", "clustered", "none"),
    "v2": Shape("nvarchar", "clustered", "plain"),
    "v3.0": Shape("varchar", "clustered", "plain"),
    "v3.1": _CLUSTERED,
    "v4": _CLUSTERED,
    **dict.fromkeys(("v5", "v6", "v7", "v8", "v9", "v10"), _MODERN),
}
"""Layouts by name: ``modern``, ``clustered``, and the versions of the transport.

For a version whose releases differ: v2 is 2.2.6 (2.2.2 to 2.2.5 made tables like v3.0, older ones like v1), v3.0 is
3.0.0 to 3.0.2 (3.0.3 made tables like v2), v4 is 4.0 to 4.3.1 (4.3.2 made tables like modern), v5 is 5.0.3 and v6 is
6.0.1 and later (the releases before made tables like v4). Source: docs/transport/queue-tables.md, "Layouts by version".
"""

_WITHOUT_LEGACY = {"modern", "clustered", "v7", "v8", "v9", "v10"}


def shape_of(layout: str, *, legacy_columns: bool = True, body_string: bool = False) -> Shape:
    """Return the shape of a layout by name. Raises :class:`ConfigurationError` for a shape that no endpoint can use."""
    if layout not in SHAPES:
        raise ConfigurationError(f"There is no layout {layout!r}: choose one of {', '.join(SHAPES)}.")
    if not legacy_columns and layout not in _WITHOUT_LEGACY:
        raise ConfigurationError(
            f"Endpoints of the layout {layout!r} need the legacy columns: keep them, or choose version 7 or later."
        )
    return replace(SHAPES[layout], legacy_columns=legacy_columns, body_string=body_string)


@dataclass(frozen=True)
class TableColumn:
    """A column of a table: its base type, and its ``length`` in bytes, -1 for max."""

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
        """Return the column's type in CREATE TABLE."""
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

    ``filter`` is the server's text of its predicate, empty if the login may not see it; None for an index of all rows.
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
        """Whether the index leaves out rows."""
        return self.filter is not None

    @property
    def has_all_that_expire(self) -> bool:
        """Whether its filter is ``([Expires] IS NOT NULL)``, in any spelling.

        A hidden filter counts as this one: the transport makes no other, and no statement names the index.
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
    """Layout of an existing table.

    ``table`` is the identity of the table with the rows (:func:`.tables.reading.identify`): of a synonym, its base
    table. ``object_type`` is table, synonym or view.
    ``output_into``: OUTPUT is possible only into a table variable, because the table has a trigger on DELETE.
    """

    table: ResolvedAddress
    object_type: str
    columns: Mapping[str, TableColumn]
    indexes: tuple[Index, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    read_committed_snapshot: bool = False
    memory_optimized: bool = False
    columnstore: bool = False
    system_versioned: bool = False
    change_data_capture: bool = False
    lock_escalation: str = "TABLE"
    output_into: bool = False

    @cached_property
    def types(self) -> dict[str, str]:
        """Base types of the columns, by name."""
        return {name: column.type for name, column in self.columns.items()}

    @property
    def kind(self) -> str:
        """The kind of table by its columns: queue, delayed, subscription or other."""
        return kind_of(self.types)

    @property
    def shape(self) -> Shape:
        """The shape of a queue table, without further columns. Raises :class:`NotAQueueError` for other tables."""
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
        """Names in :data:`SHAPES` of this table's layout, apart from legacy columns and BodyString; may be empty."""
        shape = replace(self.shape, legacy_columns=True, body_string=False)
        return tuple(name for name, known in SHAPES.items() if known == shape)

    @property
    def unknown_columns(self) -> tuple[str, ...]:
        """Columns that no version of the transport makes."""
        return tuple(name for name in self.columns if name not in _EXPECTED.get(self.kind, {}))

    @property
    def unfilled_columns(self) -> tuple[str, ...]:
        """Columns that no sender writes, take no NULL and have no default: with one of them nothing can be sent.

        They are unknown columns, and a RowVersion that is no identity, as copies of tables have it.
        """
        return tuple(
            name
            for name, column in self.columns.items()
            if (name in self.unknown_columns or name == "RowVersion") and not column.filled
        )

    def index_on(self, column: str) -> Index | None:
        """Return the index to find rows by ``column``: enabled before disabled, clustered before nonclustered.

        A filtered index counts only for Expires, and only if it has every row with a value.
        """
        fitting = [
            index
            for index in self.indexes
            if index.column == column and (not index.filtered or (column == "Expires" and index.has_all_that_expire))
        ]
        return min(fitting, key=lambda index: (index.disabled, not index.clustered), default=None)

    @property
    def seek_index(self) -> str | None:
        """Name of the index for a seek by RowVersion; None without an enabled index."""
        index = self.index_on("RowVersion")
        return None if index is None or index.disabled else index.name

    def differences(self, shape: Shape) -> list[str]:
        """Return the differences between this queue table and a shape, as phrases; empty without differences."""
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
        """Reason why statements cannot work on the table, apart from its columns; None if they can."""
        name = self.table.canonical
        if self.object_type == "view":
            return f"{name} is a view: name the table that it selects from."
        if self.memory_optimized:
            return f"The table {name} is memory-optimised and so has no row locks to skip: use one that is not."
        if self.columnstore:
            return f"The table {name} has a clustered columnstore index and so takes no row locks: drop the index."
        for trigger in self.triggers:
            if trigger.instead_of and not trigger.disabled and trigger.event in {"INSERT", "DELETE"}:
                return f"The trigger {trigger.name} of {name} replaces every {trigger.event}: disable it."
        return None

    def require(self, *kinds: str) -> None:
        """Raise :class:`NotAQueueError` for a table of another kind, or one that statements cannot work on."""
        if self.kind not in kinds:
            reason = _missing(kinds[0], self.types)
            advice = "check the address"
            if kinds[0] != "queue" and self.kind in {"queue", "delayed"} and self.object_type == "table":
                advice += (
                    "; if it was made by mistake, drop it with 'sqlqueue drop <table>', and create the right one with "
                    f"{CREATE_COMMANDS[kinds[0]]}"
                )
            raise NotAQueueError(f"{self.table.canonical} is not a {kinds[0]} table ({reason}): {advice}.")
        if self.unusable:
            raise NotAQueueError(self.unusable)

    def to_dict(self) -> dict[str, Any]:
        """Return the layout as plain JSON values."""
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
    """Return the state of the index on Expires: filtered, plain, disabled or none."""
    if index is None:
        return "none"
    if index.disabled:
        return "disabled"
    return "filtered" if index.filtered else "plain"


def kind_of(types: Mapping[str, str]) -> str:
    """Return the kind of a table by the names and base types of its columns: queue, delayed, subscription or other.

    This package's own tables with messages, which have a queue's columns too, are other.
    """
    return next((kind for kind in _KINDS if not _missing(kind, types)), "other")


def column_differences(columns: Mapping[str, TableColumn], expected: Mapping[str, str]) -> list[str]:
    """Return the differences between a table's columns and those of a CREATE TABLE, as phrases."""
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
    """Return the reason why a table is not of a kind, as a phrase; empty if it is."""
    if "Expired" in types and all(types.get(name, own) == own for name, own in _OWN.items()):
        return "its messages were taken out of a queue"
    wanted = _KINDS[kind]
    if absent := [name for name in wanted if name not in types]:
        return f"no column {', '.join(absent)}"
    return ", ".join(f"the column {name} is {types[name]}" for name in wanted if types[name] not in wanted[name])
