"""KILL of a session: a signal to the process that serves it, which heeds it where it waits.

The process waits for its client's next request, or in a request for PostgreSQL. In both places the signal's handler
raises :class:`Killed`; anywhere else it is noted, and raised at the next wait.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from types import FrameType

from fakemssql.contract import ClientGone

_SIGNAL = signal.SIGUSR1


class Killed(ClientGone):
    """Another session has ended this one."""


class _State:
    killed = waiting = False


_state = _State()


def heed() -> None:
    """Have this process heed the signal."""
    signal.signal(_SIGNAL, _note)


def process() -> int:
    """The process to kill this one's session by; 0 where it does not heed the signal."""
    return os.getpid() if signal.getsignal(_SIGNAL) is _note else 0


def begin() -> None:
    """A session begins, which nobody has killed."""
    _state.killed = False


def kill(process: int) -> None:
    """Kill the session that a process serves; one that has ended meanwhile is no matter."""
    with suppress(ProcessLookupError):
        os.kill(process, _SIGNAL)


def check() -> None:
    """Raise :class:`Killed` where the session of this process was killed."""
    if _state.killed:
        raise Killed


def poll(poll: select.poll, milliseconds: float | None = None) -> list[tuple[int, int]]:
    """Poll; raises :class:`Killed`, also when the signal comes meanwhile."""
    _state.waiting = True
    try:
        check()
        return poll.poll(milliseconds)
    finally:
        _state.waiting = False


def _note(_number: int, _frame: FrameType | None) -> None:
    _state.killed = True
    if _state.waiting:
        raise Killed
