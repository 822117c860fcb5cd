"""Spark target of a job, from an Airflow connection: this machine, a cluster, or a Spark Connect server."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.extras import from_extra
from airflow_sqlqueue.hooks.configuration import allowed
from airflow_sqlqueue.hooks.connection_extra import extra_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"


@dataclass(frozen=True)
class SparkTarget:
    """Spark master, or the URL of a Spark Connect server, with Spark's settings. Settings may hold secrets."""

    url: str = LOCAL
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    conn_id: str | None = None
    deploy_mode: str = "client"
    """Deploy mode of an application, which the extra may set by ``deploy-mode``."""

    @classmethod
    def of(cls, conn_id: str | None, settings: Mapping[str, Any] | None = None) -> SparkTarget:
        """Return the target of a connection of type ``spark`` or ``spark_connect``; without one, this machine.

        Keys of the extra that begin with ``spark.`` are settings; they have to be on a list
        (:mod:`airflow_sqlqueue.server.connection_policy`). ``settings`` may hold any setting and override those of the
        extra. Raises :class:`ConfigurationError` for another setting in the extra, for a connection that is missing, of
        another type or without a host, and for ``settings`` that are not texts, numbers, True or False.
        """
        given_settings = _texts(settings or {})
        if conn_id is None:
            return cls(LOCAL, given_settings)
        try:
            connection = BaseHook.get_connection(conn_id)
        except AirflowNotFoundException as error:
            raise ConfigurationError(
                f"Airflow has no connection {conn_id!r} for Spark: create it, or name another."
            ) from error
        if connection.conn_type not in {"spark", "spark_connect"} or not connection.host:
            raise ConfigurationError(
                f"Connection {conn_id!r} is not a Spark cluster: use type spark or spark_connect, and name a host."
            )
        given = extra_of(connection)
        extra = {key: str(value) for key, value in given.items() if key.startswith("spark.")}
        if connection.conn_type == "spark":
            url = f"{connection.host}:{connection.port}" if connection.port else connection.host
        else:
            with from_extra("spark", "A connection of type spark_connect"):
                from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

            url = SparkConnectHook(conn_id).get_connection_url()
        allows = allowed()
        allows.check_spark_master(conn_id, url)
        allows.check_spark_settings(conn_id, extra)
        deploy_mode = str(given.get("deploy-mode") or "client")
        return cls(url, {**extra, **given_settings}, conn_id, deploy_mode)

    @contextmanager
    def session(self, app_name: str) -> Iterator[SparkSession]:
        """Start a session for the block, and stop it at the end. Raises ConfigurationError beside another session."""
        with ExitStack() as sessions:
            with _errors_in_output():
                spark = sessions.enter_context(self._session(app_name))
            yield spark

    @contextmanager
    def _session(self, app_name: str) -> Iterator[SparkSession]:
        from airflow_sqlqueue.spark.session import local_session, start_java

        if self.url.startswith("local"):
            with local_session(app_name, master=self.url, config=self.settings) as spark:
                yield spark
            return
        with from_extra("spark", "Spark"):
            from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName(app_name).config(map=dict(self.settings))
        is_connect = self.url.startswith("sc://")
        if not is_connect:
            start_java({"spark.master": self.url, "spark.app.name": app_name, **self.settings})
        spark = (builder.remote(self.url) if is_connect else builder.master(self.url)).getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()


def _texts(settings: Any) -> dict[str, str]:
    """Return settings as texts, as Spark reads them."""
    if not isinstance(settings, Mapping):
        raise ConfigurationError(f"spark_conf is a mapping of Spark's settings, not {type(settings).__name__}.")
    for name, value in settings.items():
        if not isinstance(name, str) or not isinstance(value, (str, int, float)):
            raise ConfigurationError(
                f"spark_conf has a {type(value).__name__} for {name!r}: give a text, a number, True or False."
            )
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in settings.items()}


@contextmanager
def _errors_in_output() -> Iterator[None]:
    """Let processes that the block starts write errors to standard output, as Java does at each start.

    Airflow logs every line of standard error as an error.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(1, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
