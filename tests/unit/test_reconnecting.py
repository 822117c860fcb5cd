"""Work that is repeated on a new connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_sqlqueue.errors import ConnectionLostError, DeadlockError, PermissionDeniedError, ServerUnreachableError
from airflow_sqlqueue.reconnecting import MAX_FAILURES, Reconnecting, pause_after


class Session:
    def __init__(self, number: int) -> None:
        self.number, self.closed = number, False

    def close(self) -> None:
        self.closed = True


class Server:
    """Opens sessions; ``refusals`` of them fail first."""

    def __init__(self, refusals: int = 0) -> None:
        self.sessions: list[Session] = []
        self.pauses: list[float] = []
        self.refusals = refusals

    def connect(self) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise ServerUnreachableError("down")
        self.sessions.append(Session(len(self.sessions)))
        return self.sessions[-1]

    def connection(self) -> Reconnecting:
        return Reconnecting(self.connect, "The work", pause=self.pauses.append)


def failing(*errors: Exception) -> Any:
    waiting = list(errors)

    def work(session: Session) -> int:
        if waiting:
            raise waiting.pop(0)
        return session.number

    return work


def test_one_connection_serves_all_work_until_it_fails() -> None:
    server = Server()
    connection = server.connection()
    assert [connection.run(failing()), connection.run(failing())] == [0, 0]
    assert connection.run(failing(ConnectionLostError("cut"), DeadlockError("1205"))) == 2
    assert [session.closed for session in server.sessions] == [True, True, False]
    assert server.pauses == [pause_after(1), pause_after(2)]
    connection.close()
    assert server.sessions[-1].closed


def test_a_server_that_is_restarted_is_waited_for() -> None:
    server = Server(refusals=3)
    assert server.connection().run(failing()) == 0
    assert len(server.pauses) == 3


def test_the_first_connection_is_not_retried_where_the_caller_says_so() -> None:
    server = Server(refusals=1)
    with pytest.raises(ServerUnreachableError):
        server.connection().connect()
    assert server.pauses == []


def test_other_errors_are_raised_at_once() -> None:
    server = Server()
    with pytest.raises(PermissionDeniedError):
        server.connection().run(failing(PermissionDeniedError("no")))
    assert server.pauses == []


def test_failures_that_do_not_stop_are_raised() -> None:
    server = Server()
    with pytest.raises(DeadlockError):
        server.connection().run(failing(*[DeadlockError("1205")] * (MAX_FAILURES + 1)))
    assert len(server.pauses) == MAX_FAILURES
    assert all(session.closed for session in server.sessions)


def test_progress_resets_the_count_of_failures() -> None:
    server = Server()
    connection, rounds = server.connection(), iter(range(MAX_FAILURES * 3))

    def work(session: Session) -> str:
        for _ in rounds:
            connection.made_progress()
            raise DeadlockError("1205")
        return "done"

    assert connection.run(work) == "done"  # type: ignore[arg-type]
    assert server.pauses == [pause_after(1)] * MAX_FAILURES * 3


def test_a_stream_goes_on_after_a_failure_and_counts_what_it_yields_as_progress() -> None:
    server, left = Server(), list(range(MAX_FAILURES * 2))

    def work(session: Session) -> Iterator[int]:
        while left:
            yield left.pop(0)
            raise ConnectionLostError("cut")

    assert list(server.connection().stream(work)) == list(range(MAX_FAILURES * 2))  # type: ignore[arg-type]
    assert set(server.pauses) == {pause_after(1)}


def test_a_stream_that_only_fails_is_given_up() -> None:
    def work(session: Session) -> Iterator[int]:
        raise DeadlockError("1205")
        yield 1

    server = Server()
    with pytest.raises(DeadlockError):
        list(server.connection().stream(work))  # type: ignore[arg-type]
    assert len(server.pauses) == MAX_FAILURES


def test_a_pause_that_raises_ends_the_work() -> None:
    class StoppedError(Exception): ...

    def stop(seconds: float) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        Reconnecting(Server().connect, "The work", pause=stop).run(failing(DeadlockError("1205")))
