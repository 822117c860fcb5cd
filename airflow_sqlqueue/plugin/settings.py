"""Settings of the page in Airflow's configuration."""

from __future__ import annotations

from airflow.configuration import conf

from airflow_sqlqueue import __version__

ACTIONS_DAG = "sqlqueue_actions"
"""DAG that runs the page's actions: :mod:`airflow_sqlqueue.plugin.actions_dag`."""

VERSION = __version__


def named_connections() -> list[str]:
    """Return the connections that the page shows beside those of type ``sqlqueue`` in the environment."""
    return [name for name in _names("page_connections") if name != "*"]


def shows_saved_connections() -> bool:
    """Return whether the page shows all connections of type ``sqlqueue`` in Airflow's database."""
    return "*" in _names("page_connections")


def is_open(conn_id: str) -> bool:
    """Return whether every user of the page sees the connection's queues, without the right to read the connection."""
    return not {conn_id, "*"}.isdisjoint(_names("page_open_connections"))


def shows_bodies() -> bool:
    """Return whether the page may show bodies at all."""
    return bool(conf.getboolean("sqlqueue", "page_show_bodies", fallback=False))


def metrics_token() -> str:
    """Return the token that a scraper must send; empty: the endpoint is off."""
    return _text("page_metrics_token")


def _text(name: str) -> str:
    return str(conf.get("sqlqueue", name, fallback="") or "")


def _names(name: str) -> list[str]:
    return [part.strip() for part in _text(name).split(",") if part.strip()]
