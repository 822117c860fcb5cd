"""Handlers that a command line names as ``module:handlers``, as uvicorn and Celery name applications."""

from __future__ import annotations

import sys
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.errors import ConfigurationError


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
