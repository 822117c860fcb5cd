"""Command consume: an endpoint in Python as a service, until it is stopped."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.health import Health, HealthServer
from airflow_sqlqueue.cli.options import Common, FilterOptions
from airflow_sqlqueue.cli.output import note
from airflow_sqlqueue.cli.signals import on_signals
from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.endpoint.options import ConsumeOptions, ConsumeResult
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import option

if TYPE_CHECKING:
    from airflow_sqlqueue.client.queues import Queue

log = logging.getLogger(__name__)

_PROGRESS_SECONDS = 10.0
"""Seconds between two lines of progress, if there is any."""

_LOOK_SECONDS = 0.1
"""Seconds between two looks for a signal."""


@dataclass(frozen=True)
class HealthOptions:
    """Options of the health port."""

    health_port: Annotated[
        Optional[int],
        typer.Option(min=0, max=65_535, help="Serve /health/live, /health/ready and /metrics here; 0: any free port."),
    ] = None
    health_host: str = option("127.0.0.1", "address of the health port; 0.0.0.0 for all")


def consume(
    handlers: Annotated[
        str, typer.Argument(metavar="MODULE:HANDLERS", help="A MessageHandlers or a function, in a module.")
    ],
    common: Common,
    handling: ConsumeOptions,
    selected: FilterOptions,
    health: HealthOptions,
    data_bus: str | None = option(None, "data bus of the senders, a folder or an object store URL"),
    queue: str | None = option(None, "the queue's address: table, table@[schema] or table@[schema]@[catalog]"),
    endpoint: str | None = option(
        None, "name of the endpoint in headers; without --queue its queue, by the routing settings"
    ),
) -> None:
    """Handle messages with Python functions, until stopped.

    The module is found in the current folder and among the installed packages. SIGTERM and Ctrl-C end the command with
    exit code 0 after the messages in hand; a second one rolls these back, and the exit code is 143 or 130.
    """
    if queue is None and endpoint is None:
        raise ConfigurationError("Name the queue by --queue, or by --endpoint and the routing settings.")
    if data_bus is not None:
        from airflow_sqlqueue.endpoint.databus.data_bus import DataBus

        handling = replace(handling, data_bus=DataBus(data_bus))
    options = replace(handling, endpoint=endpoint, where=selected.filter(), wait_for_server=True)
    client = common.connect()
    name = client.resolver.address_of(*((queue, None) if queue is not None else (None, endpoint)))
    _log_to_stderr()
    bound = load_handlers(handlers).bind(client=client)
    target = client.queue(name)
    watched = Health(target.address)
    with ExitStack() as stack:
        if health.health_port is not None:
            server = stack.enter_context(HealthServer(watched, health.health_host, health.health_port))
            log.info("Health and metrics are at %s", server.url)
        log.info("Consuming the queue %s with %s", target.address.canonical, handlers)
        done = _Service(target, bound, options, watched).run()
    common.show({"queue": target.address.canonical, **done.to_dict()})


def load_handlers(source: str) -> MessageHandlers:
    """Import a module, from the current folder or an installed package, and return its handlers.

    A function becomes the handler of all messages. Raises :class:`ConfigurationError` for a module or a name that is
    missing, and for a value of another kind. An error of the module itself is raised unchanged, with its traceback.
    """
    module, separator, name = source.partition(":")
    parts = module.split("."), name.split(".")
    if not separator or not all(part.isidentifier() for part in (*parts[0], *parts[1])):
        raise ConfigurationError(f"{source!r} names no handlers: give MODULE:NAME, as billing:handlers.")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        imported = import_module(module)
    except ModuleNotFoundError as error:
        packages = {".".join(parts[0][: count + 1]) for count in range(len(parts[0]))}
        if error.name not in packages:
            raise
        raise ConfigurationError(
            f"There is no module {error.name!r} in the folder {folder} or among the installed packages."
        ) from error
    try:
        found: Any = reduce(getattr, parts[1], imported)
    except AttributeError as error:
        raise ConfigurationError(f"The module {module!r} has no {name!r}.") from error
    if isinstance(found, MessageHandlers):
        return found
    if not callable(found):
        raise ConfigurationError(f"{source!r} is a {type(found).__name__}: name a MessageHandlers or a function.")
    handlers = MessageHandlers()
    handlers.default(found)
    return handlers


class _Service:
    """Run of a consumer in a thread of its own, so that signals interrupt no call of the driver."""

    def __init__(self, queue: Queue, handlers: MessageHandlers, options: ConsumeOptions, health: Health) -> None:
        self._queue, self._handlers, self._options, self._health = queue, handlers, options, health
        self._stop, self._ended = threading.Event(), threading.Event()
        self._done: ConsumeResult | None = None
        self._error: BaseException | None = None
        self._progress = _ProgressLines()

    def run(self) -> ConsumeResult:
        """Consume until the end, and return the counts. Raises the errors of :meth:`.Consumer.run`."""
        thread = threading.Thread(target=self._consume, name="consumer", daemon=True)
        with _signals() as received:
            thread.start()
            while not self._ended.wait(_LOOK_SECONDS):
                if len(received) > 1:
                    note("Stopped at once: the messages in hand are rolled back.")
                    raise typer.Exit(128 + received[1])
                if received and not self._stop.is_set():
                    log.info("Stopping after the messages in hand; a second signal rolls them back")
                    self._health.stopping = True
                    self._stop.set()
                self._progress.log(self._health.counts)
        if self._error is not None:
            raise self._error
        assert self._done is not None
        return self._done

    def _consume(self) -> None:
        try:
            self._done = self._queue.consume(
                self._handlers,
                self._options,
                on_progress=self._health.note_counts,
                stop=self._stop,
                on_contact=self._health.note_contact,
            )
        except BaseException as error:
            self._error = error
        finally:
            self._health.stopping = True
            self._ended.set()


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect the numbers of SIGTERM and SIGINT during the block. Only a list is safe in a handler: locks are not."""
    received: list[int] = []
    with on_signals(lambda number, _: received.append(number), signal.SIGINT, signal.SIGTERM):
        yield received


class _ProgressLines:
    """Lines of progress in the log, every ten seconds, if there was any."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._at = time.monotonic()

    def log(self, counts: dict[str, int]) -> None:
        """Log the counts if it is time, with the rate since the last time."""
        seconds = time.monotonic() - self._at
        if seconds < _PROGRESS_SECONDS:
            return
        if any(count != self._last.get(name, 0) for name, count in counts.items()):
            rate = (counts["messages"] - self._last.get("messages", 0)) / seconds
            shown = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count)
            log.info("%s; %.1f messages per second", shown, rate)
        self._last, self._at = counts, time.monotonic()


def _log_to_stderr() -> None:
    """Log to standard error, unless the program around it has logging of its own."""
    if not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel(logging.INFO)


COMMANDS = (consume,)
