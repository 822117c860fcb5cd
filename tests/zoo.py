"""A zoo of hostile rows: every kind of malformed headers, addresses, times, ids and content types.

Rows are inserted as bytes of UTF-16, which the server keeps as they are, halves of surrogate pairs and NUL included.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import strategies as st

from airflow_sqlqueue.messages.message import MAX_CHARACTERS, MAX_HEADERS
from airflow_sqlqueue.messages.message import HeaderNames as H
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query, identifier

CANARY = "canary"
"""Part of hostile values: where it shows up, something that a row holds has left us."""

VALUES = (
    f"{CANARY}\ud800",
    "\udc00",
    f"{CANARY}\0",
    f"\x1b]52;c;{CANARY}\x07\r\n2026-01-01 forged line of a log",
    f"{CANARY}\u202e",
    CANARY * 1_000,
    "",
    " ",
    "@",
    "@@@",
    "[",
    "a]b@[c]d@[e",
    f"{CANARY}@\ud800",
    f"{CANARY}@[\ud800]@[\udc00]",
    f"{CANARY}@[other]@[nowhere]",
    f"{CANARY}\x1b@[dbo]@[\x1b]",
    f"{CANARY}.Retries@HOST",
    "x" * 129,
    "Ł" * 129,
    "y" * 400 + "@[" + "z" * 400 + "]",
    "#temporary",
    "../../etc/passwd",
    "-1",
    "99999999999999999999",
    "NaN",
    "9999-12-31 23:59:59:999999 Z",
    "0000-00-00 00:00:00:000000 Z",
    "2026-11-23T10:00:00+99:99",
    "10675199.02:48:05.4775807",
    "-00:00:01",
    "System.Object[], [[[`1[[",
    "text/plain; charset=\ud800",
    "application/json; charset=idna",
    "null",
)
"""Values of headers."""

NAMES = (
    H.MESSAGE_ID,
    H.CORRELATION_ID,
    H.CONVERSATION_ID,
    H.ENCLOSED_MESSAGE_TYPES,
    H.CONTENT_TYPE,
    H.REPLY_TO_ADDRESS,
    H.TIME_SENT,
    H.TIME_OF_FAILURE,
    H.FAILED_Q,
    H.FORWARD_DESTINATION,
    H.PROCESSING_MACHINE,
    H.PROCESSING_ENDPOINT,
    H.ORIGINATING_ENDPOINT,
    H.ORIGINATING_MACHINE,
    H.EXCEPTION_TYPE,
    H.DELAYED_RETRIES,
    H.DELAYED_RETRIES_TIMESTAMP,
    H.IMMEDIATE_RETRIES,
    H.DELIVER_AT,
    H.TIME_TO_BE_RECEIVED,
    H.ERROR_CODE,
    "\ud800",
    "",
)
"""Headers that the package reads, and two that it does not."""

TEXTS = (
    "",
    " ",
    "null",
    "[]",
    "{",
    "not json",
    f"{CANARY} \ud83d",
    '{"' + H.MESSAGE_ID + '":"\ud800"}',
    '\ufeff{"a":"b"}',
    '{"a":1,"a":"b"}',
    '{"' + H.FAILED_Q + '":null}',
    '{"a":' + "9" * 70_000 + "}",
    "[" * 50_000,
    '{"a":' * 20_000,
    '{"a":[' + "{}," * 30_000 + "{}]}",
    json.dumps({f"k{number}": "" for number in range(MAX_HEADERS + 1)}),
    '{"a":"' + CANARY * (MAX_CHARACTERS // 6 + 10) + '"}',
    '{"a":"' + "\u2603" * (2 * MAX_CHARACTERS) + '"}',
)
"""Headers that cannot be read as a whole."""


def headers(name: str, value: str, **more: str) -> str:
    """JSON with the value as it is, but for what JSON does not take."""
    text = json.dumps({**more, name: value}, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")


def escaped(name: str, value: str, **more: str) -> str:
    """The same in ASCII."""
    return json.dumps({**more, name: value})


SHORT: tuple[str, ...] = (
    *(text for text in TEXTS if len(text) <= MAX_CHARACTERS),
    *(headers(NAMES[place % len(NAMES)], value) for place, value in enumerate(VALUES)),
    *(escaped(NAMES[place % len(NAMES)], value) for place, value in enumerate(reversed(VALUES))),
    *(escaped(name, f"{CANARY}\ud800") for name in NAMES),
    *(headers(name, f"{CANARY}\ud800") for name in NAMES),
)
"""The zoo without what is too long to be read, for tests that are repeated."""

TOO_LONG, *_OTHERS = (text for text in TEXTS if len(text) > MAX_CHARACTERS)

ROWS = (*SHORT, TOO_LONG, *_OTHERS)
"""The headers of a zoo. The last are too long to be read, and take a server its time."""

_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)


def random_rows() -> st.SearchStrategy[list[str]]:
    """Headers of further rows: known names with values of any kind, and texts that are anything."""
    value = st.sampled_from(VALUES) | _TEXT
    mapping = st.dictionaries(st.sampled_from(NAMES) | _TEXT, value, max_size=6)
    write = st.sampled_from([lambda each: json.dumps(each), lambda each: json.dumps(each, ensure_ascii=False)])
    readable = st.builds(lambda dump, each: str(dump(each)), write, mapping)
    return st.lists(readable | _TEXT, min_size=5, max_size=15)


def insert(session: Session, table: ResolvedAddress, texts: Sequence[str], **columns: str) -> int:
    """Insert rows with these headers, whatever they hold, and the body ``zoo``; further columns are texts of SQL."""
    names = {"Headers": "CAST(CAST(? AS varbinary(max)) AS nvarchar(max))", "Body": "0x7A6F6F", **columns}
    row = f"({', '.join(names.values())})"
    text = f"INSERT INTO {identifier(table)} ({', '.join(f'[{name}]' for name in names)}) VALUES "
    values = [each.encode("utf-16-le", "surrogatepass") for each in texts]
    session.run(Query("zoo", "insert rows of the zoo", text + ", ".join([row] * len(values))), *values)
    return len(values)


def copy(session: Session, source: ResolvedAddress, rows: int, table: ResolvedAddress, **columns: str) -> int:
    """Insert the first rows of another table, in their order, as :func:`insert` does."""
    names = {"Headers": "[Headers]", "Body": "[Body]", **columns}
    text = (
        f"INSERT INTO {identifier(table)} ({', '.join(f'[{name}]' for name in names)}) "
        f"SELECT TOP (?) {', '.join(names.values())} FROM {identifier(source)} ORDER BY [RowVersion]"
    )
    session.run(Query("zoo", "insert rows of the zoo", text), rows)
    return rows


QUEUE: dict[str, str] = {"Id": "NEWID()", "Recoverable": "1"}
"""The columns of a queue's row that the zoo has to fill."""

DELAYED: dict[str, str] = {"Due": "DATEADD(hour, -1, GETUTCDATE())"}


def count(session: Session, table: ResolvedAddress, body: str = "0x7A6F6F") -> int:
    """The rows of the zoo that are in a table."""
    text = f"SELECT COUNT(*) FROM {identifier(table)} WHERE [Body] = {body}"
    return int(session.value(Query("zoo", "count rows of the zoo", text)))


def other_bodies(session: Session, table: ResolvedAddress) -> list[bytes]:
    """The bodies of the other rows, in their order."""
    text = f"SELECT [Body] FROM {identifier(table)} WHERE [Body] <> 0x7A6F6F ORDER BY [RowVersion]"
    return [bytes(row[0]) for row in session.run(Query("zoo", "read the others", text))]
