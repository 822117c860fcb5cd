"""Named queries: every T-SQL text of the project.

A ``.sql`` file here has sections of the form::

    -- name: purpose, a phrase that completes "Could not ..."
    SELECT ... FROM {queue} WHERE RowVersion <= ?;

Values are parameters, except for the numbers in statements without parameters. A placeholder in braces is such a
number, an identifier or a list of columns. Only a :class:`Fragment` fills it, and only :func:`identifier`,
:func:`literal`, :func:`number`, :func:`seek`, :func:`readpast`, :func:`passing`, ``columns.py`` and ``narrowing.py``
make fragments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import NewType

from airflow_sqlqueue.messages.address import quote
from airflow_sqlqueue.messages.routing import ResolvedAddress

Fragment = NewType("Fragment", str)
"""A piece of a statement that is safe to insert: a quoted name, or text of this package."""


@dataclass(frozen=True)
class Query:
    """A statement, its name, its purpose after "Could not", whether it is ``ours``, and its ``own`` table, if any."""

    name: str
    purpose: str
    text: str
    ours: bool = False
    own: str = ""

    def bind(self, **fragments: Fragment) -> Query:
        """Return the query with its placeholders filled."""
        return replace(self, text=self.text.format(**fragments))

    def naming(self, noun: str, table: ResolvedAddress) -> Query:
        """Return the query with the table's address after ``noun`` in its purpose, and so in its errors."""
        return replace(self, purpose=self.purpose.replace(noun, f"{noun} {table.canonical}"))


def identifier(name: str | ResolvedAddress) -> Fragment:
    """Return a quoted name, or the qualified name of a table."""
    return Fragment(name.qualified_name if isinstance(name, ResolvedAddress) else quote(name))


def literal(text: str) -> Fragment:
    """Return a Unicode literal for printed scripts; statements that run use parameters instead."""
    return Fragment("N'" + text.replace("'", "''") + "'")


def number(value: int) -> Fragment:
    """Return a whole number for a statement without parameters. The server keeps a plan for each number: use few."""
    return Fragment(str(int(value)))


def seek(index: str | None) -> Fragment:
    """Return a further table hint: find the rows by a seek in this index only. Empty without an index.

    The statement needs a condition that the index can serve, else the server finds no plan (error 8622; error 308 if
    the index is missing). Source: "Table hints (Transact-SQL)", which allows FORCESEEK and INDEX together in a FROM
    clause.
    """
    return Fragment("" if index is None else f", FORCESEEK, INDEX ({identifier(index)})")


def readpast(passes: bool) -> Fragment:
    """Return a table hint before others: skip rows that others have locked. Empty: wait for these rows."""
    return Fragment("READPAST, " if passes else "")


def passing(passes: bool) -> Fragment:
    """Return all hints of a table: skip rows that others have locked. Empty: wait for these rows, or read their last
    committed version in a database with READ_COMMITTED_SNAPSHOT on."""
    return Fragment(" WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)" if passes else "")


def query(name: str, **fragments: Fragment) -> Query:
    """Return the query ``file.name`` with its placeholders filled."""
    return _queries()[name].bind(**fragments) if fragments else _without_names(name)


@cache
def _without_names(name: str) -> Query:
    return _queries()[name].bind()


_SECTION = re.compile(r"^-- (?P<name>[a-z_]+): (?P<purpose>.+)$", re.MULTILINE)


@cache
def _queries() -> dict[str, Query]:
    queries: dict[str, Query] = {}
    for file in files(__name__).iterdir():
        if not file.name.endswith(".sql"):
            continue
        text = file.read_text("utf-8")
        sections = list(_SECTION.finditer(text))
        for section, following in zip(sections, [*sections[1:], None], strict=True):
            name = f"{file.name.removesuffix('.sql')}.{section['name']}"
            body = text[section.end() : following.start() if following else len(text)]
            queries[name] = Query(name, section["purpose"].strip(), body.strip(), ours=True)
    return queries
