"""Stream of messages from and to the client, and its attention while a request runs."""

from __future__ import annotations

import select

from fakemssql import killing
from fakemssql.contract import Attention, ClientGone
from fakemssql.tds.packets import EOM, HEADER, IGNORE, Framer, Message, PacketType
from fakemssql.tds.transport import Transport

_KINDS = frozenset(PacketType)
_FLUSH_AT = 1 << 16
_FRAME_AT_ONCE = 1 << 22


class Stream:
    """Messages of one client in both directions.

    ``attention`` is set when the client cancels the running request, ``gone`` when it leaves. From then on written data
    are dropped, and :meth:`wait` raises: it is the only place where the engine expects these exceptions.
    """

    def __init__(self, transport: Transport, spid: int) -> None:
        self.transport = transport
        self.framer = Framer(spid)
        self.attention = False
        self.gone = False
        self._pieces: list[bytes] = []
        self._size = 0

    # Reading

    def read_message(self) -> Message:
        """Read the client's next message; a withdrawn one (IGNORE) has no data. Raises :class:`ClientGone`."""
        parts: list[bytes] = []
        kind, status = 0, 0
        while True:
            packet = self._packet()
            if packet[0] == PacketType.ATTENTION:
                return Message(PacketType.ATTENTION, packet[1], b"")
            kind, status = packet[0], status | packet[1]
            parts.append(packet[2])
            if not packet[1] & EOM:
                continue
            if status & IGNORE:
                return Message(kind, IGNORE, b"")
            return Message(kind, status, b"".join(parts))

    def _packet(self) -> tuple[int, int, bytes]:
        buffer = self.transport.received
        while len(buffer) < HEADER.size:
            self.transport.await_data()
        kind, status, length, *_ = HEADER.unpack_from(buffer)
        if length < HEADER.size or kind not in _KINDS:
            raise ClientGone
        while len(buffer) < length:
            self.transport.await_data()
        with memoryview(buffer) as view:
            data = bytes(view[HEADER.size : length])
        # This is cheap: a bytearray drops bytes at its front by moving its start.
        del buffer[:length]
        return kind, status, data

    # Waiting

    def begin(self) -> None:
        """Begin a request."""
        self.attention = False
        self.framer.begin()

    def wait(self, fd: int) -> None:
        """Wait until ``fd`` is readable, unless the client cancels or leaves first (see :data:`contract.Wait`)."""
        while True:
            self.check()
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            client = self.transport.fileno()
            # A next request that the client sent early is read after this one.
            if len(self.transport.received) < HEADER.size:
                poll.register(client, select.POLLIN)
            ready = dict(killing.poll(poll))
            if client in ready:
                self.read_attention()
                self.check()
            if fd in ready:
                return

    def check(self) -> None:
        """Raise if another session has killed this one, or if the client has left or cancelled."""
        killing.check()
        if self.gone:
            raise ClientGone
        if self.attention:
            raise Attention

    def read_attention(self) -> None:
        """Read the data that the client sends while a request runs, and take an attention out of them."""
        try:
            self.transport.receive()
        except ClientGone:
            self.gone = True
        self._take_attention()

    def _take_attention(self) -> None:
        buffer = self.transport.received
        if len(buffer) >= HEADER.size and buffer[0] == PacketType.ATTENTION:
            del buffer[: HEADER.unpack_from(buffer)[2]]
            self.attention = True

    # Writing

    @property
    def unheard(self) -> bool:
        """Whether the client reads no more of this response: it cancelled or left."""
        return self.attention or self.gone

    def write(self, data: bytes) -> None:
        """Write whole tokens of the response."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= _FLUSH_AT:
            self._flush(last=False)

    def end(self) -> None:
        """End the response and send it."""
        self._flush(last=True)

    def _flush(self, *, last: bool) -> None:
        data = memoryview(self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces))
        self._pieces, self._size = [], 0
        if self.gone:
            return
        try:
            while len(data) > _FRAME_AT_ONCE:
                data = self._send_packets(data[:_FRAME_AT_ONCE], data, last=False)
            data = self._send_packets(data, data, last=last)
        except ClientGone:
            self.gone = True
            return
        if len(data):
            self._pieces, self._size = [bytes(data)], len(data)
        self._take_attention()

    def _send_packets(self, part: memoryview, data: memoryview, *, last: bool) -> memoryview:
        packets, taken = self.framer.cut(part, last=last)
        self.transport.send(packets)
        return data[taken:]

    def send_raw_packet(self, kind: int, data: bytes) -> None:
        """Send a message of another type than a result, for the handshake of TLS."""
        self.framer.begin()
        packets, _ = self.framer.cut(data, last=True, kind=kind)
        self.transport.send(packets)
