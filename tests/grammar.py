"""Microsoft's own grammar of T-SQL, as the formatter ``maxdop`` brings it: ScriptDom, compiled into one program.

A test server may take what SQL Server does not. The grammar is what SQL Server itself is made with, so a text that it
does not parse cannot run anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from threading import Lock
from typing import Any
from unittest.mock import patch

from airflow_sqlqueue.server.enlisted import EnlistedCursor
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query
from support.grammar import MAXDOP, WHY_NOT, refusals

__all__ = ["MAXDOP", "VERSIONS", "WHY_NOT", "Recorder", "problems", "with_parameters"]

VERSIONS = ("2016", "2022")
"""The oldest SQL Server that is supported and the newest that is common; the grammars between add, and take nothing."""

_LITERAL_OR_PLACEHOLDER = re.compile(
    r"""'[^']*' | "[^"]*" | \[(?:[^]]|\]\])*\] | --[^\n]* | /\*.*?\*/ | (?P<placeholder>\?)""", re.VERBOSE | re.DOTALL
)
_NAMES_OF_TESTS = re.compile(r"[0-9a-f]{8,}(-[0-9a-f]{4}){0,3}(-[0-9a-f]{12})?")


def with_parameters(text: str) -> str:
    """The text as the driver hands it on: placeholders are parameters, ``@p1`` and so on."""
    numbers = count(1)
    return _LITERAL_OR_PLACEHOLDER.sub(lambda found: f"@p{next(numbers)}" if found["placeholder"] else found[0], text)


def problems(texts: Iterable[str], versions: Iterable[str] = VERSIONS) -> list[str]:
    """Messages of the grammar for texts that it does not parse."""
    given = list(texts)
    told = [with_parameters(text) for text in given]
    return [
        f"SQL Server {version}: {what}\n{given[place]}"
        for version in versions
        for place, what in sorted(refusals(told, version).items())
    ]


class Recorder:
    """The texts that go to the driver, each once; names that tests make up are one name.

    ``undescribed`` are names of this package's own statements that were given None: the driver has to ask for its type.
    ``limited`` are names of those to which a caller's SET ROWCOUNT or SET TEXTSIZE would apply.
    """

    def __init__(self) -> None:
        self._lock, self._seen, self._new = Lock(), set[str](), list[str]()
        self.undescribed: set[str] = set()
        self.limited: set[str] = set()

    def note(self, text: str) -> None:
        shape = _NAMES_OF_TESTS.sub("x", text)
        with self._lock:
            if shape not in self._seen:
                self._seen.add(shape)
                self._new.append(text)

    def take(self) -> list[str]:
        """The texts that are new since the last call."""
        with self._lock:
            new, self._new = self._new, []
        return new

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note what every session and every enlisted cursor of this process is given."""
        run, execute = Session._execute, EnlistedCursor.execute

        def run_noted(session: Session, statement: Query, text: str, values: Sequence[Any], sizes: Any) -> list[Any]:
            self.note(text)
            if statement.ours and any(value is None for value in values):
                self.undescribed.add(statement.name)
            if statement.ours and not {"SET ROWCOUNT 0;", "SET TEXTSIZE -1;"} <= {*text.splitlines()}:
                self.limited.add(statement.name)
            return run(session, statement, text, values, sizes)

        def execute_noted(cursor: EnlistedCursor, sql: str, *parameters: Any) -> EnlistedCursor:
            self.note(sql)
            return execute(cursor, sql, *parameters)

        with patch.object(Session, "_execute", run_noted), patch.object(EnlistedCursor, "execute", execute_noted):
            yield
