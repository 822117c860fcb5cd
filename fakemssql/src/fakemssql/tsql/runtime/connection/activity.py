"""Session data for other sessions: login, client, running text, times."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from fakemssql import killing
from fakemssql.contract import Client, Parameter
from fakemssql.text import to_pg
from fakemssql.tsql.pg import Pg
from fakemssql.tsql.runtime.connection.backend import FOLDER, Backend
from fakemssql.tsql.runtime.connection.session_file import TEXT_SIZE
from fakemssql.tsql.state import SessionState

_NAME_LENGTH = 128
_ISOLATION = {"READ UNCOMMITTED": 1, "READ COMMITTED": 2, "REPEATABLE READ": 3, "SERIALIZABLE": 4, "SNAPSHOT": 5}


def clear(pg: Pg) -> None:
    """Remove the files of an earlier run."""
    directory = pg.query("SELECT current_setting('data_directory')")[0][0]
    shutil.rmtree(Path(str(directory)) / FOLDER, ignore_errors=True)


class Activity:
    """Data of one session, in the file of its connection."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._started, self._file = backend.started, time.time(), backend.file
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
        data = to_pg(text[:TEXT_SIZE])[:TEXT_SIZE]
        self.update(session, data.decode(errors="ignore").encode())

    def end(self, session: SessionState) -> None:
        """Record that the request has ended."""
        self._running, self._ended = False, time.time()
        self.update(session)

    def close(self) -> None:
        self._file.end()

    def process_of(self, session: int) -> int | None:
        """Return the id of the process that serves another session; None if there is no such session."""
        state = self._file.state_of(session)
        return (state["worker"] or None) if state else None

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
        self._file.write(state, text)


@lru_cache
def _shown(name: str) -> str:
    """Return a name as JSON."""
    return json.dumps(to_pg(name[:_NAME_LENGTH]).decode(), ensure_ascii=False)
