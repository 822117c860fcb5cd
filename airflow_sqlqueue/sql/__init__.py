"""Every T-SQL text of the project, as named queries.

A ``.sql`` file here holds sections of the form::

    -- name: what it does, as a phrase that ends "Could not ..."
    SELECT ... FROM {queue} WHERE RowVersion <= ?;

Values are parameters, but for the numbers of statements that have none. What stands in braces is such a number, an
identifier or a list of columns, and goes in only as :class:`Fragment`, which nothing but :func:`identifier`,
:func:`literal`, :func:`number`, :func:`seek`, :func:`readpast`, :func:`passing`, ``columns.py`` and ``narrowing.py``
makes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import NewType

from airflow_sqlqueue.address import quote
from airflow_sqlqueue.routing import ResolvedAddress

Fragment = NewType("Fragment", str)
"""A piece of a statement that is safe to paste: a quoted name, or text written in this package."""


@dataclass(frozen=True)
class Query:
    """A statement with its name and its purpose, a phrase that completes "Could not ...".

    ``ours`` is False for a text that was written outside of this package.
    """

    name: str
    purpose: str
    text: str
    ours: bool = False

    def bind(self, **fragments: Fragment) -> Query:
        """The same query with its names filled in."""
        return replace(self, text=self.text.format(**fragments))

    def naming(self, noun: str, table: ResolvedAddress) -> Query:
        """The same query, whose purpose and errors name the table behind ``noun``."""
        return replace(self, purpose=self.purpose.replace(noun, f"{noun} {table.canonical}"))


def identifier(name: str | ResolvedAddress) -> Fragment:
    """A quoted name, or the qualified name of a table."""
    return Fragment(name.qualified_name if isinstance(name, ResolvedAddress) else quote(name))


def literal(text: str) -> Fragment:
    """A Unicode literal, for scripts that are printed: a statement that is run takes parameters."""
    return Fragment("N'" + text.replace("'", "''") + "'")


def number(value: int) -> Fragment:
    """A whole number, for a statement without parameters. The server keeps a plan for each: few may come."""
    return Fragment(str(int(value)))


def seek(index: str | None) -> Fragment:
    """A further table hint: find the rows by a seek in this index alone. Nothing where there is no index.

    The statement needs a condition that the index can serve, else the server has no plan for it (error 8622; without
    the index, 308). Source: "Table hints (Transact-SQL)", which allows FORCESEEK and INDEX together in a FROM clause.
    """
    return Fragment("" if index is None else f", FORCESEEK, INDEX ({identifier(index)})")


def readpast(passes: bool) -> Fragment:
    """A table hint before others: step over rows that others have locked. Nothing where they are to be waited for."""
    return Fragment("READPAST, " if passes else "")


def passing(passes: bool) -> Fragment:
    """The hints of a table, which has none else: step over rows that others have locked. Nothing where they are to be
    waited for, or read as they were where the database has READ_COMMITTED_SNAPSHOT on."""
    return Fragment(" WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)" if passes else "")


def query(name: str, **fragments: Fragment) -> Query:
    """The query ``file.name``, with its names filled in."""
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
