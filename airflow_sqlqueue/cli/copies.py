"""Command on copies of new messages."""

from __future__ import annotations

from datetime import timedelta

from airflow_sqlqueue.cli.options import Common
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import option


def copies(
    common: Common,
    queue: str | None = option(None, "only the copies of this queue"),
    reset: str | None = option(
        None, "forget what this copy of --queue has: it begins at the head of the queue", metavar="NAME"
    ),
    close: str | None = option(None, "close gaps of this copy of --queue, older than --older-than", metavar="NAME"),
    older_than: timedelta | None = option(None, "with --close: no transaction of the queue lasts longer: 30m, 12h, 7d"),
) -> None:
    """List the copies of drains with --incremental, or reset one."""
    found = common.connect().copies
    if close is not None or older_than is not None:
        if close is None or older_than is None or queue is None:
            raise ConfigurationError("Gaps are closed with all of --queue, --close and --older-than.")
        closed = found.close_gaps(close, queue, longest_transaction=older_than)
        common.show({"copy": close, "queue": queue, "closed": closed})
        return
    if reset is None:
        common.show([info.to_dict() for info in found.list(queue)])
        return
    if queue is None:
        raise ConfigurationError("A copy belongs to a queue: give --queue with --reset.")
    if not found.reset(reset, queue):
        raise ConfigurationError(f"There is no copy {reset!r} of {queue}: 'sqlqueue copies' lists them.")
    common.show({"reset": reset, "queue": queue})


COMMANDS = (copies,)
