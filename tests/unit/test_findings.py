"""Findings on tables that a test server cannot make: from rows as the catalog has them to what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from airflow_sqlqueue.inspection.findings import Finding, InspectedTable
from airflow_sqlqueue.inspection.inspect import findings_of
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.tables.discovery import FoundTable
from airflow_sqlqueue.tables.reading import layout_of

TABLE = ResolvedAddress("orders", "dbo", "nsb")
COLUMNS = [
    ("Id", "uniqueidentifier", 16, False, False, False, 0, None),
    ("Expires", "datetime", 8, True, False, False, 0, None),
    ("Headers", "nvarchar", -1, False, False, False, 0, None),
    ("Body", "varbinary", -1, True, False, False, 0, None),
    ("RowVersion", "bigint", 8, False, True, False, 0, None),
]
"""As inspect.columns returns them: the last value is encryption_type of ``sys.columns``."""

INDEXES = [
    ("Index_RowVersion", "RowVersion", "NONCLUSTERED", False, None),
    ("Index_Expires", "Expires", "NONCLUSTERED", False, "([Expires] IS NOT NULL)"),
]


class Nothing:
    """Surroundings of a table without neighbours and receivers."""

    def exists(self, table: ResolvedAddress) -> bool:
        return False

    def durability(self, catalog: str) -> str | None:
        return "DISABLED"

    def receivers(self, table: ResolvedAddress) -> Sequence[tuple[str | None, str | None]]:
        return []

    def tables(self, catalog: str) -> list[FoundTable]:
        return []


def findings(
    columns: list[tuple[Any, ...]] = COLUMNS, temporal: int = 0, captured: bool = False
) -> tuple[Finding, ...]:
    layout = layout_of(TABLE, "table", (False, temporal, captured, "TABLE"), False, columns, INDEXES, [])
    return findings_of(InspectedTable(Nothing(), layout, rows=0, data_pages=0, online=False))


def test_a_sound_table_has_none() -> None:
    assert findings() == ()


@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("name", ["Headers", "Body"])
def test_a_column_that_is_always_encrypted_is_named(name: str, kind: int) -> None:
    """Deterministic or randomized (encryption_type 1 and 2 of ``sys.columns``)."""
    (finding,) = findings([(*row[:-1], kind) if row[0] == name else row for row in COLUMNS])
    assert (finding.code, finding.severity, finding.fix) == (f"encrypted-{name}", "warning", None)
    assert f"The column {name} is always encrypted" in finding.text


def test_a_system_versioned_table_is_named_with_its_remedy() -> None:
    """temporal_type 2 of ``sys.tables``; a history table, which has 1, cannot be switched off."""
    (finding,) = findings(temporal=2)
    assert (finding.code, finding.severity) == ("system-versioned", "warning")
    assert "CONTROL on both tables" in finding.text
    assert finding.fix is not None
    assert finding.fix.text.endswith("ALTER TABLE [nsb].[dbo].[orders] SET (SYSTEM_VERSIONING = OFF);")
    assert findings(temporal=1) == ()


def test_a_table_that_is_captured_is_named() -> None:
    (finding,) = findings(captured=True)
    assert (finding.code, finding.fix) == ("change-data-capture", None)
