"""Queue addresses as the transport writes them: ``table@[schema]@[catalog]``.

The grammar is the one of versions 3.1 to 9, with its leniencies (docs/transport/addresses.md, "Grammar" and "Written
forms").
"""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass

from airflow_sqlqueue.errors import AddressError
from airflow_sqlqueue.untrusted import is_text, quoted

MAX_IDENTIFIER_LENGTH = 128
"""SQL Server's limit for an identifier, in UTF-16 units."""

MAX_ADDRESS_LENGTH = 1_000
"""Characters beyond which a header's text is not looked up as an address: three names of 128 take some 780."""

LEGACY_VERSIONS = ("1", "2", "3.0")
"""Versions of the transport that read addresses in ways of their own."""


def quote(identifier: str) -> str:
    """A delimited identifier, ``[a]]b]`` for ``a]b``. The only way a name gets into a statement of this package.

    Raises :class:`AddressError` for what the server would refuse or cut: a blank name, more than 128 characters, a NUL,
    half a surrogate pair.
    """
    check_identifier(identifier)
    return f"[{identifier.replace(']', ']]')}]"


def check_identifier(identifier: str) -> None:
    """Raise :class:`AddressError` where ``identifier`` cannot name anything on the server."""
    if not identifier.strip():
        raise AddressError("A table, schema or catalog name is blank: name it.")
    if "\0" in identifier:
        raise AddressError(f"The name {quoted(identifier)} holds a NUL character, which SQL Server refuses: remove it.")
    if not is_text(identifier):
        raise AddressError(f"The name {quoted(identifier)} holds half a surrogate pair, which is not text: remove it.")
    length = len(identifier.encode("utf-16-le")) // 2
    if length > MAX_IDENTIFIER_LENGTH:
        raise AddressError(
            f"The name {quoted(identifier, 40)} is longer than {MAX_IDENTIFIER_LENGTH} characters: shorten it."
        )


def unquote(text: str) -> str:
    """``[a]]b]`` becomes ``a]b``; text that does not begin with ``[`` and end with ``]`` stays as it is."""
    if len(text) >= 2 and text.startswith("[") and text.endswith("]"):
        return text[1:-1].replace("]]", "]")
    return text


@dataclass(frozen=True)
class QueueAddress:
    """An address: the table, and the schema and catalog where they are given.

    ``schema`` and ``catalog`` are plain names, without brackets; None means that the address does not say. Two
    addresses are equal when their texts name the same parts with the same case: whether the server takes two spellings
    for one table depends on its collation.
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

        The table is everything before the first ``@``, untouched. A part that is bracketed may hold ``@``; a malformed
        one is taken literally; a blank one is not given; what follows a third ``@`` is dropped. With ``strict`` the
        malformed and the dropped raise :class:`AddressError` with the position in the text, as a blank table always
        does.
        """
        table, separator, rest = text.partition("@")
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

        ``"3.0"`` cuts at every ``@``, inside brackets too, and knows no catalog. ``"1"`` and ``"2"`` take everything
        after the first ``@`` for a machine name and drop it; a name of more than 128 characters becomes a GUID.
        """
        table, *rest = text.split("@")
        if not table.strip():
            raise AddressError(f"The queue address {quoted(text)} has no table name before the first '@': give one.")
        if _legacy(version) == "3.0":
            schema = unquote(rest[0]) if rest else ""
            return cls(table, schema if schema.strip() else None)
        return cls(hashed_name(table))

    def text_for(self, version: str) -> str:
        """The address for a peer of version ``"3.0"``, ``"1"`` or ``"2"``, which reads back the same table.

        ``"3.0"`` gets the two-part form, ``"1"`` and ``"2"`` the bare name; a catalog, and for these a schema, must be
        set in the peer's own configuration. Raises :class:`AddressError` where the peer would read another name.
        """
        if _legacy(version) == "3.0":
            if "@" in (self.schema or ""):
                raise AddressError(f"Version 3.0 cannot read the schema {quoted(self.schema)}, which holds an '@'.")
            return str(QueueAddress(self.table, self.schema))
        return self.table

    def __str__(self) -> str:
        """The address form: only the parts that are known, schema and catalog always bracketed."""
        text = self.table
        if self.schema or self.catalog:
            text += f"@{_bracket(self.schema)}"
        if self.catalog:
            text += f"@{_bracket(self.catalog)}"
        return text


def without_machine(text: str) -> QueueAddress | None:
    """The bare queue of ``queue@MACHINE``, as versions 1 and 2 wrote it into headers; None for every other address.

    The text alone cannot distinguish a machine from a schema that is written without brackets
    (docs/transport/addresses.md, "Ambiguous addresses").
    """
    table, *rest = text.split("@")
    return QueueAddress(table) if len(rest) == 1 and rest[0].strip() and not rest[0].startswith("[") else None


def as_sql_name(text: str) -> QueueAddress | None:
    """What ``dbo.MyTable`` or ``[db].[dbo].[MyTable]`` means in SQL; None for other texts and for no address.

    To the transport both are the name of one table, dots and all: this is for hints, never for a guess.
    """
    parts = [match[0] for match in re.finditer(r"\[(?:[^]]|\]\])*\]|[^.\[\]]+", text)]
    if not 2 <= len(parts) <= 3 or ".".join(parts) != text:
        return None
    *catalog, schema, table = (unquote(part) for part in parts)
    usable = table.strip() and "@" not in table and schema.strip()
    return QueueAddress(table, schema, *catalog) if usable else None


def hashed_name(name: str) -> str:
    """The table that versions 1.2 to 2.2 made for a queue name: from 129 characters on a GUID of its MD5.

    Those versions hashed the bytes of the machine's code page; for names outside ASCII this takes Windows-1252.
    """
    # Half a surrogate pair is counted here and refused where the name is used.
    if len(name.encode("utf-16-le", "surrogatepass")) // 2 <= MAX_IDENTIFIER_LENGTH:
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

    The search begins at index 1, so that an ``@`` in front is data; inside brackets an ``@`` ends the part only after
    an odd number of ``]``. Both are what the transport does (docs/transport/addresses.md, "Grammar", point 3).
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
        return "a ']' stands in a name without brackets" if "]" in part else None
    if len(part) < 2 or not part.endswith("]"):
        return "the bracket is not closed"
    if "]" in part[1:-1].replace("]]", ""):
        return "a ']' inside brackets must be doubled"
    return None
