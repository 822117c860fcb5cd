"""Prepared handles, procedures, requests of transactions, and connections that are used again."""

from __future__ import annotations

import struct

import pytest

from support.scripted import ERROR, MORE, RPC_IN_BATCH, Open, Scripted
from support.tds_client import all_headers, parameter_int, parameter_text, read_tokens, rpc_by_id, rpc_by_name


def test_prepared_handles(open_client: Open) -> None:
    engines: list[Scripted] = []
    client = open_client(lambda engine, text, output: output.done(1), engine_list=engines)
    prepare = parameter_int("", None, 1) + parameter_text("", "@a int") + parameter_text("", "insert")
    tokens = client.rpc(rpc_by_id(13, prepare + parameter_int("", 5)))
    assert [token[0] for token in tokens.found] == ["inproc", "status", "value", "proc"]
    handle = int(tokens.of("value")[0][2])  # type: ignore[call-overload]
    execute = [rpc_by_id(12, parameter_int("", handle) + parameter_int("", n)) for n in (6, 7)]
    tokens = client.rpc(*execute)
    assert tokens.of("proc") == [(MORE | RPC_IN_BATCH, 0), (0, 0)]
    assert tokens.of("status") == [(0,), (0,)]
    assert engines[0].seen == [[("@a", 5)], [("@a", 6)], [("@a", 7)]]
    assert client.rpc(rpc_by_id(15, parameter_int("", handle))).of("proc") == [(0, 0)]
    assert client.rpc(execute[0]).of("message")[0][0] == 8179
    assert client.rpc(rpc_by_id(11, prepare)).of("value")
    wrong = parameter_int("", None, 1) + parameter_text("", "") + parameter_text("", "wrong")
    assert client.rpc(rpc_by_id(11, wrong)).of("message")[0][0] == 102


def test_a_failing_call_among_several(open_client: Open) -> None:
    client = open_client(lambda engine, text, output: output.done(1))
    good = rpc_by_id(10, parameter_text("", "x"))
    tokens = client.rpc(good, rpc_by_name("nope", b""), good)
    assert tokens.of("proc") == [(MORE | RPC_IN_BATCH, 0), (MORE | RPC_IN_BATCH | ERROR, 0), (0, 0)]
    assert [token[0] for token in tokens.of("message")] == [2812]


def test_a_procedure_by_name(open_client: Open) -> None:
    tokens = open_client().rpc(rpc_by_name("dbo.echo", parameter_int("@a", 4, 1)))
    assert tokens.found == [("status", 7), ("value", 0, "@a", 4), ("proc", 0, 0)]


def test_server_cursors_are_refused(open_client: Open) -> None:
    assert open_client().rpc(rpc_by_id(2, parameter_int("", 4, 1))).of("message")[0][0] == 40510


def test_transaction_requests(open_client: Open) -> None:
    client = open_client()
    client.send(0x0E, all_headers() + struct.pack("<HBB", 5, 2, 0))
    tokens = read_tokens(client.receive())
    assert tokens.found == [("change", 8, b"\x08" + struct.pack("<Q", 5) + b"\0"), ("done", 0, 0)]
    client.send(0x0E, all_headers() + struct.pack("<HBB", 8, 0, 0))
    assert read_tokens(client.receive()).of("change") == [(10, b"\0\x08" + struct.pack("<Q", 5))]


@pytest.mark.parametrize(("bit", "keep"), [(0x08, False), (0x10, True)])
def test_a_pooled_connection_is_reset(open_client: Open, bit: int, keep: bool) -> None:
    engines: list[Scripted] = []
    client = open_client(engine_list=engines)
    client.send(1, all_headers(), status=1 | bit)
    tokens = read_tokens(client.receive())
    assert tokens.found == [("change", 18, b"\0\0"), ("done", 0, 0)]
    assert engines[0].seen == [("reset", keep)]
