"""Work that is repeated on a new connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from airflow_sqlqueue.errors import (
    ConfigurationError,
    ConnectionLostError,
    DeadlockError,
    DriverNotFoundError,
    LockTimeoutError,
    LoginFailedError,
    PermissionDeniedError,
    ServerBusyError,
    ServerUnreachableError,
    SqlQueueError,
    StatementError,
    UnknownHostError,
    UntrustedServerError,
)
from airflow_sqlqueue.server.reconnecting import (
    MAX_FAILURES,
    Reconnecting,
    may_have_lost,
    passes,
    pause_after,
    reconnecting,
)


class Session:
    def __init__(self, number: int) -> None:
        self.number, self.closed = number, False

    def close(self) -> None:
        self.closed = True


class Server:
    """Opens sessions; ``refusals`` of them fail first."""

    def __init__(self, refusals: int = 0, refusal: Exception | None = None) -> None:
        self.sessions: list[Session] = []
        self.pauses: list[float] = []
        self.refusals, self.refusal = refusals, refusal or ServerUnreachableError("down")

    def connect(self) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise self.refusal
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


def test_a_connection_serves_all_work_until_it_fails() -> None:
    server = Server()
    connection = server.connection()
    assert [connection.run(failing()), connection.run(failing())] == [0, 0]
    assert connection.run(failing(ConnectionLostError("cut"), DeadlockError("1205"))) == 2
    assert [session.closed for session in server.sessions] == [True, True, False]
    assert server.pauses == [pause_after(1), pause_after(2)]
    connection.close()
    assert server.sessions[-1].closed


def test_a_patient_connection_waits_without_end() -> None:
    server = Server(refusals=5 * MAX_FAILURES)
    connection = Reconnecting(server.connect, "The work", pause=server.pauses.append, patient=True)
    assert connection.run(failing()) == 0
    assert len(server.pauses) == 5 * MAX_FAILURES
    assert max(server.pauses) == pause_after(MAX_FAILURES)


def test_a_patient_connection_does_not_try_a_refused_login_without_end() -> None:
    server = Server(refusals=5 * MAX_FAILURES, refusal=LoginFailedError("refused"))
    connection = Reconnecting(server.connect, "The work", pause=server.pauses.append, known=True, patient=True)
    with pytest.raises(LoginFailedError):
        connection.run(failing())
    assert len(server.pauses) == MAX_FAILURES


def test_a_server_that_is_restarted_is_waited_for() -> None:
    server = Server(refusals=3)
    assert server.connection().run(failing()) == 0
    assert len(server.pauses) == 3


@pytest.mark.parametrize(
    ("error", "at_first", "later"),
    [
        (ServerUnreachableError, True, True),
        (ServerBusyError, True, True),
        (ConnectionLostError, True, True),
        (DeadlockError, True, True),
        (LoginFailedError, False, True),
        (UnknownHostError, False, True),
        (UntrustedServerError, False, False),
        (DriverNotFoundError, False, False),
        (ConfigurationError, False, False),
        (PermissionDeniedError, False, False),
        (StatementError, False, False),
        (ValueError, False, False),
    ],
)
def test_passing_errors_at_the_first_connection_and_later(error: type[Exception], at_first: bool, later: bool) -> None:
    assert passes(error("x"), known=False) is at_first
    assert passes(error("x"), known=True) is later


def test_a_login_that_is_refused_at_first_is_not_tried_again() -> None:
    server = Server(refusals=1, refusal=LoginFailedError("no"))
    with pytest.raises(LoginFailedError):
        server.connection().run(failing())
    assert server.pauses == []


@pytest.mark.parametrize("refusals", [1, MAX_FAILURES - 1, MAX_FAILURES])
def test_a_login_that_was_taken_before_is_tried_again_a_few_times(refusals: int) -> None:
    """As where a database comes up later than its server."""
    server = Server()
    connection = server.connection()
    connection.run(failing())
    server.refusals, server.refusal = refusals, LoginFailedError("not yet")
    work = failing(ConnectionLostError("cut"))
    if refusals < MAX_FAILURES:
        assert connection.run(work) == 1
    else:
        with pytest.raises(LoginFailedError):
            connection.run(work)


def test_a_retry_is_logged_with_its_purpose(caplog: pytest.LogCaptureFixture) -> None:
    Server(refusals=1).connection().run(failing())
    assert [record.getMessage() for record in caplog.records] == ["The work is tried again in 0.4 s: down"]


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (ConnectionLostError("x"), True),
        (StatementError("x"), True),
        (OSError("x"), True),
        (StatementError("x", 2627), False),
        (PermissionDeniedError("x"), False),
    ],
)
def test_a_session_is_dropped_after_an_error_that_may_have_broken_it(
    monkeypatch: pytest.MonkeyPatch, error: Exception, lost: bool
) -> None:
    monkeypatch.setattr("airflow_sqlqueue.server.reconnecting.MAX_SECONDS", 0)
    assert may_have_lost(error) is lost
    server = Server()
    connection = server.connection()
    with pytest.raises(type(error)):
        connection.run(failing(*[error] * (MAX_FAILURES + 1)))
    if isinstance(error, SqlQueueError):
        assert server.sessions[-1].closed is lost


class Reopened(Session):
    """A session that is opened again in its place."""

    opened = 0

    def open(self) -> None:
        self.opened += 1


def test_a_unit_of_work_goes_on_with_its_session_where_the_connection_was_lost(monkeypatch: Any) -> None:
    monkeypatch.setattr("airflow_sqlqueue.server.reconnecting.pause_after", lambda _: 0)
    session: Any = Reopened(7)
    work = failing(ConnectionLostError("cut"), ServerUnreachableError("down"), DeadlockError("1205"))
    assert reconnecting(session, "The work", lambda: work(session)) == 7
    assert (session.opened, session.closed) == (2, True)


def test_a_unit_of_work_is_given_up_after_too_many_lost_connections(monkeypatch: Any) -> None:
    monkeypatch.setattr("airflow_sqlqueue.server.reconnecting.MAX_SECONDS", 0)
    waited: list[int] = []

    def pause(failures: int) -> float:
        waited.append(failures)
        return 0

    monkeypatch.setattr("airflow_sqlqueue.server.reconnecting.pause_after", pause)
    session: Any = Reopened(7)
    work = failing(*[ConnectionLostError("cut")] * 9)
    with pytest.raises(ConnectionLostError):
        reconnecting(session, "The work", lambda: work(session))
    assert waited == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_unit_of_work_that_others_lock_out_keeps_its_connection() -> None:
    session: Any = Reopened(7)
    with pytest.raises(LockTimeoutError):
        reconnecting(session, "The work", lambda: failing(LockTimeoutError("1222"))(session))
    assert (session.opened, session.closed) == (0, False)


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


class Clock:
    """Time that passes by pauses alone."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


FIRST_PAUSES = sum(pause_after(number) for number in range(1, MAX_FAILURES + 1))


@pytest.mark.parametrize(
    ("error", "seconds"),
    [(ServerBusyError("40613"), 120.0), (ServerUnreachableError("down"), 120.0), (DeadlockError("1205"), FIRST_PAUSES)],
)
def test_a_server_that_is_away_has_two_minutes(
    monkeypatch: pytest.MonkeyPatch, error: Exception, seconds: float
) -> None:
    """As a paused database of Azure needs to resume; the number of failures does not end the work before."""
    clock = Clock()
    monkeypatch.setattr("airflow_sqlqueue.server.reconnecting.time", clock)
    with pytest.raises(type(error)):
        Reconnecting(Server().connect, "The work").run(failing(*[error] * 100))
    assert seconds <= round(clock.now - 1_000, 3) < seconds + 10


def test_so_has_a_unit_of_work_with_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, session, error = Clock(), cast(Any, Reopened(0)), ConnectionLostError("cut")
    monkeypatch.setattr("airflow_sqlqueue.server.reconnecting.time", clock)
    work = failing(*[error] * 100)
    with pytest.raises(ConnectionLostError):
        reconnecting(session, "The work", lambda: work(session))
    assert 120 <= clock.now - 1_000 < 130


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


def test_a_stream_continues_after_a_failure_and_counts_its_rows_as_progress() -> None:
    server, left = Server(), list(range(MAX_FAILURES * 2))

    def work(session: Session) -> Iterator[int]:
        while left:
            yield left.pop(0)
            raise ConnectionLostError("cut")

    assert list(server.connection().stream(work)) == list(range(MAX_FAILURES * 2))  # type: ignore[arg-type]
    assert set(server.pauses) == {pause_after(1)}


def test_each_piece_of_work_may_fail_as_often_as_the_first() -> None:
    server = Server()
    connection = server.connection()
    for _ in range(2):
        number = connection.run(failing(*[DeadlockError("1205")] * MAX_FAILURES))
        work = failing(*[DeadlockError("1205")] * MAX_FAILURES)
        assert list(connection.stream(lambda session, work=work: [work(session)])) == [number + MAX_FAILURES]


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
