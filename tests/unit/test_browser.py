"""The port of a named instance: requests and accepted answers."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from airflow_sqlqueue.errors import ConfigurationError, ServerUnreachableError
from airflow_sqlqueue.server import browser
from airflow_sqlqueue.server.browser import port_of
from airflow_sqlqueue.server.connection_string import ConnectionString
from airflow_sqlqueue.server.settings import ConnectionSettings

linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address alone")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> str:
    """A loopback address of this process's own: the port is the protocol's."""
    monkeypatch.setattr(browser, "_SECONDS", 0.2)
    pid = os.getpid()
    return f"127.{pid >> 16 & 127}.{pid >> 8 & 255}.{pid & 255 or 1}"


@contextmanager
def answering(host: str, answer: Callable[[bytes], bytes]) -> Iterator[list[bytes]]:
    """Answer every request until the block ends; yield the requests."""
    questions: list[bytes] = []
    with socket.socket(type=socket.SOCK_DGRAM) as served:
        served.bind((host, browser.PORT))

        def serve() -> None:
            while True:
                question, client = served.recvfrom(100)
                if not client or question == b"end":
                    return
                questions.append(question)
                served.sendto(answer(question), client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield questions
        finally:
            with socket.socket(type=socket.SOCK_DGRAM) as ending:
                ending.sendto(b"end", (host, browser.PORT))
            thread.join()


def message(text: str) -> bytes:
    return b"\x05" + len(text).to_bytes(2, "little") + text.encode()


def told(instance: str = "SQLEXPRESS", port: str = "50001") -> bytes:
    return message(f"ServerName;H;InstanceName;{instance};IsClustered;No;Version;16.0.1;tcp;{port};np;\\\\H\\pipe;;")


@linux
def test_the_browser_tells_the_port(host: str) -> None:
    with answering(host, lambda _: told()) as questions:
        assert port_of(host, "SqlExpress") == 50_001
        settings = ConnectionSettings(host, "shop", instance="SQLEXPRESS").located()
    assert (settings.port, settings.instance) == (50_001, None)
    assert questions[0] == b"\x04SqlExpress\0"


@linux
def test_a_question_that_is_lost_is_asked_again(host: str) -> None:
    answers = [b"", told()]
    with answering(host, lambda _: answers.pop(0)):
        assert port_of(host, "SQLEXPRESS") == 50_001


@linux
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x05",
        b"\x06" + told()[1:],
        told()[:-1],
        told("OTHER"),
        told(port="0"),
        told(port="65536"),
        told(port="-1"),
        told(port="5\u0660"),
        message("InstanceName;SQLEXPRESS"),
        message(";;tcp;1"),
        b"\x05\x02\x00\xff\xff",
    ],
)
def test_an_invalid_answer(host: str, answer: bytes) -> None:
    with answering(host, lambda _: answer), pytest.raises(ServerUnreachableError, match="does not give the port"):
        port_of(host, "SQLEXPRESS")


@linux
def test_no_answer(host: str) -> None:
    with pytest.raises(ServerUnreachableError, match="UDP port 1434 is open, or give the instance's own port"):
        port_of(host, "SQLEXPRESS")


def test_a_host_that_is_not_known() -> None:
    with pytest.raises(ServerUnreachableError, match="is not known"):
        port_of("host.invalid", "SQLEXPRESS")


@pytest.mark.parametrize(
    ("source", "host", "instance", "port"),
    [
        (r".\SQLEXPRESS", "localhost", "SQLEXPRESS", 1433),
        (r"(local)\SQLEXPRESS", "localhost", "SQLEXPRESS", 1433),
        (r"tcp:db1 \ SQLEXPRESS", "db1", "SQLEXPRESS", 1433),
        (r"db1\SQLEXPRESS,1500", "db1", None, 1500),
        ("db1", "db1", None, 1433),
    ],
)
def test_the_instance_of_a_connection_string(source: str, host: str, instance: str | None, port: int) -> None:
    """With a port SqlClient passes over the instance."""
    text = f"Data Source={source};Initial Catalog=nservicebus;Integrated Security=True"
    settings = ConnectionString.parse(text).settings()
    assert (settings.host, settings.instance, settings.port) == (host, instance, port)
    assert settings.keywords == {"Trusted_Connection": "yes"}
    assert settings.server == (rf"{host}\{instance}" if instance else f"{host}:{port}")


def test_the_instance_of_a_url() -> None:
    named = ConnectionSettings.from_url("mssql://sa:x@db1/shop?instance=SQLEXPRESS&Encrypt=no")
    assert (named.host, named.instance, named.keywords) == ("db1", "SQLEXPRESS", {"Encrypt": "no"})
    assert ConnectionSettings.from_url("mssql://sa:x@db1:1500/shop?instance=SQLEXPRESS").instance is None


@pytest.mark.parametrize("instance", ["a;b", "a b", "x" * 17, "a\0"])
def test_a_name_that_no_instance_has(instance: str) -> None:
    with pytest.raises(ConfigurationError, match="not the name of an instance"):
        ConnectionSettings("db1", "shop", instance=instance)
