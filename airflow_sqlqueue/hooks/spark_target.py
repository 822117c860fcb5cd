"""Spark target of a job, from an Airflow connection: this machine, a cluster, or a Spark Connect server."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.extras import from_extra
from airflow_sqlqueue.hooks import child_process
from airflow_sqlqueue.hooks.configuration import allowed
from airflow_sqlqueue.versions import check_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"


@dataclass(frozen=True)
class SparkTarget:
    """Spark master, or the URL of a Spark Connect server, with Spark's settings. Settings may hold secrets."""

    url: str = LOCAL
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, conn_id: str | None, settings: Mapping[str, str] | None = None) -> SparkTarget:
        """Return the target of a connection of type ``spark`` or ``spark_connect``; without one, this machine.

        Keys of the extra that begin with ``spark.`` are settings; they have to be on a list
        (:mod:`airflow_sqlqueue.allowed`). ``settings`` may hold any setting and override those of the extra. Raises
        :class:`ConfigurationError` for another setting in the extra, and for a connection of another type or without a
        host.
        """
        if conn_id is None:
            return cls(LOCAL, dict(settings or {}))
        connection = BaseHook.get_connection(conn_id)
        if connection.conn_type not in {"spark", "spark_connect"} or not connection.host:
            raise ConfigurationError(
                f"Connection {conn_id!r} is not a Spark cluster: use type spark or spark_connect, and name a host."
            )
        extra = {key: str(value) for key, value in connection.extra_dejson.items() if key.startswith("spark.")}
        if connection.conn_type == "spark":
            url = f"{connection.host}:{connection.port}" if connection.port else connection.host
        else:
            with from_extra("spark", "A connection of type spark_connect"):
                from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

            url = SparkConnectHook(conn_id).get_connection_url()
        allows = allowed()
        allows.check_spark_master(conn_id, url)
        allows.check_spark_settings(conn_id, extra)
        return cls(url, {**extra, **(settings or {})})

    @contextmanager
    def session(self, app_name: str, log: Callable[[int, str], None] | None = None) -> Iterator[SparkSession]:
        """Start a session for the block, and stop it at the end. Raises ConfigurationError beside another session.

        ``log`` gets the level and the text of each line that Spark prints, where the session starts Spark in this
        process.
        """
        from airflow_sqlqueue.spark.jvm_output import capture_stderr

        with ExitStack() as sessions:
            with capture_stderr(log) if log is not None else nullcontext():
                spark = sessions.enter_context(self._session(app_name))
            yield spark

    @contextmanager
    def _session(self, app_name: str) -> Iterator[SparkSession]:
        from airflow_sqlqueue.spark.session import local_session

        if self.url.startswith("local"):
            with local_session(app_name, master=self.url, config=self.settings) as spark:
                yield spark
            return
        with from_extra("spark", "Spark"):
            from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName(app_name).config(map=dict(self.settings))
        is_connect = self.url.startswith("sc://")
        spark = (builder.remote(self.url) if is_connect else builder.master(self.url)).getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()

    def submit(self, application: str, arguments: Sequence[str], *, name: str, folder: Path) -> subprocess.Popen[str]:
        """Start spark-submit in client mode; its output is one stream of text lines.

        spark-submit and its driver end with this process, also where this process is killed, because the driver of the
        next try must not run beside this one. ``terminate`` gives them five seconds.

        Settings go through a file in ``folder``, since other users of the machine see command lines. Raises
        :class:`ConfigurationError` for a Spark Connect server, which takes no applications, and without spark-submit.
        """
        if self.url.startswith("sc://"):
            raise ConfigurationError("A Spark Connect server runs no applications: give a python_callable instead.")
        if self.settings.get("spark.submit.deployMode", "client") != "client":
            raise ConfigurationError(
                "An application runs in client mode: in cluster mode it could outlive the task, and its batch would be "
                "marked consumed too early. Leave out spark.submit.deployMode."
            )
        home = _spark_home()
        properties = folder / "spark.properties"
        properties.write_text("".join(f"{_property(k)} {_property(v)}\n" for k, v in self.settings.items()), "utf-8")
        command = [str(home / "bin" / "spark-submit"), "--master", self.url, "--deploy-mode", "client", "--name", name]
        command += ["--properties-file", str(properties), "--load-spark-defaults", application, *arguments]
        environment = {"PYSPARK_PYTHON": sys.executable, **os.environ, "SPARK_HOME": str(home)}
        if self.url.startswith("local"):
            environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        return child_process.start(command, environment)


def _spark_home() -> Path:
    """Return ``SPARK_HOME``, else the folder of the pyspark package, which has its own spark-submit."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        check_pyspark()
        spec = importlib.util.find_spec("pyspark")
        home = None if spec is None or spec.origin is None else str(Path(spec.origin).parent)
    if home is None or not (Path(home) / "bin" / "spark-submit").exists():
        raise ConfigurationError(
            "There is no spark-submit: run \"pip install 'airflow-sqlqueue[spark]'\", or set SPARK_HOME."
        )
    return Path(home)


def _property(text: str) -> str:
    """Escape a text for java.util.Properties."""
    for plain, escaped in {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}.items():
        text = text.replace(plain, escaped)
    return text
