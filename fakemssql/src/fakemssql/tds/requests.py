"""Requests of a client, decoded from messages: batches, procedure calls and transaction requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fakemssql.contract import Parameter, SqlError
from fakemssql.tds.decode import read_parameter_value
from fakemssql.tds.reader import Reader, Truncated
from fakemssql.tds.versions import Version

_SEPARATORS = frozenset((0x80, 0xFE, 0xFF))
"""BatchFlag before and since TDS 7.2, and NoExecFlag (MS-TDS 2.2.6.6 RPC Request)."""

_BY_REFERENCE, _DEFAULT, _ENCRYPTED = 0x01, 0x02, 0x08

_PROCEDURES = (
    *("sp_cursor", "sp_cursoropen", "sp_cursorprepare", "sp_cursorexecute", "sp_cursorprepexec", "sp_cursorunprepare"),
    *("sp_cursorfetch", "sp_cursoroption", "sp_cursorclose", "sp_executesql", "sp_prepare", "sp_execute"),
    *("sp_prepexec", "sp_prepexecrpc", "sp_unprepare"),
)
PROCEDURE_IDS = dict(enumerate(_PROCEDURES, 1))

_KINDS = {5: "begin", 7: "commit", 8: "rollback", 9: "save"}
_BEGIN_AFTER = 0x01


def skip_headers(reader: Reader, version: Version) -> None:
    """Skip ALL_HEADERS (2.2.5.3): the server uses no transaction descriptor, notification or activity id."""
    if not version.wide:
        return
    total = reader.long()
    if total < 4:
        raise Truncated
    reader.take(total - 4)


def batch_text(data: bytes, version: Version) -> str:
    reader = Reader(data)
    skip_headers(reader, version)
    return str(reader.rest(), "utf-16-le", "surrogatepass")


@dataclass(frozen=True)
class Call:
    """Procedure call. Parameters that take their default are left out."""

    procedure: str
    parameters: tuple[Parameter, ...]
    last: bool


def calls(data: bytes, version: Version) -> Iterator[Call]:
    """Yield the calls of an RPC message; each is decoded after the one before it has run."""
    reader = Reader(data)
    skip_headers(reader, version)
    last = False
    while not last:
        length = reader.short()
        if length == 0xFFFF:
            number = reader.short()
            procedure = PROCEDURE_IDS.get(number, f"procedure {number}")
        else:
            procedure = str(reader.take(2 * length), "utf-16-le", "surrogatepass")
        reader.short()
        parameters = []
        while reader.has_next(_SEPARATORS):
            parameter = _parameter(reader)
            if parameter is not None:
                parameters.append(parameter)
        if reader.left:
            reader.byte()
        last = not reader.left
        yield Call(procedure, tuple(parameters), last)


def _parameter(reader: Reader) -> Parameter | None:
    name, flags = reader.b_varchar(), reader.byte()
    if flags & _ENCRYPTED:
        raise SqlError(8016, "Encrypted parameters are not supported by fakemssql.")
    declared, value = read_parameter_value(reader)
    if flags & _DEFAULT:
        return None
    return Parameter(name, declared, value, bool(flags & _BY_REFERENCE))


@dataclass(frozen=True)
class TransactionRequest:
    """Transaction manager request; ``then_begin`` is the isolation level of a transaction that begins after it."""

    kind: str
    isolation: int = 0
    name: str = ""
    then_begin: int | None = None


def transaction_request(data: bytes, version: Version) -> TransactionRequest:
    """Decode a transaction manager request (MS-TDS 2.2.6.9). :class:`SqlError` for distributed transactions."""
    if not version.wide:
        raise Truncated
    reader = Reader(data)
    skip_headers(reader, version)
    number = reader.short()
    if number not in _KINDS:
        raise SqlError(40510, "Distributed transactions are not supported by fakemssql.")
    kind = _KINDS[number]
    if kind == "begin":
        return TransactionRequest(kind, reader.byte(), reader.b_varchar())
    name = reader.b_varchar()
    if kind != "save" and reader.left and reader.byte() & _BEGIN_AFTER:
        return TransactionRequest(kind, 0, name, reader.byte())
    return TransactionRequest(kind, 0, name)
