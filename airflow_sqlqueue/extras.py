"""Errors for optional packages that are not installed: each names the command that installs the package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from airflow_sqlqueue.errors import ConfigurationError


def not_installed(what: str, package: str, requirement: str | None = None) -> ConfigurationError:
    """Return the error for a feature (``Spark``) that needs a package which is not installed."""
    return ConfigurationError(
        f"{what} needs the package {package}, which is not installed: run \"pip install '{requirement or package}'\"."
    )


def with_extra(name: str) -> str:
    """Return an extra with its distribution, the core where it is installed alone: ``airflow-sqlqueue[driver]``."""
    try:
        version("airflow-sqlqueue")
    except PackageNotFoundError:
        return f"airflow-sqlqueue-core[{name}]"
    return f"airflow-sqlqueue[{name}]"


@contextmanager
def from_extra(name: str, what: str) -> Iterator[None]:
    """Provide the context for imports of packages that an extra of this distribution installs.

    Raises :class:`ConfigurationError` for the first missing package. Other errors of an import pass through.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise not_installed(what, package, with_extra(name)) from error
