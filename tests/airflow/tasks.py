"""A drain as a task, and coroutines of triggers, for the tests of operators and triggers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator

SECONDS = 120


def drain_task(queue_name: str, staging: Any, **arguments: Any) -> SqlQueueDrainToSparkOperator:
    """The drain to Spark as the task ``task``."""
    return SqlQueueDrainToSparkOperator(task_id="task", queue_name=queue_name, staging=staging, **arguments)


def run_coroutine(function: Callable[[], Awaitable[Any]]) -> Any:
    """Run it in an event loop of its own, for at most ``SECONDS``."""

    async def within() -> Any:
        return await asyncio.wait_for(function(), SECONDS)

    return asyncio.run(within())
