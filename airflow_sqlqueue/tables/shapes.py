"""What a queue table of each version looked like when it was made.

Upgrades never migrate a table, so any mix exists in the field (docs/transport/queue-tables.md, "Layouts by version" and
"Columns").
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.sql.columns import queue_columns


@dataclass(frozen=True)
class Shape:
    """How a queue table is made.

    ``headers`` is nvarchar or varchar; ``row_version_index`` nonclustered (the table is a heap), clustered, none or
    disabled; ``expires_index`` filtered (on rows that expire), plain, none or disabled. ``legacy_columns`` are
    CorrelationId, ReplyToAddress and Recoverable, ``body_string`` is a computed column of that name for people.
    ``added`` are those of :data:`~airflow_sqlqueue.row.ADDED` that the layout has.
    """

    headers: str = "nvarchar"
    row_version_index: str = "nonclustered"
    expires_index: str = "filtered"
    legacy_columns: bool = True
    body_string: bool = False
    added: tuple[str, ...] = ()

    @property
    def columns(self) -> dict[str, str]:
        """The columns as CREATE TABLE has them, by name."""
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
"""The layouts by name: ``modern``, ``clustered``, and the versions of the transport.

Where the releases of a version differ, v2 is 2.2.6 (2.2.2 to 2.2.5 made what v3.0 is, older ones what v1 is), v3.0 is
3.0.0 to 3.0.2 (3.0.3 made what v2 is), v4 is 4.0 to 4.3.1 (4.3.2 made what modern is), v5 is 5.0.3 and v6 is 6.0.1 and
later (the releases before made what v4 is). Source: docs/transport/queue-tables.md, "Layouts by version".
"""

_WITHOUT_LEGACY = {"modern", "clustered", "v7", "v8", "v9"}


def shape_of(layout: str, *, legacy_columns: bool = True, body_string: bool = False) -> Shape:
    """The shape of a layout by name. Raises :class:`ConfigurationError` for what no endpoint could use."""
    if layout not in SHAPES:
        raise ConfigurationError(f"There is no layout {layout!r}: choose one of {', '.join(SHAPES)}.")
    if not legacy_columns and layout not in _WITHOUT_LEGACY:
        raise ConfigurationError(
            f"Endpoints of the layout {layout!r} need the legacy columns: keep them, or choose version 7 or later."
        )
    return replace(SHAPES[layout], legacy_columns=legacy_columns, body_string=body_string)
