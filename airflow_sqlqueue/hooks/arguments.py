"""Arguments of the hook by name, for tasks and triggers that pass them on; importing this does not load the hook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import check_names

HOOK_ARGUMENTS = (
    *("database", "driver", "lock_timeout", "default_schema", "default_catalog", "queue_schemas", "queue_catalogs"),
    *("endpoint_schemas", "endpoint_catalogs", "allowed_catalogs", "allowed_schemas", "transport_version"),
    *("delayed_suffix", "subscription_table", "ledger_schema", "log_sql"),
)
"""Keyword arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`."""


def check_hook_params(hook_params: Any) -> None:
    """Raise :class:`ConfigurationError` for what is no mapping of the hook's arguments; None is no argument.

    The hook itself ignores unknown arguments, because Airflow's SQL operators pass it each key of an extra. Here a
    misspelled name would silently lead to another table.
    """
    if hook_params is None:
        return
    if not isinstance(hook_params, Mapping):
        raise ConfigurationError(f"hook_params is a mapping of arguments, not {type(hook_params).__name__}.")
    check_names(hook_params, HOOK_ARGUMENTS, "hook_params has no argument")
