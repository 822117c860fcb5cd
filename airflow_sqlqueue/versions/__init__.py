"""Versions of Airflow and Spark: names that moved between them, and features that some of them lack.

No other module asks for a version, or imports a name that a supported version lacks; ``tests/unit/test_versions.py``
holds that. ``docs/versions.md`` has the table of supported versions, which ``make versions`` tries.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from airflow_sqlqueue.errors import ConfigurationError


@dataclass(frozen=True)
class VersionedFeature:
    """Feature of ours that takes a version of a package: ``Streaming reads``, ``Spark``, ``4.2``."""

    name: str
    package: str
    since: str
    installed: str
    is_available: bool
    modules: tuple[str, ...] = ()
    """Modules of ours that can be imported only where the feature is available."""

    def require(self) -> None:
        """Raise :class:`ConfigurationError` where the installed version lacks the feature."""
        if not self.is_available:
            raise ConfigurationError(
                f"{self.name} needs {self.package} {self.since} or later, and {self.installed} is installed."
            )


def check_pyspark() -> None:
    """Raise :class:`ConfigurationError` where pyspark and pyspark-client are of different versions.

    Both distributions install the package ``pyspark``, so one has overwritten files of the other.
    """
    try:
        whole, client = version("pyspark"), version("pyspark-client")
    except PackageNotFoundError:
        return
    if whole != client:
        raise ConfigurationError(
            f"pyspark {whole} and pyspark-client {client} have overwritten files of each other: install the same "
            f"version of both, as in 'pip install --force-reinstall pyspark=={client} pyspark-client=={client}'."
        )
