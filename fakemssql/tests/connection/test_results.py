"""Result sets, counts, messages and errors as tokens."""

from __future__ import annotations

import pytest

from fakemssql.contract import ResponseWriter, ResultColumn, SqlError
from fakemssql.types import SqlType
from support.scripted import COUNT, ERROR, INT, MORE, Open, Rows, Scripted
from support.tds_client import Tokens, parameter_text, rpc_by_id


def two_results(engine: Scripted, text: str, output: ResponseWriter) -> None:
    output.message(SqlError(0, "hello", severity=0))
    output.columns(INT)
    output.rows(Rows(1, -2))
    output.done(2)
    output.done(7)
    output.columns(INT)
    output.done(0)


def test_done_tokens_of_a_batch(open_client: Open) -> None:
    tokens = open_client(two_results).batch("x")
    assert [token[0] for token in tokens.found] == [
        "message",
        "columns",
        "row",
        "row",
        "done",
        "done",
        "columns",
        "done",
    ]
    assert tokens.of("row") == [(1,), (-2,)]
    assert tokens.of("done") == [(COUNT | MORE, 2), (COUNT | MORE, 7), (COUNT, 0)]


def test_done_tokens_of_a_call(open_client: Open) -> None:
    tokens = open_client(two_results).rpc(rpc_by_id(10, parameter_text("", "x")))
    assert tokens.of("inproc") == [(COUNT | MORE, 2), (COUNT | MORE, 7), (COUNT | MORE, 0)]
    assert [token[0] for token in tokens.found][-2:] == ["status", "proc"]
    assert tokens.of("proc") == [(0, 0)]


def test_an_empty_batch_is_done(open_client: Open) -> None:
    assert open_client().batch("").found == [("done", 0, 0)]


def test_statements_without_a_count_stay_silent(open_client: Open) -> None:
    def script(engine: Scripted, text: str, output: ResponseWriter) -> None:
        output.done(None)
        output.columns(INT)
        output.rows(Rows(1))
        output.done(None)
        output.done(None)

    assert open_client(script).batch("x").of("done") == [(0, 0)]


def test_an_error_in_the_middle(open_client: Open) -> None:
    def script(engine: Scripted, text: str, output: ResponseWriter) -> None:
        output.columns(INT)
        output.rows(Rows(1))
        output.message(SqlError(8134, "Divide by zero error encountered."))
        output.done(None)
        output.done(1)

    client = open_client(script)
    assert client.batch("x").of("done") == [(ERROR | MORE, 0), (COUNT, 1)]
    tokens = client.rpc(rpc_by_id(10, parameter_text("", "x")))
    assert tokens.of("inproc") == [(ERROR | MORE, 0), (COUNT | MORE, 1)]
    assert (tokens.of("proc"), tokens.of("status")) == ([(0, 0)], [(8134,)])


def test_a_value_that_does_not_fit_ends_its_result_set(open_client: Open) -> None:
    def script(engine: Scripted, text: str, output: ResponseWriter) -> None:
        output.columns([ResultColumn("a", SqlType("tinyint"), 23)])
        output.rows(Rows(1))
        output.rows(Rows(2, 256))
        output.rows(Rows(3))
        output.done(4)

    tokens = open_client(script).batch("x")
    assert tokens.of("row") == [(1,), (2,)]
    assert tokens.of("message")[0][0] == 8115
    assert tokens.of("done") == [(ERROR, 0)]


def test_an_error_at_the_end(open_client: Open) -> None:
    def script(engine: Scripted, text: str, output: ResponseWriter) -> None:
        output.done(1)
        output.message(SqlError(2627, "Violation."))

    client = open_client(script)
    assert client.batch("x").of("done") == [(COUNT | MORE, 1), (ERROR, 0)]
    assert client.rpc(rpc_by_id(10, parameter_text("", "x"))).of("proc") == [(ERROR, 0)]


def test_a_defect_is_reported_without_its_text(open_client: Open, caplog: pytest.LogCaptureFixture) -> None:
    def script(engine: Scripted, text: str, output: ResponseWriter) -> None:
        raise KeyError("secret body")

    client = open_client(script)
    tokens = client.batch("x")
    assert tokens.of("message")[0][:2] == (8630, 17)
    assert "KeyError" in caplog.text
    assert "secret" not in str(tokens.found) + caplog.text
    assert tokens.of("done") == [(ERROR, 0)]
    assert client.batch("x").of("message")


def test_a_fatal_error_ends_the_connection(open_client: Open) -> None:
    client = open_client(lambda engine, text, output: output.message(SqlError(596, "Killed.", severity=21)))
    assert client.batch("x").of("message")[0][:2] == (596, 21)
    assert client.sock.recv(1) == b""


def test_a_large_request_and_a_large_response(open_client: Open) -> None:
    def script(engine: Scripted, text: str, output: ResponseWriter) -> None:
        output.columns(INT)
        output.rows(Rows(*range(200_000)))
        output.done(len(text))

    tokens: Tokens = open_client(script).batch("x" * 1_000_000)
    assert tokens.of("done") == [(COUNT, 1_000_000)]
    assert tokens.of("row") == [(n,) for n in range(200_000)]
