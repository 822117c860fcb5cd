"""Statement SET for options."""

from __future__ import annotations

from typing import Any

from fakemssql.contract import SqlError
from fakemssql.tsql.options import ANSI, BITS, Options
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.execution.interpreter import integer_of, quiet, text_of
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.session import Session
from fakemssql.tsql.security import errors
from fakemssql.tsql.security.context import OBJECT

_PRIORITIES = {"LOW": -5, "NORMAL": 0, "HIGH": 5}
_SHOWN = frozenset(["ISOLATION", "LOCK_TIMEOUT", "DEADLOCK_PRIORITY"])
"""Options that the session's data show to other sessions."""
_SHOWPLAN = ("SHOWPLAN_TEXT", "SHOWPLAN_ALL", "SHOWPLAN_XML")
_REFUSED = (*_SHOWPLAN, "NOEXEC", "PARSEONLY", "REMOTE_PROC_TRANSACTIONS", "OFFSETS")
_NEEDED_ON = ("ANSI_WARNINGS", "ANSI_PADDING", "ANSI_NULLS", "CONCAT_NULL_YIELDS_NULL")


def _switch(options: Options, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise SqlError(102, f"Incorrect syntax near '{name}'.", severity=15)
    if name == "ANSI_DEFAULTS":
        for each in (*ANSI[:5], "IMPLICIT_TRANSACTIONS", "CURSOR_CLOSE_ON_COMMIT"):
            _switch(options, each, value)
        return
    if not value and name in _NEEDED_ON:
        raise SqlError(40517, f"SET {name} OFF is not supported by fakemssql.")
    if value and name in ("NUMERIC_ROUNDABORT", "ARITHIGNORE"):
        raise SqlError(40517, f"SET {name} ON is not supported by fakemssql.")
    if value:
        options.on.add(name)
    else:
        options.on.discard(name)


def set_option(session: Session, node: nodes.SetOption, frame: Frame) -> None:
    """Run SET for one or more options."""
    try:
        _set_options(session, node, frame)
    finally:
        if not _SHOWN.isdisjoint(node.options):
            session.activity.update(session)
    quiet(session)


def _set_options(session: Session, node: nodes.SetOption, frame: Frame) -> None:
    options = session.options
    for name in node.options:
        value = node.value
        if name == "ISOLATION":
            session.transactions.isolate(value)
        elif name == "IDENTITY_INSERT":
            _identity_insert(session, *value)
        elif name.startswith("STATISTICS "):
            continue
        elif name in BITS or name == "ANSI_DEFAULTS":
            _switch(options, name, value)
        elif name == "LOCK_TIMEOUT":
            options.lock_timeout = max(integer_of(session, value, frame), -1)
            session.apply_lock_timeout()
        elif name == "TEXTSIZE":
            size = integer_of(session, value, frame)
            options.textsize = size if size > 0 else 4096 if size == 0 else 2147483647
            if 0 < options.textsize < 2147483647 and size != 0:
                raise SqlError(40517, "SET TEXTSIZE below 2147483647 is not supported by fakemssql.")
        elif name == "ROWCOUNT":
            if integer_of(session, value, frame) != 0:
                raise SqlError(40517, "SET ROWCOUNT other than 0 is not supported by fakemssql.")
        elif name == "CONTEXT_INFO":
            raise SqlError(40517, "SET CONTEXT_INFO is not supported by fakemssql.")
        elif name == "FMTONLY":
            options.fmtonly = bool(value)
        elif name in _REFUSED:
            if value is True:
                raise SqlError(40517, f"SET {name} ON is not supported by fakemssql.")
        elif name in ("LANGUAGE", "DATEFORMAT", "DATEFIRST"):
            _only(session, name, value, frame)
        elif name == "DEADLOCK_PRIORITY":
            named = _PRIORITIES.get(str(value.value).upper()) if isinstance(value, nodes.Literal) else None
            options.deadlock_priority = integer_of(session, value, frame) if named is None else named
        elif name in ("QUERY_GOVERNOR_COST_LIMIT", "FORCEPLAN", "FIPS_FLAGGER"):
            continue
        else:
            raise SqlError(195, f"'{name}' is not a recognized SET option.", severity=15, state=5)


def _only(session: Session, name: str, value: Any, frame: Frame) -> None:
    """Error 40517 for a language or format of dates other than the default."""
    allowed = {"LANGUAGE": ("us_english", "english"), "DATEFORMAT": ("mdy",), "DATEFIRST": ("7",)}[name]
    given = str(value.value) if isinstance(value, nodes.Literal) else text_of(session, value, frame, -1)
    if given.lower() not in allowed:
        raise SqlError(40517, f"SET {name} {given} is not supported by fakemssql.")


def _identity_insert(session: Session, name: nodes.Name, on: bool) -> None:
    table = session.catalog.find(name, session.database)
    if table is None:
        raise errors.no_object(".".join(name), 11)
    if not table.local and not session.security.allowed(table.database, OBJECT, table.object_id, "ALTER"):
        raise errors.no_object(".".join(name), 11)
    if table.identity is None:
        raise SqlError(8106, f"Table '{table.name}' does not have the identity property. Cannot perform SET operation.")
    if on and session.identity_insert[0] not in ("", table.pg):
        raise SqlError(
            8107,
            "IDENTITY_INSERT is already ON for table"
            f" '{session.identity_insert[1]}'. Cannot perform SET operation for table"
            f" '{table.name}'.",
        )
    session.identity_insert = (table.pg, table.full_name) if on else ("", "")
