"""Application of a drain's job, which the operator of Airflow's Spark provider submits."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from io import FileIO
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException

from airflow_sqlqueue.errors import ConfigurationError, SparkJobError
from airflow_sqlqueue.spark.session import properties
from airflow_sqlqueue.versions import check_pyspark

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.hooks.spark_target import SparkTarget

_OWN = {"application", "application_args", "conf", "conn_id", "name", "properties_file", "task_id"}
_WAIT = dict.fromkeys(("spark.yarn.submit.waitAppCompletion", "spark.kubernetes.submission.waitAppCompletion"), "true")
_ENVIRONMENT = '[ -n "$PYSPARK_PYTHON" ] || export PYSPARK_PYTHON={}\n'
_LOCAL = '[ -n "$SPARK_LOCAL_IP" ] || export SPARK_LOCAL_IP=127.0.0.1\n'
_SUBMIT = """\
#!/bin/sh
# Runs spark-submit in a process group that ends when the task closes a pipe.
{environment}
(trap '' TERM; cat /dev/fd/{pipe} && kill -TERM -$$ && sleep 5 && kill -KILL -$$) > /dev/null 2>&1 &
exec {submit} --load-spark-defaults "$@" < /dev/null
"""


class _Submit(SparkSubmitOperator):
    """The provider's operator, with parameters of the process, which only its hook takes."""

    process: Mapping[str, Any]

    def _get_hook(self) -> Any:
        hook = super()._get_hook()
        vars(hook)["submit"] = partial(hook.submit, **self.process)
        return hook


class SparkApplication:
    """Application that runs on batches, one after the other.

    In client mode the driver is a process of this machine, and ends with this one, also if this one is killed: the
    driver of the next try must not run beside it. In cluster mode a run waits for the driver, and from Airflow 3.3 on a
    retry waits for the same one.

    Raises :class:`ConfigurationError` for a Spark Connect server, which takes no applications, for options that the
    task gives, and without spark-submit.

    :param options: further parameters of ``SparkSubmitOperator``.
    """

    def __init__(self, target: SparkTarget, application: str, name: str, options: Mapping[str, Any]) -> None:
        if target.url.startswith("sc://"):
            raise ConfigurationError("A Spark Connect server runs no applications: give a python_callable instead.")
        if "spark.submit.deployMode" in target.settings:
            raise ConfigurationError("Leave out spark.submit.deployMode: give deploy_mode in submit_options instead.")
        # In some versions durable is one of the others.
        known = {*inspect.signature(SparkSubmitOperator.__init__).parameters, "durable"} - _OWN
        if unknown := options.keys() - known:
            raise ConfigurationError(
                f"submit_options has {min(unknown)!r}, which SparkSubmitOperator does not take or the task gives."
            )
        conn_id = target.conn_id
        if conn_id is None:
            conn_id = "sqlqueue_local_spark"
            os.environ[f"AIRFLOW_CONN_{conn_id.upper()}"] = json.dumps({"conn_type": "spark", "host": target.url})
        own_options = {"application": application, "name": name, "conn_id": conn_id, "task_id": "application"}
        self._options = {"deploy_mode": target.deploy_mode, **options, **own_options}
        self._submit = _path_of(self._options.pop("spark_binary", "spark-submit"))
        self._is_cluster = self._options["deploy_mode"] == "cluster"
        self._target = target
        self._operator: _Submit | None = None
        self._alive: FileIO | None = None

    def run(self, batch: Batch, arguments: list[str], context: Context) -> None:
        """Run it to its end; its output goes to the log line by line. Raises :class:`SparkJobError` if it fails."""
        reading, writing = os.pipe()
        with tempfile.TemporaryDirectory(prefix="sqlqueue-") as folder, FileIO(reading), FileIO(writing, "w") as alive:
            self._alive = alive
            self._operator = operator = self._make_operator(batch, arguments, Path(folder), reading)
            # A task may run its job on several batches, and again on the same one.
            keys = [f"{name}_{batch.batch_id}" for name in ("spark_job_id", "k8s_driver_status")]
            operator.external_id_key, operator._K8S_DRIVER_STATUS_KEY = keys
            try:
                # Its execute, without Airflow's warning of an operator that runs in another one.
                inspect.unwrap(SparkSubmitOperator.execute)(operator, context)
            except (AirflowException, RuntimeError) as error:
                # It quotes the last output of the application, which is in the log, and belongs nowhere else.
                operator.log.error("%s", str(error).partition("\nLast spark-submit output:")[0])
                raise SparkJobError(f"The application {operator.application} failed: see the log.") from None
            finally:
                alive.close()
                if (process := getattr(operator._hook, "_submit_sp", None)) is not None:
                    process.wait()
                    process.stdout.close()
            if (store := context.get("task_state_store")) is not None:
                for key in keys:
                    store.delete(key)

    def kill(self) -> None:
        """End spark-submit, and its driver wherever it runs."""
        if self._alive is not None:
            self._alive.close()
        if self._is_cluster and self._operator is not None:
            self._operator.on_kill()

    def _make_operator(self, batch: Batch, arguments: list[str], folder: Path, pipe: int) -> _Submit:
        settings, conf, environment = self._target.settings, {}, ""
        if self._is_cluster:
            # A driver elsewhere cannot read a file of this machine.
            manifest = json.dumps(batch.to_reference())
            # spark-submit waits for the application, unless the operator does.
            tracked = self._options.get("yarn_track_via_rm_api") or self._options.get("track_driver_via_k8s_api")
            conf = {name: value for name, value in settings.items() if name == "spark.kubernetes.namespace"}
            conf |= {} if tracked else _WAIT
        else:
            manifest = _write(folder / "manifest.json", json.dumps(batch.to_dict()))
            environment = _ENVIRONMENT.format(quote(sys.executable))
            environment += _LOCAL if self._target.url.startswith("local") else ""
        script = _SUBMIT.format(environment=environment, pipe=pipe, submit=quote(self._submit))
        operator = _Submit(
            **self._options,
            application_args=["--manifest", manifest, *arguments],
            conf=conf,
            # Other users of the machine see command lines.
            properties_file=_write(folder / "spark.properties", properties(settings)),
            spark_binary=_write(folder / "spark-submit", script),
        )
        operator.process = {"pass_fds": (pipe,), "start_new_session": True, "errors": "replace"}
        return operator


def _path_of(program: str) -> str:
    """Return the path of spark-submit: of ``SPARK_HOME``, else of the package pyspark, else of the PATH."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        check_pyspark()
    own = f"{home}/bin" if home else str(Path(sys.executable).parent)
    found = shutil.which(program, path=f"{own}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise ConfigurationError(f"There is no {program}: pip install 'airflow-sqlqueue[spark]', or set SPARK_HOME.")
    return found


def _write(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    path.chmod(0o700)
    return str(path)
