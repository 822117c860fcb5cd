"""Shapes of queue tables as each version of the transport makes them.

Upgrades never migrate a table, so any mix of shapes exists in production (docs/transport/queue-tables.md, "Layouts by
version" and "Columns").
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.sql.columns import queue_columns


@dataclass(frozen=True)
class Shape:
    """Columns and indexes of a queue table.

    ``headers`` is nvarchar or varchar; ``row_version_index`` nonclustered (the table is a heap), clustered, none or
    disabled; ``expires_index`` filtered (on rows that expire), plain, none or disabled. ``legacy_columns`` are
    CorrelationId, ReplyToAddress and Recoverable. ``body_string`` is a computed column BodyString for people.
    ``added`` has the columns of :data:`~airflow_sqlqueue.row.ADDED` in the layout.
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
    **dict.fromkeys(("v5", "v6", "v7", "v8", "v9"), _MODERN),
}
"""Layouts by name: ``modern``, ``clustered``, and the versions of the transport.

For a version whose releases differ: v2 is 2.2.6 (2.2.2 to 2.2.5 made tables like v3.0, older ones like v1), v3.0 is
3.0.0 to 3.0.2 (3.0.3 made tables like v2), v4 is 4.0 to 4.3.1 (4.3.2 made tables like modern), v5 is 5.0.3 and v6 is
6.0.1 and later (the releases before made tables like v4). Source: docs/transport/queue-tables.md, "Layouts by version".
"""

_WITHOUT_LEGACY = {"modern", "clustered", "v7", "v8", "v9"}


def shape_of(layout: str, *, legacy_columns: bool = True, body_string: bool = False) -> Shape:
    """Return the shape of a layout by name. Raises :class:`ConfigurationError` for a shape that no endpoint can use."""
    if layout not in SHAPES:
        raise ConfigurationError(f"There is no layout {layout!r}: choose one of {', '.join(SHAPES)}.")
    if not legacy_columns and layout not in _WITHOUT_LEGACY:
        raise ConfigurationError(
            f"Endpoints of the layout {layout!r} need the legacy columns: keep them, or choose version 7 or later."
        )
    return replace(SHAPES[layout], legacy_columns=legacy_columns, body_string=body_string)
