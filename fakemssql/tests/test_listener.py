"""How many connections there may be at a time, each with a process of its own."""

from __future__ import annotations

import contextlib
import platform
import resource
import select
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from fakemssql import workers
from fakemssql.connections import MAX_LOGGING_IN, MAX_SESSIONS, Connections
from fakemssql.contract import SqlError
from fakemssql.listener import MAX_IDLE
from fakemssql.postgres import SETTINGS
from fakemssql.workers import MAX_CLIENTS
from support.small_server import SmallServer, has_connections, small_server
from support.tds_client import Client, Tokens, login7, read_tokens

SECONDS = 20


def connected(stack: contextlib.ExitStack, server: SmallServer) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", server.port), SECONDS))


def login(stack: contextlib.ExitStack, server: SmallServer) -> tuple[Client, Tokens]:
    client = Client(connected(stack, server))
    client.send(0x10, login7("sa", "geheim", "db"))
    return client, read_tokens(client.receive())


def wait_for_closed(sockets: Sequence[socket.socket], count: int) -> list[socket.socket]:
    """Those that the server has closed, as soon as there are so many of them."""
    poll = select.poll()
    by_number = {sock.fileno(): sock for sock in sockets}
    for number in by_number:
        poll.register(number, select.POLLIN)
    closed: list[socket.socket] = []
    while len(closed) < count:
        found = poll.poll(SECONDS * 1000)
        assert found, f"{len(closed)} connections were closed, {count} should be"
        for number, _ in found:
            poll.unregister(number)
            with contextlib.suppress(ConnectionResetError):
                assert by_number[number].recv(1) == b""
            closed.append(by_number[number])
    return closed


def wait_until(condition: Callable[[], bool]) -> None:
    """Look again and again: what is asked about is another program's processes, which tell nobody."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_connections_that_never_log_in_have_a_limited_number_of_processes(tmp_path: Path) -> None:
    idle = 250
    with contextlib.ExitStack() as stack, small_server(tmp_path) as server:
        sockets = [connected(stack, server) for _ in range(idle)]
        closed = wait_for_closed(sockets, idle - MAX_LOGGING_IN)
        processes = server.connections()
        assert len(processes) <= MAX_LOGGING_IN
        (line,) = server.log()
        assert f"{MAX_LOGGING_IN} others are not logged in yet" in line
        for sock in set(sockets).difference(closed):
            sock.close()
        wait_until(lambda: len(server.connections()) <= MAX_IDLE)
        assert login(stack, server)[1].of("loginack"), "there is room again"


def test_sessions_do_not_count_as_connections_that_are_not_logged_in(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack, small_server(tmp_path, max_sessions=3, max_logging_in=1) as server:
        for _ in range(3):
            assert login(stack, server)[1].of("loginack")
        assert len(server.connections()) == 3


def test_a_session_beyond_the_maximum_is_refused_until_another_has_ended(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack, small_server(tmp_path, max_sessions=2, max_logging_in=10) as server:
        first, _ = login(stack, server)
        (process,) = server.connections()
        assert login(stack, server)[1].of("loginack")
        for _ in range(3):
            ((number, *_),) = login(stack, server)[1].of("message")
            assert number == 17809
        first.sock.close()
        wait_until(lambda: process.status() == psutil.STATUS_SLEEPING and not has_connections(process))
        assert login(stack, server)[1].of("loginack")
        assert process in server.connections(), "the same process serves the next client"


def test_a_few_processes_wait_for_the_next_client(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack, small_server(tmp_path) as server:
        clients = [login(stack, server)[0] for _ in range(MAX_IDLE + 5)]
        assert len(server.connections()) == MAX_IDLE + 5
        for client in clients:
            client.sock.close()
        wait_until(lambda: len(server.connections()) == MAX_IDLE)
        waiting = server.connections()
        for process in waiting:
            process.kill()
        assert not psutil.wait_procs(waiting, SECONDS)[1]
        assert login(stack, server)[1].of("loginack"), "one that has died is passed over"
        assert not set(server.connections()) & set(waiting)


def test_a_process_serves_a_limited_number_of_clients(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack, small_server(tmp_path) as server:
        clients: list[int] = []
        while len(clients) <= MAX_CLIENTS:
            client, found = login(stack, server)
            assert found.of("loginack")
            (process,) = server.connected()
            clients.append(process.pid)
            client.sock.close()
            wait_until(lambda: not server.connected())
        assert len(set(clients[:MAX_CLIENTS])) == 1
        assert clients[-1] != clients[0]


@pytest.mark.parametrize(("system", "unit"), [("Linux", 1024), ("Darwin", 1)])
@pytest.mark.parametrize(("mib", "kept"), [(100, True), (300, False)])
def test_a_process_that_used_much_memory_is_not_kept(
    system: str, unit: int, mib: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = SimpleNamespace(ru_maxrss=mib * 1024**2 // unit)
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(resource, "getrusage", lambda who: used)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.shutdown(socket.SHUT_WR)
        assert workers._following(theirs, Connections()) is None
        theirs.close()
        assert ours.recv(1) == (b"." if kept else b"")


def test_a_process_that_waits_ends_with_the_listener(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack, small_server(tmp_path) as server:
        first, second = login(stack, server)[0], login(stack, server)[0]
        processes = server.connections()
        first.sock.close()
        second.sock.close()
        wait_until(lambda: not any(map(has_connections, processes)))
        psutil.Process(server.pid).kill()
        assert not psutil.wait_procs(processes, SECONDS)[1]


def test_postgresql_has_room_for_all_sessions() -> None:
    assert int(SETTINGS["max_connections"]) - MAX_SESSIONS - MAX_IDLE >= 10, "for creating databases and maintenance"


def test_places_are_given_back() -> None:
    connections = Connections(max_sessions=1, max_logging_in=1)
    place = connections.take("192.0.2.7")
    assert place is not None
    assert connections.take("192.0.2.7") is None
    place.enter()
    second = connections.take("192.0.2.7")
    assert second is not None
    with pytest.raises(SqlError, match="maximum number of '1' user connections"):
        second.enter()
    connections.free(place)
    second.enter()
    assert connections.take("192.0.2.7") is not None


def test_the_first_login_in_clear_counts_once_for_each_address() -> None:
    connections = Connections()
    addresses = ["192.0.2.7", "192.0.2.8", "192.0.2.7"]
    places = [connections.take(address) for address in addresses]
    assert [place and place.first_in_clear() for place in places] == [True, True, False]


def test_addresses_without_end_are_not_kept() -> None:
    connections = Connections()
    numbers = []
    for number in range(5000):
        place = connections.take(f"2001:db8::{number:x}")
        assert place is not None
        numbers.append(place.address)
        connections.free(place)
    assert len(set(numbers)) == 1024
