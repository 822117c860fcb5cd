"""Queue addresses as the transport writes them: ``table@[schema]@[catalog]``.

The grammar is that of versions 3.1 to 9, and as lenient (docs/transport/addresses.md, "Grammar" and "Written forms").
"""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.errors import AddressError
from airflow_sqlqueue.untrusted import is_text, quoted, units

MAX_IDENTIFIER_LENGTH = 128
"""SQL Server's limit for an identifier, in UTF-16 units."""

MAX_ADDRESS_LENGTH = 1_000
"""The most characters of a header's text that is looked up as an address: three names of 128 take some 780."""

LEGACY_VERSIONS = ("1", "2", "3.0")
"""Versions of the transport that read addresses in another way than later versions do."""


def quote(identifier: str) -> str:
    """Return a delimited identifier: ``[a]]b]`` for ``a]b``. Every name in a statement of this package comes from here.

    Raises :class:`AddressError` for a name that the server would refuse or cut: a blank one, one of more than 128
    characters, one with a NUL or half a surrogate pair.
    """
    check_identifier(identifier)
    return f"[{identifier.replace(']', ']]')}]"


def text_of(what: str, value: Any) -> str:
    """Return the text of an address or a name. Raises :class:`AddressError` for a value that is no text.

    A template may render to any value, and its form in Python would be the name of another queue.
    """
    if not isinstance(value, str):
        raise AddressError(f"The {what} is a value of the type {type(value).__name__}: give a text.")
    return value


def check_identifier(identifier: str) -> None:
    """Raise :class:`AddressError` if ``identifier`` cannot be a name on the server."""
    if not identifier.strip():
        raise AddressError("A table, schema or catalog name is blank: name it.")
    if "\0" in identifier:
        raise AddressError(f"The name {quoted(identifier)} holds a NUL character, which SQL Server refuses: remove it.")
    if not is_text(identifier):
        raise AddressError(f"The name {quoted(identifier)} holds half a surrogate pair, which is not text: remove it.")
    if not has_valid_length(identifier):
        raise AddressError(
            f"The name {quoted(identifier, 40)} is longer than {MAX_IDENTIFIER_LENGTH} characters: shorten it."
        )


def has_valid_length(identifier: str) -> bool:
    """Return whether a text is short enough for a name on the server; half a surrogate pair counts as a character."""
    return units(identifier) <= MAX_IDENTIFIER_LENGTH


def unquote(text: str) -> str:
    """Return ``a]b`` for ``[a]]b]``; text that does not begin with ``[`` and end with ``]`` stays as it is."""
    if len(text) >= 2 and text.startswith("[") and text.endswith("]"):
        return text[1:-1].replace("]]", "]")
    return text


@dataclass(frozen=True)
class QueueAddress:
    """The address of a queue: the table, and optionally the schema and the catalog.

    ``schema`` and ``catalog`` are plain names, without brackets; None means that the address does not give them. Two
    addresses are equal when their parts are equal, with case: whether the server takes two spellings for one table
    depends on its collation.
    """

    table: str
    schema: str | None = None
    catalog: str | None = None

    def __post_init__(self) -> None:
        if not self.table.strip():
            raise AddressError("The queue address is blank: give at least a table name.")
        if "@" in self.table:
            raise AddressError(
                f"The table name {quoted(self.table)} holds an '@', which ends the table in an address: read one "
                "with QueueAddress.parse, and rename a table of that name."
            )

    @classmethod
    def parse(cls, text: str, *, strict: bool = False) -> QueueAddress:
        """Read an address as endpoints do.

        The table is everything before the first ``@``, untouched. A bracketed part may contain ``@``. A malformed part
        is taken literally, a blank part counts as not given, and text after a third ``@`` is dropped. With ``strict``
        a malformed part and dropped text raise :class:`AddressError` with the position in the text. A blank table
        always raises it.
        """
        table, separator, rest = text_of("queue address", text).partition("@")
        if not table.strip():
            raise AddressError(f"The queue address {quoted(text)} has no table name before the first '@': give one.")
        parts: list[str | None] = []
        position = len(table) + 1
        while separator and len(parts) < 2:
            part, separator, rest = _split_part(rest)
            if strict and (problem := _malformed(part)):
                raise AddressError(f"The queue address {quoted(text)} is malformed at position {position}: {problem}.")
            name = unquote(part)
            parts.append(name if name.strip() else None)
            position += len(part) + 1
        if strict and separator:
            raise AddressError(
                f"The queue address {quoted(text)} is malformed at position {position - 1}: nothing may follow the "
                "catalog."
            )
        schema, catalog = (*parts, None, None)[:2]
        return cls(table, schema, catalog)

    @classmethod
    def parse_as(cls, text: str, version: str) -> QueueAddress:
        """Read an address as an endpoint of an older version does (docs/transport/addresses.md, "Versions 1 and 2").

        Version ``"3.0"`` cuts at every ``@``, inside brackets too, and has no catalog. Versions ``"1"`` and ``"2"``
        take everything after the first ``@`` for a machine name and drop it; a name of more than 128 characters becomes
        a GUID.
        """
        table, *rest = text_of("queue address", text).split("@")
        if not table.strip():
            raise AddressError(f"The queue address {quoted(text)} has no table name before the first '@': give one.")
        if _legacy(version) == "3.0":
            schema = unquote(rest[0]) if rest else ""
            return cls(table, schema if schema.strip() else None)
        return cls(hashed_name(table))

    def text_for(self, version: str) -> str:
        """Return the address for a peer of version ``"3.0"``, ``"1"`` or ``"2"``, which reads the same table from it.

        Version ``"3.0"`` gets the two-part form, ``"1"`` and ``"2"`` get the bare name. The peer's own configuration
        must set the catalog, and for ``"1"`` and ``"2"`` the schema. Raises :class:`AddressError` if the peer would
        read another name.
        """
        if _legacy(version) == "3.0":
            if "@" in (self.schema or ""):
                raise AddressError(f"Version 3.0 cannot read the schema {quoted(self.schema)}, which holds an '@'.")
            return str(QueueAddress(self.table, self.schema))
        return self.table

    def __str__(self) -> str:
        """Return the address as text: only the parts that are given, with the schema and the catalog in brackets."""
        text = self.table
        if self.schema or self.catalog:
            text += f"@{_bracket(self.schema)}"
        if self.catalog:
            text += f"@{_bracket(self.catalog)}"
        return text


def without_machine(text: str) -> QueueAddress | None:
    """Return the bare queue of ``queue@MACHINE``, a form of versions 1 and 2 in headers; None for other addresses.

    The text alone does not show whether ``MACHINE`` is a machine or a schema without brackets
    (docs/transport/addresses.md, "Ambiguous addresses").
    """
    table, *rest = text.split("@")
    return QueueAddress(table) if len(rest) == 1 and rest[0].strip() and not rest[0].startswith("[") else None


def as_sql_name(text: str) -> QueueAddress | None:
    """Return the address that ``dbo.MyTable`` or ``[db].[dbo].[MyTable]`` would have in SQL; None for other texts.

    The transport takes such a text for the name of one table, dots included: use this for hints in errors only.
    """
    parts = [match[0] for match in re.finditer(r"\[(?:[^]]|\]\])*\]|[^.\[\]]+", text)]
    if not 2 <= len(parts) <= 3 or ".".join(parts) != text:
        return None
    *catalog, schema, table = (unquote(part) for part in parts)
    usable = table.strip() and "@" not in table and schema.strip()
    return QueueAddress(table, schema, *catalog) if usable else None


def hashed_name(name: str) -> str:
    """Return the table that versions 1.2 to 2.2 made for a queue name: a GUID of its MD5 from 129 characters on.

    Those versions hashed the bytes of the machine's code page; for names outside ASCII this function uses Windows-1252.
    """
    if has_valid_length(name):
        return name
    digest = hashlib.md5(name.encode("cp1252", "replace"), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes_le=digest))


def _legacy(version: str) -> str:
    if version not in LEGACY_VERSIONS:
        raise AddressError(f"Version {version!r} has no address form of its own: it is one of 1, 2 and 3.0.")
    return version


def _bracket(name: str | None) -> str:
    return f"[{(name or '').replace(']', ']]')}]"


def _split_part(text: str) -> tuple[str, str, str]:
    """Cut ``text`` at the ``@`` that ends its first part; the middle of the result is that ``@``, or empty.

    The search begins at index 1, so a leading ``@`` is data. In a bracketed part an ``@`` ends the part only after an
    odd number of ``]``. The transport does both (docs/transport/addresses.md, "Grammar", point 3).
    """
    bracketed = text.startswith("[")
    closing = 0
    for index in range(1, len(text)):
        if text[index] == "]":
            closing += 1
        elif text[index] == "@" and (not bracketed or closing % 2):
            return text[:index], "@", text[index + 1 :]
    return text, "", ""


def _malformed(part: str) -> str | None:
    if part.startswith("@"):
        return "an '@' begins a name; write [] for a part that is not given"
    if not part.startswith("["):
        return "a name without brackets contains a ']'" if "]" in part else None
    if len(part) < 2 or not part.endswith("]"):
        return "the bracket is not closed"
    if "]" in part[1:-1].replace("]]", ""):
        return "a ']' inside brackets must be doubled"
    return None
