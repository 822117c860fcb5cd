"""A process that dies at one of its statements, in the process of the test."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from airflow_sqlqueue.errors import ConnectionLostError
from airflow_sqlqueue.server.session import Session


class Killed(BaseException):
    """The process is dead: nothing of it runs any more."""


class Mortal:
    """Counts the statements of all sessions, and at one of them closes every connection and lets nothing run after.

    The server sees what it sees of a process that is killed. ``after`` the statement, or before it. What other threads
    run, by the clock, is not counted, and finds its connection lost when the process is dead.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left: int | None = None
        self._after = self._dead = False
        self._sessions: list[Session] = []
        run, thread = Session.run, threading.get_ident()

        def counted(session: Session, *arguments: Any, **sizes: Any) -> list[Any]:
            if threading.get_ident() != thread:
                if self._dead:
                    raise ConnectionLostError("The process is dead.")
                return run(session, *arguments, **sizes)
            if session not in self._sessions:
                self._sessions.append(session)
            if self._dead or (self._is_last() and not self._after):
                self._die()
            rows = run(session, *arguments, **sizes)
            if self._left == 0:
                self._die()
            return rows

        monkeypatch.setattr(Session, "run", counted)

    def _is_last(self) -> bool:
        if self._left is None:
            return False
        self._left -= 1
        return self._left == 0

    def _die(self) -> None:
        self._dead = True
        for session in self._sessions:
            session.close()
        raise Killed

    def born(self, statements: int | None, *, after: bool = False) -> None:
        """A process that lives for this number of statements."""
        self._left, self._after, self._dead, self._sessions = statements, after, False, []
