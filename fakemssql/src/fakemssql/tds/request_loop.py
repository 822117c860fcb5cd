"""Loop over the requests of a client that is logged in."""

from __future__ import annotations

import os
import traceback

from fakemssql.contract import Attention, ClientGone, Engine, SqlError
from fakemssql.faults import fault
from fakemssql.killing import Killed, killed_error
from fakemssql.tds import requests
from fakemssql.tds.packets import RESET, RESET_KEEP_TRANSACTION, Message, PacketType
from fakemssql.tds.procedures import Procedures
from fakemssql.tds.reader import Truncated
from fakemssql.tds.recovery import Recovery
from fakemssql.tds.response import Response
from fakemssql.tds.stream import Stream
from fakemssql.tds.versions import Version


class RequestLoop:
    """Reads the requests of one client, has its engine run them, and answers."""

    def __init__(self, stream: Stream, engine: Engine, version: Version, recovery: Recovery | None = None) -> None:
        self._recovery = recovery
        self._stream = stream
        self._version = version
        self._engine = engine
        self._procedures = Procedures(engine)

    def run(self) -> None:
        """Answer requests until the client leaves (:class:`ClientGone`) or a fatal error ends the connection."""
        fatal = False
        while not fatal:
            message = self._stream.read_message()
            self._stream.begin()
            response = Response(self._stream, self._version, self._recovery)
            # An attention that comes after the response gets its acknowledgement, too.
            attention = message.type == PacketType.ATTENTION
            if not attention:
                self._answer(message, response)
                self._stream.end()
                attention = self._stream.attention
            if attention:
                self._stream.begin()
                response.attention()
                self._stream.end()
            if self._stream.gone:
                raise ClientGone
            fatal = response.fatal

    def _answer(self, message: Message, response: Response) -> None:
        if message.withdrawn:
            response.cut_off()
            return
        try:
            if message.status & (RESET | RESET_KEEP_TRANSACTION):
                self._procedures.forget()
                self._engine.reset(bool(message.status & RESET_KEEP_TRANSACTION))
                response.reset_done()
            self._dispatch(message, response)
        except Attention:
            response.cut_off()
        except Killed:
            response.message(killed_error())
            response.cut_off()

    def _dispatch(self, message: Message, response: Response) -> None:
        if message.type == PacketType.RPC:
            self._rpc(message.data, response)
            return
        try:
            if message.type == PacketType.BATCH:
                self._engine.batch(requests.batch_text(message.data, self._version), response)
            elif message.type == PacketType.TRANSACTION:
                self._transaction(message.data, response)
            else:
                raise SqlError(40510, "Bulk load is not supported by fakemssql.")
        except (Attention, ClientGone):
            raise
        except Exception as error:
            response.message(as_sql_error(error))
        response.end_batch()

    def _rpc(self, data: bytes, response: Response) -> None:
        calls = requests.calls(data, self._version)
        last = False
        while not last:
            response.begin_call()
            status = 0
            try:
                call = next(calls)
                last = call.last
                status = self._procedures.run(call, response)
            except (Attention, ClientGone):
                raise
            except Exception as error:
                failure = as_sql_error(error)
                response.message(failure)
                status = failure.number
                # After a request that cannot be decoded, the following ones cannot be decoded either.
                last = last or not isinstance(error, SqlError) or failure.number == 8016
            response.end_call(status, last=last)

    def _transaction(self, data: bytes, response: Response) -> None:
        request = requests.transaction_request(data, self._version)
        self._engine.transaction_request(request.kind, request.isolation, request.name, response)
        if request.then_begin is not None:
            self._engine.transaction_request("begin", request.then_begin, "", response)


def as_sql_error(error: Exception) -> SqlError:
    """Return the error for the client: an :class:`SqlError` as it is, any other exception as an internal error."""
    if isinstance(error, SqlError):
        return error
    if isinstance(error, Truncated):
        return SqlError(8009, "The incoming tabular data stream (TDS) protocol stream is incorrect.")
    return fault(error)


def describe(error: Exception) -> str:
    """Class and place of an exception; its text is left out because it may quote data."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + place
