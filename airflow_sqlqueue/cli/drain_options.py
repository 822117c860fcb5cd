"""Limits of a drain as options of the command line."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from airflow_sqlqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow_sqlqueue.databus.batch_payloads import PayloadOptions
    from airflow_sqlqueue.drain.options import DrainOptions


@dataclass(frozen=True)
class LimitOptions:
    """Options of :class:`.drain.options.DrainOptions`; one that is None has the default of that class."""

    max_messages: Annotated[Optional[int], typer.Option(help="Stop after this many messages.")] = None
    max_seconds: Annotated[Optional[float], typer.Option(help="Begin no part after this many seconds.")] = None
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Drain later messages too, until the queue is empty.")
    ] = False
    keep_expired: Annotated[bool, typer.Option(help="Write expired messages too, flagged.")] = False
    workers: Annotated[int, typer.Option(help="Largest number of threads, each with a connection.")] = 2
    rows_per_statement: Annotated[
        Optional[int], typer.Option(help="Largest number of rows of one DELETE, 1 to 2000.  [default: 2000]")
    ] = None
    bytes_per_statement: Annotated[
        Optional[str], typer.Option(help="Headers and bodies that one DELETE returns, as 16MiB.  [default: 16MiB]")
    ] = None
    rows_per_part: Annotated[
        Optional[int], typer.Option(help="Rows of one part, which is one transaction and one file.  [default: 20000]")
    ] = None
    bytes_per_part: Annotated[
        Optional[str], typer.Option(help="Headers and bodies of one part.  [default: 128MiB]")
    ] = None
    seconds_per_part: Annotated[
        Optional[float], typer.Option(help="Seconds in which a part's transaction collects rows.  [default: 20]")
    ] = None
    inline_body_bytes: Annotated[
        Optional[str], typer.Option(help="Write a larger body to a file of its own.  [default: 8MiB]")
    ] = None
    settle_seconds: Annotated[
        Optional[float], typer.Option(help="Seconds in which to retry rows that others have locked.  [default: 5]")
    ] = None
    readable_by: Annotated[
        Optional[str],
        typer.Option(help="Users who may read files on a disk: owner, group or all.  [default: owner]"),
    ] = None


@dataclass(frozen=True)
class DataBusOptions:
    """Data bus that the payloads of the drained messages are fetched from, and their limits."""

    data_bus: Annotated[
        Optional[str],
        typer.Option(help="Fetch the messages' payloads from this data bus, a folder or object store URL."),
    ] = None
    payload_bytes: Annotated[
        Optional[str], typer.Option(help="The largest payload that is fetched.  [default: 64MiB]")
    ] = None
    max_payload_bytes: Annotated[
        Optional[str], typer.Option(help="The most bytes of all payloads of the batch.  [default: 4GiB]")
    ] = None

    def payload_options(self, readable_by: str) -> PayloadOptions:
        """Limits of the payloads; an option that is None has its default. Raises :class:`ConfigurationError`."""
        from airflow_sqlqueue.databus.batch_payloads import PayloadOptions

        given = {"payload_bytes": self.payload_bytes, "max_payload_bytes": self.max_payload_bytes}
        sizes = {name: byte_size(name, text) for name, text in given.items() if text is not None}
        if "max_payload_bytes" in sizes:
            sizes["max_bytes"] = sizes.pop("max_payload_bytes")
        return PayloadOptions(**sizes, readable_by=readable_by)


_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "": 1}


def drain_options(**given: Any) -> DrainOptions:
    """Options of a drain; an option that is None has its default. Raises :class:`ConfigurationError`."""
    from airflow_sqlqueue.drain.options import DrainOptions

    values = {name: value for name, value in given.items() if value is not None}
    sizes = {name: byte_size(name, value) for name, value in values.items() if "bytes" in name}
    return DrainOptions(**{**values, **sizes})


def changed_limits(options: DrainOptions) -> dict[str, Any]:
    """Limits with another value than the default: a command that resumes the drain gives them again."""
    given = vars(options)
    return {field.name: given[field.name] for field in fields(options) if given[field.name] != field.default}


def byte_size(name: str, text: str) -> int:
    """Bytes of an option, as 16MiB. Raises :class:`ConfigurationError`."""
    unit = next(unit for unit in _UNITS if text.endswith(unit))
    number = text.removesuffix(unit).strip()
    if not number.isdecimal():
        option = name.replace("_", "-")
        raise ConfigurationError(f"--{option} takes bytes, as 1000000, 512KiB, 16MiB or 1GiB, not {text!r}.")
    return int(number) * _UNITS[unit]
