"""Narrowing of a search: a condition on the text of headers that is true for every matching message and few others.

SQL Server could read headers as JSON, but ``JSON_VALUE`` returns at most 4,000 characters, fails for text that is not
JSON, and takes the first of two equal names where endpoints take the last. So the server only excludes messages that
cannot match, by ``LIKE``, which needs no compatibility level and fails for no text. The client checks the remaining
messages. The condition allows for any escaped character, and for a ``varchar`` column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from airflow_sqlqueue.server.sql import Fragment

_COLLATE = "COLLATE Latin1_General_BIN2"
_WRITTEN = re.compile(r"[^A-Za-z0-9 .,:;=_-]+")
"""Characters that JSON may escape or that are special in LIKE. ``_`` stays: in LIKE it matches any character."""

_LONGEST = 500
"""The most characters of a name or a value to search for: a pattern has at most 4,000."""

_ESCAPED = rf"[Headers] LIKE N'%\u00[2-7]%' {_COLLATE}"
"""The condition of texts with escaped ASCII characters, which some serializers write: the client checks them."""

_SENT = '"NServiceBus.TimeSent"'
_DIGITS = {number: "[0-9]" * number for number in (2, 4, 6)}
_TIME = f"{_DIGITS[4]}-{_DIGITS[2]}-{_DIGITS[2]} {_DIGITS[2]}:{_DIGITS[2]}:{_DIGITS[2]}:{_DIGITS[6]} Z"
_TIME_LENGTH = len(_TIME.replace("[0-9]", "0"))
_COLON = ':"'


@dataclass(frozen=True)
class Condition:
    """Condition of a statement, with the values of its parameters."""

    text: Fragment
    values: tuple[str, ...] = field(repr=False)


def header_pattern(name: str, value: str | None) -> str:
    """Return the LIKE pattern of headers with this name and value; None is a JSON null."""
    return f'%"{_loose(name)}"%' + ("null%" if value is None else f'"{_loose(value)}"%')


def mention_pattern(name: str, value: str) -> str:
    """Return the LIKE pattern of headers with this name and a value that contains this text."""
    return f'%"{_loose(name)}"%{_loose(value)}%'


def _loose(text: str) -> str:
    kept = _WRITTEN.sub("%", text[:_LONGEST])
    return kept if len(text) <= _LONGEST else f"{kept}%"


def may_match(
    patterns: list[str], *, unless_without: str | None = None, since: str | None = None, until: str | None = None
) -> Condition:
    """Return the condition that all patterns match, and that the message was sent ``since`` and before ``until``.

    The times have the form of the transport, which sorts as text. The condition is also true for a message without
    TimeSent or with another form of it, and for a message without the header ``unless_without``.
    """
    found = " AND ".join([f"[Headers] LIKE ? {_COLLATE}"] * len(patterns))
    values = list(patterns)
    conditions = []
    if patterns:
        texts = [found, _ESCAPED]
        if unless_without is not None:
            texts.append(f"[Headers] NOT LIKE ? {_COLLATE}")
            values.append(f'%"{_loose(unless_without)}"%')
        conditions.append(f"({' OR '.join(texts)})")
    if since is not None or until is not None:
        conditions.append(_sent_between(since is not None, until is not None))
        values += [moment for moment in (since, until) if moment is not None]
    return Condition(Fragment(" AND ".join(conditions) or "1 = 1"), tuple(values))


def _sent_between(since: bool, until: bool) -> str:
    """Return the condition on TimeSent, true where it occurs twice or in another form than the transport's."""
    at = f"CHARINDEX(N'{_SENT}' {_COLLATE}, [Headers])"
    again = f"CHARINDEX(N'{_SENT}' {_COLLATE}, [Headers], {at} + 1)"
    written = f"SUBSTRING([Headers], {at} + {len(_SENT)}, {len(_COLON) + _TIME_LENGTH})"
    value = f"SUBSTRING([Headers], {at} + {len(_SENT) + len(_COLON)}, {_TIME_LENGTH})"
    unclear = [f"{at} = 0", f"{again} > 0", f"{written} NOT LIKE N'{_COLON}{_TIME}' {_COLLATE}", _ESCAPED]
    bounds = [f"{value} {sign} ? {_COLLATE}" for sign, given in ((">=", since), ("<", until)) if given]
    return f"({' OR '.join(unclear)} OR ({' AND '.join(bounds)}))"
