"""A condition on the text of headers that every message which matches a filter fulfils, and few others.

Headers are JSON, which SQL Server could read itself: ``JSON_VALUE`` gives no more than 4,000 characters, is an error
for text that is not JSON, and takes the first of two equal names where endpoints take the last. So the server only
leaves out what cannot match, by ``LIKE``, which needs no compatibility level and fails for no text, and whoever asked
decides about the rest. It holds whatever is escaped, and in a ``varchar`` column as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_sqlqueue.sql import Fragment

_COLLATE = "COLLATE Latin1_General_BIN2"
_WRITTEN = re.compile(r"[^A-Za-z0-9 .,:;=_-]+")
"""What may stand escaped in JSON, or means something to LIKE. ``_`` is any character there, as it may be."""

_LONGEST = 500
"""Characters of a name or a value that are looked for: a pattern has 4,000 at the most."""

_ESCAPED = rf"[Headers] LIKE N'%\u00[2-7]%' {_COLLATE}"
"""Some serializers escape characters of ASCII: these texts are for whoever decides."""

_SENT = '"NServiceBus.TimeSent":"'
_DIGITS = {number: "[0-9]" * number for number in (2, 4, 6)}
_TIME = f"{_DIGITS[4]}-{_DIGITS[2]}-{_DIGITS[2]} {_DIGITS[2]}:{_DIGITS[2]}:{_DIGITS[2]}:{_DIGITS[6]} Z"
_TIME_LENGTH = 27


@dataclass(frozen=True)
class Condition:
    """A condition with the values of its parameters."""

    text: Fragment
    values: tuple[str, ...]


def header_pattern(name: str, value: str | None) -> str:
    """What LIKE finds wherever a header has this value; None is a JSON null."""
    return f'%"{_loose(name)}"%' + ("null%" if value is None else f'"{_loose(value)}"%')


def mention_pattern(name: str, value: str) -> str:
    """What LIKE finds wherever a header's value has this text in it."""
    return f'%"{_loose(name)}"%{_loose(value)}%'


def _loose(text: str) -> str:
    kept = _WRITTEN.sub("%", text[:_LONGEST])
    return kept if len(text) <= _LONGEST else f"{kept}%"


def may_match(
    patterns: list[str], *, unless_without: str | None = None, since: str | None = None, until: str | None = None
) -> Condition:
    """The condition that all patterns are found, and that the message was sent ``since`` and before ``until``.

    The times are in the form of the transport, which compares as text; a message whose TimeSent has another form, or
    that has none, fulfils the condition. So does one without the header ``unless_without``.
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
    """Where TimeSent stands twice, or not in the form of the transport, the text says nothing."""
    at = f"CHARINDEX(N'{_SENT}' {_COLLATE}, [Headers])"
    again = f"CHARINDEX(N'{_SENT}' {_COLLATE}, [Headers], {at} + 1)"
    value = f"SUBSTRING([Headers], {at} + {len(_SENT)}, {_TIME_LENGTH})"
    bounds = [f"{value} {sign} ? {_COLLATE}" for sign, given in ((">=", since), ("<", until)) if given]
    return f"({at} = 0 OR {again} > 0 OR {value} NOT LIKE N'{_TIME}' {_COLLATE} OR ({' AND '.join(bounds)}))"
