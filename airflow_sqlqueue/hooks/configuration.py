"""Permissions of connections in the section ``[sqlqueue]`` of Airflow's configuration."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import conf

from airflow_sqlqueue.server.connection_policy import ANY, Allowed


def allowed() -> Allowed:
    """Return what the configuration allows beyond the lists of :mod:`~airflow_sqlqueue.server.connection_policy`."""
    return Allowed(
        any_driver=bool(conf.getboolean("sqlqueue", "allow_driver_in_extra", fallback=False)),
        token_hosts=_names("token_hosts"),
        token_connections=_names("access_token_connections"),
        spark_settings=_names("spark_settings_in_extra"),
        spark_masters=_names("spark_masters", ANY),
    )


def _names(option: str, default: str = "") -> tuple[str, ...]:
    """Return the names of an option, which commas separate."""
    text = str(conf.get("sqlqueue", option, fallback=default) or "")
    return tuple(name.strip() for name in text.split(",") if name.strip())
