"""Redactors of DAGs: the rules of a task, and the key of an Airflow connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow_sqlqueue.bodies.redaction.redactor import Redactor


def redactor_of(rules: Any, conn_id: str | None) -> Redactor | None:
    """Return the redactor of rules, in the forms of :meth:`.RedactionRules.of`; None without rules.

    The key of the hashes is the password of the connection ``conn_id``. Raises
    :class:`~airflow_sqlqueue.errors.ConfigurationError` for rules that cannot be used, and for a connection without a
    password.
    """
    if rules is None:
        return None
    from airflow_sqlqueue.bodies.redaction.redactor import Redactor

    return Redactor.of(rules, None if conn_id is None else redaction_key(conn_id))


def redaction_key(conn_id: str) -> str:
    """Return the key of a connection, its password, which Airflow hides in logs."""
    from airflow.providers.common.compat.sdk import BaseHook

    key = BaseHook.get_connection(conn_id).password
    if not key:
        raise ConfigurationError(f"The connection {conn_id!r} has no password, which is the key of the redaction.")
    return str(key)
