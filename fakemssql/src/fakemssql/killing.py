"""KILL of a session: a signal to the process that serves it, which reacts where it waits.

The process waits for its client's next request or, within a request, for PostgreSQL. At both places the signal's
handler raises :class:`Killed`; anywhere else it sets a flag, and the next wait raises.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from types import FrameType

from fakemssql.contract import ClientGone, SqlError

_SIGNAL = signal.SIGUSR1


class Killed(ClientGone):
    """Another session has ended this one."""


class _State:
    killed = waiting = False


_state = _State()


def killed_error() -> SqlError:
    """Error 596, for a session that was killed or lost its connection to PostgreSQL."""
    return SqlError(596, "Cannot continue the execution because the session is in the kill state.", severity=21)


def heed() -> None:
    """Install the handler of the signal in this process."""
    signal.signal(_SIGNAL, _note)


def process() -> int:
    """Return the id of this process, by which others kill its session; 0 if it has no handler of the signal."""
    return os.getpid() if signal.getsignal(_SIGNAL) is _note else 0


def begin() -> None:
    """Clear the flag: a new session begins."""
    _state.killed = False


def kill(process: int) -> None:
    """Kill the session that a process serves; do nothing if the process has ended."""
    with suppress(ProcessLookupError):
        os.kill(process, _SIGNAL)


def check() -> None:
    """Raise :class:`Killed` if the session of this process was killed."""
    if _state.killed:
        raise Killed


def poll(poll: select.poll, milliseconds: float | None = None) -> list[tuple[int, int]]:
    """Poll. Raises :class:`Killed` if the session was killed before or during the wait."""
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
