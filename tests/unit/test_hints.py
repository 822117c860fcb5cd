"""Hints and order of the statements: companions of READPAST and NOLOCK, forced indexes, and ORDER BY.

Source: docs/transport/transactions.md, "Isolation and READPAST" and "Purges beside receivers".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from airflow_sqlqueue.queue import browsing
from airflow_sqlqueue.server.sql import _queries

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


UNORDERED = {
    "queue.expired_up_to": "a count",
    "queue.first_expired_left": "whether there is one",
    "create.lock_whole": "a lock of the whole table",
    "copies.no_writers_by_scan": "a lock of the whole table",
    "copies.first_in_gaps": "whether there is one",
    "copies.count_new": "a count",
    "delayed.count_up_to": "a count",
    "message_table.copy": "whether there is one",
}
"""Statements whose rows have no order, and what they are read for."""


def own_text(text: str, start: int) -> str:
    """A SELECT to its end, without what is in parentheses."""
    depth, own = 0, ""
    for character in text[start:]:
        depth += (character == "(") - (character == ")")
        if depth < 0 or (character == ";" and depth == 0):
            break
        own += character if depth == 0 else ""
    return own


def test_rows_that_are_limited_or_returned_have_an_order() -> None:
    """A server on which they come in order without it proves nothing."""
    unordered = set()
    for name, query in _queries().items():
        for found in re.finditer(r"\bSELECT\b", query.text):
            text = own_text(query.text, found.start())
            counts = re.match(r"SELECT (COUNT|MAX|COALESCE)\b", text)
            needs_order = re.match(r"SELECT TOP\b", text) or (re.search(r"\bFROM @\w+", text) and not counts)
            if needs_order and "ORDER BY" not in text:
                unordered.add(name)
    assert unordered == UNORDERED.keys()


def test_the_hints_are_found() -> None:
    assert len(HINTS) > 30


@pytest.mark.parametrize("name", [name for name in _queries() if name.startswith("subscription.")])
def test_subscriptions_are_read_as_they_are_committed(name: str) -> None:
    """As endpoints read them, also where READ_COMMITTED_SNAPSHOT is on: an event waits for a subscription under way."""
    text = _queries()[name].text
    assert text.count("FROM {table} WITH (READCOMMITTEDLOCK)") == len(re.findall(r"SELECT [^;]*FROM \{table\}", text))


def test_a_requeue_waits_for_a_seal_under_way() -> None:
    """The condition on the state is not to be tried on the last committed version of the batch's row."""
    text = _queries()["ledger.requeue"].text
    assert re.search(r"UPDATE b SET .*\nFROM \{batch\} AS b WITH \(UPDLOCK, ROWLOCK\)\n", text)


def test_a_search_reads_fewer_rows_than_would_lock_the_table() -> None:
    """A row may cost two locks that last as long as the statement, and 5,000 of one statement escalate."""
    assert 2 * browsing.STRETCH < 5_000


def test_counts_up_to_a_limit_need_no_key_lookup() -> None:
    """For a filtered index on Expires: a prefetched lookup keeps the keys locked."""
    text = _queries()["queue.depth_up_to_by_indexes"].text
    for read in re.findall(r"SELECT TOP \(\?\).*?FROM \{queue\}.*?ORDER BY \S+", text, re.DOTALL):
        assert set(re.findall(r"\[\w+\]", read)) in ({"[RowVersion]"}, {"[RowVersion]", "[Expires]"})
    assert len(re.findall(r"FROM \{queue\}", text)) == 2


def test_a_count_of_new_messages_needs_no_key_lookup() -> None:
    """As above, and so the index on RowVersion gives RowVersions alone."""
    text = _queries()["copies.count_new"].text
    reads = re.findall(r"SELECT [^{]*?FROM \{queue\}.*?(?=\n *\))", text, re.DOTALL)
    assert len(reads) == 3
    assert ["[Expires]" in read for read in reads] == ["{seek}" not in read for read in reads] == [False, False, True]
    assert {name for read in reads for name in re.findall(r"\[\w+\]", read.partition("WHERE")[0])} == {"[RowVersion]"}


@pytest.mark.parametrize("name", [name for name, query in _queries().items() if "g.[Low] AND" in query.text])
def test_a_gap_has_one_upper_bound(name: str) -> None:
    """Of two the server takes one for the seek, perhaps the mark, and reads up to it for each gap."""
    text = _queries()[name].text
    bounds = [*re.finditer(r"WHERE q\.\[RowVersion\] >= g\.\[Low\] AND q\.\[RowVersion\] <= ", text)]
    assert len(bounds) == text.count("g.[Low] AND")
    for found in bounds:
        rest = text[found.end() :]
        assert "[RowVersion] <" not in rest[: rest.index(") AS m")]
        assert "m.[RowVersion] <" not in rest


def seeks(text: str) -> Iterator[tuple[str, str]]:
    """Text before each seek in the index on RowVersion, from SELECT on, and text after it, to the query's end."""
    for found in re.finditer(r"\{seek\}\)", text):
        depth, end = 0, found.end()
        while end < len(text) and text[end] != ";" and depth >= 0:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        yield text[text.rindex("SELECT", 0, found.start()) : found.start()], text[found.end() : end].rstrip(" \n)")


SOUGHT = [
    pytest.param(before, after, id=f"{name}-{number}")
    for name, query in _queries().items()
    for number, (before, after) in enumerate(seeks(query.text))
]


@pytest.mark.parametrize(("before", "after"), SOUGHT)
def test_a_seek_has_a_condition_on_row_version_and_its_order(before: str, after: str) -> None:
    """The condition on the bare column, as FORCESEEK needs it (error 8622), and no other order, which would be a sort.

    What the server makes of it, tests/contract/test_plans.py asks a real one.
    """
    assert re.match(r"\s+WHERE (\{window\}|(q\.)?\[RowVersion\] (>=?|<=|=|IN))", after)
    if "TOP (" in before:
        assert re.search(r"ORDER BY \[RowVersion\]( DESC)?$", after)


def test_every_seek_is_checked() -> None:
    assert len(SOUGHT) == sum(query.text.count("{seek}") for query in _queries().values()) > 20


BY_ROW_VERSION = [name for name, query in _queries().items() if "[RowVersion] IN ({row_versions})" in query.text]


@pytest.mark.parametrize("name", BY_ROW_VERSION)
def test_rows_of_a_queue_are_found_by_their_row_versions_in_the_index(name: str) -> None:
    """A table of delayed messages has no index on RowVersion; that of staged messages is clustered by it."""
    text = _queries()[name].text
    others = {"delayed.cancel", "message_table.leave_out", "message_table.redactable", "quarantine.move_staged"}
    assert "{seek}" in text or name in others


def test_a_session_has_the_settings_that_writers_of_a_filtered_index_need() -> None:
    """Source: "SET options for indexed views and filtered indexes" in Microsoft's page on CREATE INDEX."""
    text = _queries()["session.settings"].text
    switched = {
        name.strip(): value
        for names, value in re.findall(r"^SET ([A-Z_, ]+) (ON|OFF);$", text, re.MULTILINE)
        for name in names.split(",")
    }
    needed = (
        "ANSI_NULLS",
        "ANSI_PADDING",
        "ANSI_WARNINGS",
        "ARITHABORT",
        "CONCAT_NULL_YIELDS_NULL",
        "QUOTED_IDENTIFIER",
    )
    assert {name: switched.get(name) for name in needed} == dict.fromkeys(needed, "ON")
    assert switched["NUMERIC_ROUNDABORT"] == "OFF"
    assert (switched["XACT_ABORT"], switched["IMPLICIT_TRANSACTIONS"]) == ("ON", "OFF"), (
        "a failed transaction is undone"
    )
