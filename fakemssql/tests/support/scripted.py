"""An engine that does what a test says, for connections without a database."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from fakemssql.contract import Parameter, ResponseWriter, ResultColumn, SqlError, Wait
from fakemssql.types import SqlType
from support.tds_client import Client

MORE, ERROR, COUNT, ATTN, RPC_IN_BATCH = 1, 2, 0x10, 0x20, 0x80
"""Bits of the status of a DONE token."""
INT = [ResultColumn("a", SqlType("int"), 23)]


class Rows:
    def __init__(self, *values: int) -> None:
        self._values = values
        self.ntuples = len(values)

    def get_value(self, row_number: int, column_number: int) -> bytes | None:
        return struct.pack(">i", self._values[row_number])


class Scripted:
    """``script(engine, text, output)`` runs for every batch and parameterised text."""

    script: Callable[[Scripted, str, ResponseWriter], None] = staticmethod(lambda engine, text, output: None)

    def __init__(self, database: str, login: str, wait: Wait) -> None:
        if database == "missing":
            raise SqlError(4060, 'Cannot open database "missing" requested by the login.', severity=11)
        self.database, self.transaction_descriptor, self.wait = database, 0, wait
        self.seen: list[object] = []

    def session_state(self) -> tuple[bytes, bool]:
        return b"", True

    def restore(self, state: bytes) -> bool:
        self.seen.append(("restore", state))
        return True

    def introduce(self, client: object) -> None:
        self.client = client

    def batch(self, text: str, output: ResponseWriter) -> None:
        self.script(self, text, output)

    def parameterised(self, text: str, parameters: Sequence[Parameter], output: ResponseWriter) -> None:
        self.seen.append([(p.name, p.value) for p in parameters])
        self.script(self, text, output)

    def call(self, procedure: str, parameters: Sequence[Parameter], output: ResponseWriter) -> int:
        if procedure != "dbo.echo":
            raise SqlError(2812, f"Could not find stored procedure '{procedure}'.")
        for parameter in parameters:
            output.return_value(parameter)
        return 7

    def prepare(self, text: str, parameters: Sequence[Parameter]) -> None:
        if text == "wrong":
            raise SqlError(102, "Incorrect syntax.", severity=15)

    def transaction_request(self, kind: str, isolation: int, name: str, output: ResponseWriter) -> None:
        output.transaction(kind, 5)

    def reset(self, keep_transaction: bool) -> None:
        self.seen.append(("reset", keep_transaction))

    def close(self) -> None:
        self.seen.append("closed")


Open = Callable[..., Client]
"""Opens a connection whose server side runs a script; the fixture ``open_client``."""
