"""Session data for other sessions: login, client, running text, times.

Each connection has a file in PostgreSQL's data directory, which the views of sql/60_sessions.sql read. The file is
mapped into memory, so that a change costs no round trip and no system call. A number is written at the end of the file
before each change, and the same number at its start after it: a reader that finds both equal has read a consistent
state. After a process was killed, its file is ignored when PostgreSQL has ended its connection.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import shutil
import struct
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from fakemssql import killing
from fakemssql.contract import Client, Parameter
from fakemssql.text import to_pg
from fakemssql.tsql.pg import Pg
from fakemssql.tsql.runtime.connection.backend import FOLDER, Backend
from fakemssql.tsql.state import SessionState

_SIZE = 32768
_STATE, _TEXT, _END = 8, 4096, _SIZE - 8
_LENGTH, _NUMBER = struct.Struct("<I"), struct.Struct("<Q")
_NAME_LENGTH = 128
_ISOLATION = {"READ UNCOMMITTED": 1, "READ COMMITTED": 2, "REPEATABLE READ": 3, "SERIALIZABLE": 4, "SNAPSHOT": 5}


def clear(pg: Pg) -> None:
    """Remove the files of an earlier run."""
    directory = pg.query("SELECT current_setting('data_directory')")[0][0]
    shutil.rmtree(Path(str(directory)) / FOLDER, ignore_errors=True)


class Activity:
    """File with the data of one session."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._started = backend.started, time.time()
        self._path = Path(backend.directory) / FOLDER / str(backend.pid)
        self._path.parent.mkdir(exist_ok=True)
        # Make a new file, not over the file of an earlier connection with this number: no reader sees a mixture.
        self._path.unlink(missing_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(descriptor, _SIZE)
            self._map = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)
        self._number = 0
        self.client = Client()
        self._who = ""
        self._running = False
        self._began = self._ended = time.time()
        self.introduce(self.client)

    def introduce(self, client: Client) -> None:
        """Record the names and addresses of the client."""
        self.client = client
        names = (client.login, client.host, client.program, client.library)
        login, host, program, library = map(_shown, names)
        self._who = (
            f'"backend": {self._backend}, "started": {self._started:.6f}, "login": {login}, "host": {host},'
            f' "program": {program}, "library": {library},'
            f' "worker": {killing.process()},'
            f' "process": {client.process}, "address": {json.dumps(client.address[:48])}, "port": {client.port},'
            f' "packet_size": {client.packet_size}, "encrypted": {str(client.encrypted).lower()},'
            f' "tds_version": {client.tds_version}'
        )

    def begin(self, session: SessionState, text: str, parameters: Sequence[Parameter] = ()) -> None:
        """Record that a request with ``text`` begins."""
        self._running, self._began = True, time.time()
        if parameters:
            text = f"({','.join(f'{p.name} {p.type}' for p in parameters)}){text}"
        data = to_pg(text[: _END - _TEXT])[: _END - _TEXT - _LENGTH.size]
        self.update(session, data.decode(errors="ignore").encode())

    def end(self, session: SessionState) -> None:
        """Record that the request has ended."""
        self._running, self._ended = False, time.time()
        self.update(session)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        self._map.close()

    def process_of(self, session: int) -> int | None:
        """Return the id of the process that serves another session; None if there is no such session."""
        try:
            data = (self._path.parent / str(session)).read_bytes()
        except OSError:
            return None
        start = _STATE + _LENGTH.size
        with contextlib.suppress(ValueError, struct.error):
            state = json.loads(data[start : start + _LENGTH.unpack_from(data, _STATE)[0]])
            return int(state["worker"]) or None
        return None

    def update(self, session: SessionState, text: bytes | None = None) -> None:
        """Record a change of the transaction, the database, a setting or the running text."""
        options = session.options
        state = (
            f'{{{self._who}, "running": {str(self._running).lower()}, "began": {self._began:.3f},'
            f' "ended": {self._ended:.3f}, "database": {_shown(session.database)},'
            f' "transactions": {session.transaction_count}, "transaction": {session.transaction_descriptor},'
            f' "transaction_began": {session.transaction_began:.3f}, "isolation": {_ISOLATION[options.isolation]},'
            f' "lock_timeout": {options.lock_timeout}, "deadlock_priority": {options.deadlock_priority},'
            f' "row_count": {session.rowcount},'
            f' "error": {session.error_number}}}'
        ).encode()
        self._number += 1
        number = _NUMBER.pack(self._number)
        self._map[_END:_SIZE] = number
        self._put(_STATE, state)
        if text is not None:
            self._put(_TEXT, text)
        self._map[: _NUMBER.size] = number

    def _put(self, position: int, data: bytes) -> None:
        start = position + _LENGTH.size
        self._map[position:start] = _LENGTH.pack(len(data))
        self._map[start : start + len(data)] = data


@lru_cache
def _shown(name: str) -> str:
    """Return a name as JSON."""
    return json.dumps(to_pg(name[:_NAME_LENGTH]).decode(), ensure_ascii=False)
