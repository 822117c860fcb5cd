"""A client that takes back what it asked for, or leaves."""

from __future__ import annotations

import os
import socket
import threading

from fakemssql.contract import Attention, ResponseWriter
from support.scripted import ATTN, COUNT, ERROR, INT, Open, Rows, Scripted
from support.tds_client import all_headers, read_tokens


def test_attention_when_nothing_runs(open_client: Open) -> None:
    client = open_client(lambda engine, text, output: output.done(1))
    client.send(6, b"")
    assert read_tokens(client.receive()).found == [("done", ATTN, 0)]
    assert client.batch("x").of("done") == [(COUNT, 1)]


def test_attention_while_the_engine_waits(open_client: Open) -> None:
    started = threading.Event()
    never, other = os.pipe()

    def script(engine: Scripted, text: str, output: ResponseWriter) -> None:
        if text == "again":
            return output.done(1)
        output.columns(INT)
        output.rows(Rows(1))
        started.set()
        try:
            engine.wait(never)
        except Attention:
            engine.seen.append("cancelled")
            raise

    client = open_client(script)
    client.send(1, all_headers() + "x".encode("utf-16-le"))
    assert started.wait(10)
    client.send(6, b"")
    tokens = read_tokens(client.receive())
    assert tokens.of("row") == [(1,)]
    assert tokens.of("done") == [(ERROR, 0)]
    assert read_tokens(client.receive()).found == [("done", ATTN, 0)], "in a message of its own"
    assert client.batch("again").of("done") == [(COUNT, 1)]
    os.close(never)
    os.close(other)


def test_attention_while_results_are_written(open_client: Open) -> None:
    produced: list[int] = []
    ready, other = os.pipe()
    os.write(other, b"x")

    def script(engine: Scripted, text: str, output: ResponseWriter) -> None:
        if text == "again":
            return output.done(1)
        output.columns(INT)
        # Far more than the socket holds: it goes on only because the attention stops it.
        for number in range(10**9):
            engine.wait(ready)
            output.rows(Rows(*range(1000)))
            produced.append(number)

    client = open_client(script)
    client.send(1, all_headers() + "x".encode("utf-16-le"))
    first = client.sock.recv(10000, socket.MSG_PEEK)
    assert first
    client.send(6, b"")
    tokens = read_tokens(client.receive())
    assert tokens.found[-1] == ("done", ERROR, 0)
    assert read_tokens(client.receive()).found == [("done", ATTN, 0)]
    assert len(tokens.of("row")) % 1000 == 0
    assert len(produced) < 10**6
    assert client.batch("again").of("done") == [(COUNT, 1)]
    os.close(ready)
    os.close(other)


def test_a_client_that_leaves_ends_the_request(open_client: Open) -> None:
    started = threading.Event()
    never, _ = os.pipe()

    def script(engine: Scripted, text: str, output: ResponseWriter) -> None:
        started.set()
        engine.wait(never)

    client = open_client(script)
    client.send(1, all_headers())
    assert started.wait(10)
    client.sock.close()


def test_a_withdrawn_request(open_client: Open) -> None:
    client = open_client(lambda engine, text, output: output.done(len(text)))
    client.send(1, all_headers() + "x".encode("utf-16-le"), status=1 | 2)
    assert read_tokens(client.receive()).found == [("done", ERROR, 0)], "MS-TDS 2.2.1.7"
    assert client.batch("y").of("done") == [(COUNT, 1)]
    client.send(6, b"")
    assert read_tokens(client.receive()).of("done") == [(ATTN, 0)]
