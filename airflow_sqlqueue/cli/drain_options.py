"""The limits of a drain as options, and :class:`.drain.options.DrainOptions` from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from airflow_sqlqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow_sqlqueue.drain.options import DrainOptions

RowsPerStatement = Annotated[
    Optional[int], typer.Option(help="Rows that one DELETE takes at the most, 1 to 2000.  [default: 2000]")
]
BytesPerStatement = Annotated[
    Optional[str], typer.Option(help="Headers and bodies that one DELETE returns, as 16MiB.  [default: 16MiB]")
]
RowsPerPart = Annotated[
    Optional[int], typer.Option(help="Rows of one part, which is one transaction and one file.  [default: 20000]")
]
BytesPerPart = Annotated[Optional[str], typer.Option(help="Headers and bodies of one part.  [default: 128MiB]")]
SecondsPerPart = Annotated[
    Optional[float], typer.Option(help="How long a part's transaction gathers rows.  [default: 20]")
]
InlineBodyBytes = Annotated[
    Optional[str], typer.Option(help="A larger body goes to a file of its own.  [default: 8MiB]")
]
SettleSeconds = Annotated[
    Optional[float], typer.Option(help="How long to retry rows that others have locked.  [default: 5]")
]
ReadableBy = Annotated[
    Optional[str],
    typer.Option(help="Who may read the files on a disk: owner, group or all.  [default: owner]"),
]

_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "": 1}


def drain_options(**given: Any) -> DrainOptions:
    """The options of a drain from those that were given; one that is None has its default.

    Raises :class:`ConfigurationError`.
    """
    from airflow_sqlqueue.drain.options import DrainOptions

    values = {name: value for name, value in given.items() if value is not None}
    sizes = {name: _size(name, value) for name, value in values.items() if "bytes" in name}
    return DrainOptions(**{**values, **sizes})


def _size(name: str, text: str) -> int:
    unit = next(unit for unit in _UNITS if text.endswith(unit))
    number = text.removesuffix(unit).strip()
    if not number.isdecimal():
        option = name.replace("_", "-")
        raise ConfigurationError(f"--{option} takes bytes, as 1000000, 512KiB, 16MiB or 1GiB, not {text!r}.")
    return int(number) * _UNITS[unit]
