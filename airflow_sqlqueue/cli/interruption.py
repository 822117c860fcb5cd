"""Interrupted drains: report what is in the batch, and the command that resumes it."""

from __future__ import annotations

import logging
import signal
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from shlex import join
from typing import TYPE_CHECKING, Any

import typer

from airflow_sqlqueue.cli.output import note
from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.options.budget import count_of

if TYPE_CHECKING:
    from airflow_sqlqueue.client.client import QueueClient


class InterruptedDrainError(BaseException):
    """A signal arrived. Not an Exception, like KeyboardInterrupt, so that handlers of errors let it pass."""


@contextmanager
def explained(client: QueueClient, queue_name: str, batch_id: uuid.UUID, command: Sequence[str]) -> Iterator[None]:
    """Report what is in the batch and which command resumes it, when the block ends early.

    Ctrl-C ends the command with exit code 130, SIGTERM with 143; a second signal ends it at once.
    """
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, _: Any) -> None:
        received.append(number)
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        # The driver reports an interrupted system call as an error, and the workers would log that.
        logging.disable()
        raise InterruptedDrainError

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    except BaseException:
        _explain(client, queue_name, batch_id, command, interrupted=bool(received))
        if received:
            raise typer.Exit(128 + received[0]) from None
        raise
    finally:
        if not received:
            for number, handler in before.items():
                signal.signal(number, handler)


def _explain(
    client: QueueClient, queue_name: str, batch_id: uuid.UUID, command: Sequence[str], *, interrupted: bool
) -> None:
    resume = f"Resume it with: {join(command)}"
    beginning = "Interrupted. " if interrupted else ""
    try:
        info = client.batches.info(batch_id, queue_name)
    except SqlQueueError:
        note(f"{beginning}The ledger cannot be reached to see what is in batch {batch_id}. {resume}")
        return
    if info is not None and info.state != "open":
        note(
            f"{beginning}Batch {batch_id} is {info.state} and has {count_of(info.messages, 'message')}: leave "
            "--batch-id out to drain into a new one."
        )
    elif info is not None:
        note(
            f"{beginning}Batch {batch_id} is {info.state} and has {count_of(info.messages, 'message')} in "
            f"{count_of(info.parts, 'part')}; all others are in the queue. {resume}"
        )
    elif interrupted:
        note(f"{beginning}Batch {batch_id} was not opened: all messages are in the queue.")
