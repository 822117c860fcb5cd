"""Missing packages: each error names the package and the command that installs it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import fsspec.registry  # noqa: F401
import pytest

from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.extras import from_extra, with_extra
from airflow_sqlqueue.server.entra import _azure_identity
from airflow_sqlqueue.spark import local_session, raw_schema


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Take a package away, with all of it that was imported before."""
    for name in list(sys.modules):
        if name.startswith(f"{package}."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


def session() -> None:
    with local_session("test"):
        pass


def remote_session() -> None:
    pytest.importorskip("airflow", reason="Airflow is not installed")
    from airflow_sqlqueue.hooks.spark_target import SparkTarget

    with SparkTarget("spark://host:7077").session("test"):
        pass


@pytest.mark.parametrize(
    ("use", "package", "extra"),
    [
        (session, "pyspark", "spark"),
        (remote_session, "pyspark", "spark"),
        (raw_schema, "pyspark", "spark"),
        (_azure_identity, "azure", "entra"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[], Any], package: str, extra: str
) -> None:
    without(monkeypatch, package)
    with pytest.raises(ConfigurationError) as failure:
        use()
    assert f"needs the package {package}, which is not installed" in str(failure.value)
    assert f"pip install '{with_extra(extra)}'" in str(failure.value)


@pytest.mark.parametrize(
    ("url", "package"),
    [
        ("s3://bucket/x", "s3fs"),
        ("gs://bucket/x", "gcsfs"),
        ("abfss://box@lake.dfs.core.windows.net/x", "adlfs"),
        ("az://box/x", "adlfs"),
    ],
)
def test_a_missing_package_of_an_object_store_is_named(monkeypatch: pytest.MonkeyPatch, url: str, package: str) -> None:
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, url.partition("://")[0], raising=False)
    without(monkeypatch, package)
    with pytest.raises(ConfigurationError, match=f"needs the package {package}, .*pip install '{package}'"):
        StagingFolder.of(url)


def test_an_error_of_a_package_that_is_there_is_not_hidden() -> None:
    with pytest.raises(ImportError, match="too old"), from_extra("spark", "Spark"):
        raise ImportError("too old")
