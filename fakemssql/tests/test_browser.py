"""The stand-in for the SQL Server Browser, by its protocol's own bytes."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator

import pytest

from fakemssql.browser import PORT, Browser

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address alone")


@pytest.fixture
def host() -> str:
    """A loopback address of this process's own: the port is the protocol's."""
    pid = os.getpid()
    return f"127.{pid >> 16 & 127 | 128}.{pid >> 8 & 255}.{pid & 255 or 1}"


@pytest.fixture
def asking(host: str) -> Iterator[socket.socket]:
    with Browser({"SQLEXPRESS": 50_001, "Second": 50_002}, host), socket.socket(type=socket.SOCK_DGRAM) as asking:
        asking.settimeout(10)
        asking.connect((host, PORT))
        yield asking


def test_an_instance_by_name(asking: socket.socket) -> None:
    for name in (b"sqlexpress", b"SQLEXPRESS\0"):
        asking.send(b"\x04" + name)
        answer = asking.recv(2000)
        assert answer[0] == 5
        assert int.from_bytes(answer[1:3], "little") == len(answer) - 3
        assert answer.endswith(b";InstanceName;SQLEXPRESS;IsClustered;No;Version;16.0.4135.4;tcp;50001;;")


def test_all_instances(asking: socket.socket) -> None:
    asking.send(b"\x03")
    assert asking.recv(2000).count(b"InstanceName") == 2


def test_an_unknown_request_gets_no_answer(asking: socket.socket) -> None:
    for question in (b"\x04nobody", b"\x04", b"\x09", b"\x04" + b"x" * 500):
        asking.send(question)
    asking.send(b"\x04Second")
    assert b"50002" in asking.recv(2000)
