"""Optional packages: where one is missing, the error names the command that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_sqlqueue.errors import ConfigurationError


def not_installed(what: str, package: str, requirement: str | None = None) -> ConfigurationError:
    """The error of something (``Spark``) that takes a package which is not installed."""
    return ConfigurationError(
        f"{what} takes the package {package}, which is not installed: run \"pip install '{requirement or package}'\"."
    )


@contextmanager
def from_extra(name: str, what: str) -> Iterator[None]:
    """Imports of packages that an extra of this distribution brings.

    Raises :class:`ConfigurationError` for the first that is missing. Any other error of an import is left alone.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise not_installed(what, package, f"airflow-sqlqueue[{name}]") from error
