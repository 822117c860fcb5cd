"""A whole connection over a socket pair, with an engine that does what the test says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from fakemssql.connections import Connections
from fakemssql.contract import ResponseWriter, SqlError, Wait
from fakemssql.tds import tls
from fakemssql.tds.connection import Front, serve
from fakemssql.tds.login import Credentials
from fakemssql.tds.transport import LoginLimits
from support.scripted import Open, Scripted
from support.tds_client import Client, login7, read_tokens


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tls.TlsContexts:
    return tls.contexts(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def open_client(contexts: tls.TlsContexts) -> Iterator[Open]:
    """Opens a connection whose server side runs ``script``; logs in unless told not to."""
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []
    engines: list[Scripted] = []

    def connect(
        script: Callable[[Scripted, str, ResponseWriter], None] | None = None,
        *,
        login: bool = True,
        engine_list: list[Scripted] | None = None,
        limits: LoginLimits | None = None,
        connections: Connections | None = None,
    ) -> Client:
        def open_engine(database: str, user: str, wait: Wait, password: str | None) -> Scripted:
            if password is not None:
                raise SqlError(18456, f"Login failed for user '{user}'.", severity=14)
            engine = Scripted(database, user, wait)
            if script is not None:
                engine.script = script  # type: ignore[method-assign]
            engines.append(engine)
            if engine_list is not None:
                engine_list.append(engine)
            return engine

        client_side, server_side = socket.socketpair()
        front = Front(contexts, Credentials("sa", "geheim"), open_engine, limits or LoginLimits())
        place = (connections or Connections()).take("")
        assert place is not None
        thread = threading.Thread(target=serve, args=(server_side, front, place))
        thread.start()
        threads.append(thread)
        sockets.append(client_side)
        client = Client(client_side)
        if login:
            client.send(0x10, login7("sa", "geheim", "db"))
            assert read_tokens(client.receive()).of("loginack")
        return client

    yield connect
    for sock in sockets:
        sock.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert all(engine.seen[-1] == "closed" for engine in engines)
