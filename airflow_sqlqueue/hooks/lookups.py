"""The one way from an event loop to Airflow's connections; Airflow 3.1's triggerer dies of any other.

A triggerer has one channel for connections, which belongs to its event loop. Of other threads only those of asgiref's
``sync_to_async`` know that loop; a lookup in any other one reads the loop's answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TypeVar

from asgiref.sync import sync_to_async

T = TypeVar("T")
Loop = asyncio.AbstractEventLoop

LOOP: ContextVar[Loop | None] = ContextVar("LOOP", default=None)
"""The event loop that this thread looks up connections for."""


async def look_up(work: Callable[[], T]) -> T:
    """Run work that may look up connections on a thread that may do that, and return its result.

    Work goes on if its caller is cancelled: an unread answer would be taken for that of the next question.
    """
    context = copy_context()
    context.run(LOOP.set, asyncio.get_running_loop())
    thread = sync_to_async(partial(context.run, work), thread_sensitive=False)
    return await asyncio.shield(asyncio.ensure_future(thread()))


def look_up_from(loop: Loop | None, work: Callable[[], T]) -> T:
    """Run work that may look up connections, from any thread but the loop's; None: a process without such a loop."""
    if loop is None or LOOP.get() is loop:
        return work()
    return asyncio.run_coroutine_threadsafe(look_up(work), loop).result()
