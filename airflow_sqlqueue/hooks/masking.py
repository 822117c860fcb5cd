"""Secrets of a connection, made known to Airflow, which masks them in logs and rendered fields."""

from __future__ import annotations

from urllib.parse import quote_plus

from airflow.sdk.log import mask_secret

from airflow_sqlqueue.hooks.connection import QueueConnection

_SHORTEST = 5
"""Characters. Airflow does not mask what is shorter, and warns of it."""


def mask_secrets(read: QueueConnection) -> None:
    """Mask the passwords of a connection in every form in which they are written, and its ODBC keywords."""
    mask_secret({name: value for name, value in read.settings.keywords.items() if len(value) >= _SHORTEST})
    for form in {form for secret in read.secrets for form in _written_forms(secret)}:
        mask_secret(form)


def _written_forms(secret: str) -> set[str]:
    """How a password stands by itself, in a connection string of ODBC or .NET, and in a URL."""
    braced = secret.replace("}", "}}")
    doubled = (secret.replace('"', '""'), secret.replace("'", "''"))
    return {secret, braced, quote_plus(braced), quote_plus(secret), *doubled}
