"""Procedures of the protocol: sp_executesql, and those of prepared handles (sp_prepare, sp_execute ...)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fakemssql.contract import Engine, Parameter, SqlError
from fakemssql.tds import declarations
from fakemssql.tds.requests import Call
from fakemssql.tds.response import Response
from fakemssql.types import SqlType

_INT = SqlType("int")
_CALL = re.compile(r"\s*(?:\{\s*(?:\?\s*=\s*)?call|exec(?:ute)?)?\s*(?P<name>[^\s({]+)", re.IGNORECASE)
_SYSTEM = re.compile(r"(?:(?:\[?master\]?)?\.)?(?:\[?sys\]?\.)?\[?(?P<name>[sx]p_\w+)\]?", re.IGNORECASE)


@dataclass(frozen=True)
class Prepared:
    """Prepared text with its declared parameters, or (``procedure``) a prepared call of a procedure."""

    text: str
    declared: tuple[Parameter, ...] = ()
    procedure: bool = False


class Procedures:
    """Runs the procedure calls of one connection and keeps its prepared handles."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._prepared: dict[int, Prepared] = {}
        self._next = 1
        self._own: dict[str, Callable[[Sequence[Parameter], Response], int]] = {
            "sp_executesql": self._execute_sql,
            "sp_prepare": self._prepare,
            "sp_execute": self._execute,
            "sp_prepexec": self._prepare_and_execute,
            "sp_prepexecrpc": self._prepare_call_and_execute,
            "sp_unprepare": self._unprepare,
        }

    def forget(self) -> None:
        """Drop all handles, as a reset of the connection does."""
        self._prepared.clear()

    def run(self, call: Call, response: Response) -> int:
        """Run a call and return its status. Raises :class:`SqlError` for an invalid call."""
        # Drivers write ``[sys].sp_datatype_info_100``; system procedures are in every database.
        system = _SYSTEM.fullmatch(call.procedure)
        procedure = system["name"] if system else call.procedure
        name = procedure.lower()
        if name.startswith("sp_cursor"):
            raise SqlError(40510, f"'{name}' is not supported by fakemssql: use a forward-only, read-only cursor.")
        own = self._own.get(name)
        if own is None:
            return self._engine.call(procedure, call.parameters, response)
        return own(call.parameters, response)

    def _execute_sql(self, parameters: Sequence[Parameter], response: Response) -> int:
        text = _text(parameters, 0, "sp_executesql")
        declared = declarations.parse(_text(parameters, 1, "sp_executesql")) if len(parameters) > 1 else ()
        return self._run(Prepared(text, declared), parameters[2:], response)

    def _prepare(self, parameters: Sequence[Parameter], response: Response) -> int:
        prepared = self._checked(parameters, "sp_prepare")
        self._return_handle(parameters[0], prepared, response)
        return 0

    def _prepare_and_execute(self, parameters: Sequence[Parameter], response: Response) -> int:
        prepared = self._checked(parameters, "sp_prepexec")
        self._return_handle(parameters[0], prepared, response)
        return self._run(prepared, parameters[3:], response)

    def _prepare_call_and_execute(self, parameters: Sequence[Parameter], response: Response) -> int:
        match = _CALL.match(_text(parameters, 1, "sp_prepexecrpc"))
        if match is None:
            raise SqlError(102, "Incorrect syntax in a procedure call.", severity=15)
        prepared = Prepared(match["name"], procedure=True)
        self._return_handle(parameters[0], prepared, response)
        return self._run(prepared, parameters[2:], response)

    def _execute(self, parameters: Sequence[Parameter], response: Response) -> int:
        return self._run(self._prepared[self._handle(parameters)], parameters[1:], response)

    def _unprepare(self, parameters: Sequence[Parameter], response: Response) -> int:
        del self._prepared[self._handle(parameters)]
        return 0

    def _handle(self, parameters: Sequence[Parameter]) -> int:
        """Prepared handle in the first parameter; error 8179."""
        handle = parameters[0].value if parameters else None
        if not isinstance(handle, int) or handle not in self._prepared:
            shown = handle if isinstance(handle, int) else "NULL"
            raise SqlError(8179, f"Could not find prepared statement with handle {shown}.", state=4)
        return handle

    def _checked(self, parameters: Sequence[Parameter], name: str) -> Prepared:
        declaration = _text(parameters, 1, name, optional=True)
        prepared = Prepared(_text(parameters, 2, name), declarations.parse(declaration))
        self._engine.prepare(prepared.text, prepared.declared)
        return prepared

    def _return_handle(self, asked: Parameter, prepared: Prepared, response: Response) -> None:
        if isinstance(asked.value, int):
            # A client that prepares again sends the handle that it no longer needs.
            self._prepared.pop(asked.value, None)
        handle, self._next = self._next, self._next + 1
        self._prepared[handle] = prepared
        response.return_value(Parameter(asked.name, _INT, handle, True))

    def _run(self, prepared: Prepared, given: Sequence[Parameter], response: Response) -> int:
        if prepared.procedure:
            return self._engine.call(prepared.text, given, response)
        bound = declarations.bind(prepared.declared, given, prepared.text)
        self._engine.parameterised(prepared.text, bound, response)
        return response.last_error


def _text(parameters: Sequence[Parameter], position: int, procedure: str, *, optional: bool = False) -> str:
    value = parameters[position].value if position < len(parameters) else None
    if value is None and optional:
        return ""
    if not isinstance(value, str):
        raise SqlError(214, f"Procedure '{procedure}' expects a parameter of type 'ntext/nchar/nvarchar'.", state=2)
    return value
