"""Health port: few requests at a time, each for a short time, and nothing but GET."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from airflow_sqlqueue.cli import health
from airflow_sqlqueue.cli.health import Health, HealthServer
from airflow_sqlqueue.endpoint.options import ConsumeResult
from airflow_sqlqueue.messages.routing import ResolvedAddress

WAIT = 30


@pytest.fixture
def state() -> Health:
    return Health(ResolvedAddress('a "queue"\\', "dbo", "nsb"))


class PatientServer(HealthServer):
    """Health port whose backlog is never full: the system would have a connection wait for seconds."""

    request_queue_size = 10 * health.AT_ONCE


@pytest.fixture(scope="module")
def server() -> Iterator[HealthServer]:
    with PatientServer(Health(ResolvedAddress("queue", "dbo", "nsb")), "127.0.0.1", 0) as server:
        yield server


@pytest.fixture
def crowded(state: Health, monkeypatch: pytest.MonkeyPatch) -> Iterator[HealthServer]:
    """A server for a test that fills it, in which slow requests stay."""
    monkeypatch.setattr(health, "REQUEST_SECONDS", WAIT)
    with PatientServer(state, "127.0.0.1", 0) as server:
        yield server


def ask(server: HealthServer, request: bytes) -> bytes:
    """What comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.server_port), WAIT) as connection:
        connection.sendall(request)
        return answer(connection)


def answer(connection: socket.socket) -> bytes:
    found = b""
    try:
        while data := connection.recv(65_536):
            found += data
    except ConnectionResetError:
        pass
    return found


def test_ready_means_contact_and_not_stopping(state: Health) -> None:
    assert not state.ready
    state.note_contact(True)
    assert state.ready
    state.note_contact(False)
    assert not state.ready
    state.note_contact(True)
    state.stopping = True
    assert not state.ready


def test_metrics_escape_the_names_of_the_queue(state: Health) -> None:
    state.note_counts(ConsumeResult(handled=3, duplicates=1))
    text = state.exposition()
    labels = r'{catalog="nsb",schema="dbo",queue="a \"queue\"\\"}'
    assert f"sqlqueue_consume_handled_total{labels} 3\n" in text
    assert f"sqlqueue_consume_duplicates_total{labels} 1\n" in text
    assert f"sqlqueue_consume_ready{labels} 0\n" in text
    assert text.count("# TYPE") == text.count("# HELP") == 8


def test_a_connection_has_one_request(server: HealthServer) -> None:
    found = ask(server, b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
    assert found.startswith(b"HTTP/1.0 200 ")
    assert found.count(b"HTTP/1.0 ") == 1


@pytest.mark.parametrize("method", [b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"TRACE"])
def test_other_methods_are_refused(server: HealthServer, method: bytes) -> None:
    assert ask(server, method + b" /health/live HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.0 501 ")


@pytest.mark.parametrize(
    "request_text", [b"\xff\xfe\r\n\r\n", b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"GET\r\n\r\n"]
)
def test_malformed_requests_harm_no_other(server: HealthServer, request_text: bytes) -> None:
    ask(server, request_text)
    assert b" 200 " in ask(server, b"GET /health/live HTTP/1.1\r\n\r\n")


def test_a_slow_request_is_closed(server: HealthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although it sends something all the time, which a timeout of the socket would allow."""
    monkeypatch.setattr(health, "REQUEST_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", server.server_port), WAIT) as connection:
        connection.settimeout(0.1)
        connection.sendall(b"GET /health/live HTTP/1.1\r\n")
        assert any(is_closed(connection, b"X") for _ in range(WAIT * 10))


def is_closed(connection: socket.socket, text: bytes) -> bool:
    """Send some more, and look whether the other side has closed the connection."""
    try:
        connection.sendall(text)
        return not connection.recv(100)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_slow_connections_of_one_address_make_no_probe_of_another_fail(crowded: HealthServer) -> None:
    """They are renewed as fast as they are closed, and the probe is slow as well."""
    address = ("127.0.0.1", crowded.server_port)
    slow = [socket.create_connection(address, WAIT) for _ in range(health.AT_ONCE)]
    try:
        with socket.create_connection(address, WAIT, ("127.0.0.2", 0)) as probe:
            probe.sendall(b"GET /health/live ")
            slow += [socket.create_connection(address, WAIT) for _ in range(3 * health.AT_ONCE)]
            assert answer(slow[-health.AT_ONCE]) == b"", "the server has taken the later ones"
            probe.sendall(b"HTTP/1.1\r\n\r\n")
            assert b" 200 " in answer(probe)
    finally:
        for connection in slow:
            connection.close()


def test_there_are_few_requests_at_a_time(crowded: HealthServer) -> None:
    address = ("127.0.0.1", crowded.server_port)
    waiting = [socket.create_connection(address, WAIT) for _ in range(health.AT_ONCE)]
    try:
        assert b" 200 " in ask(crowded, b"GET /health/live HTTP/1.1\r\n\r\n")
        oldest, *others = waiting
        assert answer(oldest) == b"", "it made room for the probe"
        for connection in others:
            connection.sendall(b"GET /health/live HTTP/1.1\r\n\r\n")
            assert answer(connection).startswith(b"HTTP/1.0 200 ")
    finally:
        for connection in waiting:
            connection.close()
    assert b" 200 " in ask(crowded, b"GET /health/live HTTP/1.1\r\n\r\n")
