"""The one way from an event loop to Airflow's connections; Airflow 3.1's triggerer dies of any other.

A triggerer asks its supervisor for connections through one channel, which belongs to its event loop. Of other threads
only those of asgiref's ``sync_to_async`` know that loop; a lookup in any other one reads the loop's answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from asgiref.sync import sync_to_async

T = TypeVar("T")

_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("sqlqueue_lookups", default=None)


async def look_up(work: Callable[[], T]) -> T:
    """Run work that may look up connections on a thread that may do that, and return its result.

    Work goes on if its caller is cancelled: an unread answer would be taken for that of the next question.
    """
    loop = asyncio.get_running_loop()

    def run() -> T:
        before = _loop.set(loop)
        try:
            return work()
        finally:
            _loop.reset(before)

    return await asyncio.shield(asyncio.ensure_future(sync_to_async(run, thread_sensitive=False)()))


def loop_of_lookups() -> asyncio.AbstractEventLoop | None:
    """The event loop that this thread looks up connections for; None outside of :func:`look_up`."""
    return _loop.get()


def look_up_from(loop: asyncio.AbstractEventLoop | None, work: Callable[[], T]) -> T:
    """Run work that may look up connections, from any thread but the loop's; None: a process without such a loop."""
    if loop is None or _loop.get() is loop:
        return work()
    return asyncio.run_coroutine_threadsafe(look_up(work), loop).result()
