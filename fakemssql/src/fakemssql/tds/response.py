"""Response to a request as TDS tokens, with the DONE bits that clients rely on (MS-TDS 2.2.7.6 DONE)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from fakemssql.contract import Parameter, ResultColumn, Rows, SqlError
from fakemssql.tds import tokens, typeinfo, values
from fakemssql.tds.encode import RowEncoder, column_metadata
from fakemssql.tds.recovery import Recovery
from fakemssql.tds.stream import Stream
from fakemssql.tds.tokens import Change, Done, DoneKind
from fakemssql.tds.versions import Version

_SELECT, _CHANGE = 0xC1, 0xC5
"""CurCmd of a statement that returned rows and of one that did not."""

FATAL = 20
"""An error of this severity or above ends the connection."""


class Response:
    """Implements :class:`contract.ResponseWriter` for one message of the client.

    In a batch the DONE of a statement is held back until the next token or the end, because the bit DONE_MORE depends
    on it. In a procedure call (between :meth:`begin_call` and :meth:`end_call`) statements end with DONEINPROC, after
    which more tokens always follow; output parameters are written after the return status.
    """

    def __init__(self, stream: Stream, version: Version, recovery: Recovery | None = None) -> None:
        self._stream = stream
        self._recovery = recovery
        self._version = version
        self._rows: RowEncoder | None = None
        self._held: tuple[int, int, int] | None = None
        self._in_call = False
        self._failed = False
        self._call_failed = False
        self._outputs: list[bytes] = []
        self.last_error = 0
        self.fatal = False

    # contract.ResponseWriter

    def columns(self, columns: Sequence[ResultColumn]) -> None:
        self._close_rows()
        encoder, metadata = RowEncoder(columns, self._version), column_metadata(columns, self._version)
        self._write(metadata)
        self._rows = encoder

    def rows(self, rows: Rows) -> None:
        assert self._rows is not None, "rows without columns"
        # After an error the remaining rows are left out.
        if self._stream.unheard or self._failed:
            return
        try:
            for data in self._rows.encode(rows):
                self._stream.write(data)
        except SqlError as error:
            # PostgreSQL still sends rows: the engine must read on as if there were no error.
            self.message(error)

    def done(self, count: int | None) -> None:
        if count is None and self._rows is None and not self._failed:
            return
        status = Done.FINAL if count is None else Done.COUNT
        command = _CHANGE if self._rows is None else _SELECT
        self._statement_done(status, command if count is not None else 0, count or 0)

    def message(self, error: SqlError) -> None:
        if error.severity > 10:
            # The error replaces the end of an unfinished result set.
            self._failed, self.last_error = True, error.number
            self.fatal = self.fatal or error.severity >= FATAL
        self._write(tokens.message(self._version, error))

    def database(self, new: str, old: str) -> None:
        self._write(tokens.text_change(Change.DATABASE, new, old))
        self._write(
            tokens.message(self._version, SqlError(5701, f"Changed database context to '{new}'.", severity=0, state=1)),
        )

    def transaction(self, event: str, descriptor: int) -> None:
        if self._version.wide:
            self._write(tokens.transaction_change(event, descriptor))

    def return_value(self, parameter: Parameter) -> None:
        self._outputs.append(_return_value(self._version, parameter, len(self._outputs)))

    # Requests

    def reset_done(self) -> None:
        self._write(tokens.reset_done())

    def begin_call(self) -> None:
        """Begin a procedure call."""
        self._close_rows()
        self._in_call, self._failed, self._call_failed, self.last_error = True, False, False, 0
        self._outputs = []

    def end_call(self, status: int, *, last: bool) -> None:
        """End a procedure call: return status, output parameters and DONEPROC."""
        self._stream.check()
        self._close_rows()
        failed = self._failed or self._call_failed
        self._write(tokens.return_status(status))
        for output in self._outputs:
            self._write(output)
        self._outputs, self._in_call, self._failed = [], False, False
        if last:
            self._send_state()
        bits = (Done.FINAL if last else Done.MORE | Done.RPC_IN_BATCH) | (Done.ERROR if failed else 0)
        self._write(tokens.done(self._version, DoneKind.PROC, bits))

    def end_batch(self) -> None:
        """End a batch or a transaction request: its last DONE."""
        # A cancelled batch must not end like a complete one, because rows are missing.
        self._stream.check()
        self._close_rows()
        if self._held is None or self._failed:
            self._release()
            self._held = (Done.ERROR if self._failed else Done.FINAL, 0, 0)
        self._send_state()
        self._release(more=False)

    def _send_state(self) -> None:
        """Write a change of the session's state, which is allowed only before the last DONE."""
        if self._recovery is not None and (change := self._recovery.change()):
            self._stream.write(change)

    def cut_off(self) -> None:
        """End the response to a request that was cancelled, or that the client withdrew (2.2.1.7)."""
        self._release()
        self._stream.write(tokens.done(self._version, DoneKind.DONE, Done.ERROR))

    def attention(self) -> None:
        """Acknowledge an attention, in a message of its own.

        SQL Server always ends the response before the acknowledgement. Microsoft's JDBC driver waits for a second
        message, and its ODBC driver takes an acknowledgement in the first one as the statement's success.
        """
        self._stream.write(tokens.done(self._version, DoneKind.DONE, Done.ATTENTION))

    def _close_rows(self) -> None:
        if self._rows is not None:
            self._statement_done(Done.FINAL, _SELECT, 0)

    def _statement_done(self, status: int, command: int, count: int) -> None:
        self._rows = None
        if self._failed:
            status, count = Done.ERROR, 0
        self._call_failed, self._failed = self._failed, False
        if self._in_call:
            self._stream.write(tokens.done(self._version, DoneKind.IN_PROC, status | Done.MORE, command, count))
            return
        self._release()
        self._held = (status, command, count)

    def _release(self, *, more: bool = True) -> None:
        if self._held is not None:
            status, command, count = self._held
            self._held = None
            self._stream.write(
                tokens.done(self._version, DoneKind.DONE, status | (Done.MORE if more else 0), command, count)
            )

    def _write(self, data: bytes) -> None:
        self._release()
        self._stream.write(data)


def _return_value(version: Version, parameter: Parameter, ordinal: int) -> bytes:
    """RETURNVALUE token (2.2.7.18) of an output parameter."""
    wire = typeinfo.wire_type(parameter.type, version)
    encode = values.encoder_of(parameter.type, version)
    value = typeinfo.null(wire) if parameter.value is None else encode(parameter.value)
    head = struct.pack("<BH", 0xAC, ordinal) + tokens.b_varchar(parameter.name) + b"\x01"
    return head + struct.pack("<IH" if version.wide else "<HH", 0, 1) + typeinfo.type_info(wire) + value
