"""The hints of the statements: what READPAST and NOLOCK want beside them, and where an index is named.

Source: docs/transport/transactions.md, "Isolation and READPAST" and "Purges beside receivers".
"""

from __future__ import annotations

import re

import pytest

from airflow_sqlqueue.sql import _queries

HINTS = [
    pytest.param(name, {*re.findall(r"[A-Z]+", hints)}, hints, id=f"{name}-{number}")
    for name, query in _queries().items()
    for number, hints in enumerate(re.findall(r"WITH \(([A-Z][^)]*)\)", query.text))
]


@pytest.mark.parametrize(("name", "hints", "text"), HINTS)
def test_hints(name: str, hints: set[str], text: str) -> None:
    if "READPAST" in hints:
        assert "ROWLOCK" in hints, "READPAST waits for page locks"
        assert hints & {"UPDLOCK", "READCOMMITTEDLOCK"}, "error 650 where READ_COMMITTED_SNAPSHOT is on"
    if "NOLOCK" in hints:
        assert hints == {"NOLOCK"}
    assert not (hints & {"HOLDLOCK", "SERIALIZABLE"} and not hints & {"TABLOCK", "TABLOCKX"}), "locks gaps"


def test_there_are_hints_to_look_at() -> None:
    assert len(HINTS) > 30


def test_a_requeue_waits_for_a_seal_under_way() -> None:
    """The condition on the state is not to be tried on the last committed version of the batch's row."""
    text = _queries()["ledger.requeue"].text
    assert re.search(r"UPDATE b SET .*\nFROM \{batch\} AS b WITH \(UPDLOCK, ROWLOCK\)\n", text)


BY_ROW_VERSION = [name for name, query in _queries().items() if "[RowVersion] IN ({row_versions})" in query.text]


@pytest.mark.parametrize("name", BY_ROW_VERSION)
def test_rows_of_a_queue_are_found_by_their_row_versions_in_the_index(name: str) -> None:
    """A table of delayed messages has no index on RowVersion; that of staged messages is clustered by it."""
    text = _queries()[name].text
    assert "{seek}" in text or name in {"delayed.cancel", "quarantine.move_staged"}
