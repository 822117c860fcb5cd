"""Commands on schemas of message types, and on their tables: propose, compare and check schemas, rewrite a table."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_sqlqueue.cli.options import BY_BEGINNING, Common, ListOptions
from airflow_sqlqueue.cli.output import note
from airflow_sqlqueue.cli.signals import on_signals
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import option
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    from airflow_sqlqueue.bodies.schemas import Type
    from airflow_sqlqueue.client.schemas.sampling import Sample


@dataclass(frozen=True, kw_only=True)
class SampleOptions(ListOptions):
    """Options of a command that compares schemas with the first messages of a batch."""

    folder: Annotated[str, typer.Argument(help="The folder or object store URL of the schemas.")]
    batch: Annotated[str, typer.Option("--batch", help=f"A sealed or consumed batch: {BY_BEGINNING}.")]
    types: list[str] | None = option(None, 'only these message types: "Shop.*", or "!Shop.Internal.*" for all others')
    per_type: Annotated[
        int, typer.Option(min=1, help="Take this many messages of each type and sender, the first ones.")
    ] = 10_000
    queue: str | None = option(None, "a queue beside the ledger; without it the ledger is in the connection's database")
    staging: str | None = option(None, "the batch's folder, if it needs more than the environment's credentials")


def infer(
    target: SampleOptions,
    dry_run: bool = option(False, "show the changes, and write nothing"),
) -> None:
    """Propose schemas from the first messages of a batch.

    They are new files, and new fields in files that exist, whose other fields keep their types. Read the changes, and
    commit the files.
    """
    title = "Would be written; nothing was yet" if dry_run else f"Written to {target.folder}, a file for each type"
    _compare(target, title, write=not dry_run)


def diff(target: SampleOptions) -> None:
    """Show a batch's new fields and values that do not fit.

    These are what its messages have and the schemas have not; "misfits" is the number of messages with such a value.
    """
    _compare(target)


def check(target: SampleOptions) -> None:
    """Fail (exit code 1) where diff shows a difference; for a build."""
    if _compare(target):
        raise typer.Exit(1)


def add(
    common: ListOptions,
    folder: Annotated[str, typer.Argument(help="The folder or object store URL of the schemas.")],
    document: Annotated[Path, typer.Argument(help="An AsyncAPI document in JSON.", exists=True, dir_okay=False)],
    types: list[str] | None = option(None, 'only these message types: "Shop.*", or "!Shop.Internal.*" for all others'),
) -> None:
    """Add the schemas of an AsyncAPI document.

    They are new files, and new fields in files that exist, whose other fields keep their types. The exit code is 2 if
    a message has no schema that can be used; the others are added.
    """
    import json

    from airflow_sqlqueue.bodies.asyncapi import message_schemas
    from airflow_sqlqueue.bodies.patterns import TypePatterns
    from airflow_sqlqueue.client.schemas.files import SchemaFolder
    from airflow_sqlqueue.errors import SqlQueueError

    try:
        parsed = json.loads(document.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"The file {document.name} is not JSON: write the document as JSON.") from error
    unusable: dict[str, str] = {}
    wanted, target, records = TypePatterns.of(types), SchemaFolder(folder), []
    for name, schema in message_schemas(parsed, unusable).items():
        if not wanted.matches(name):
            continue
        try:
            fields = len(target.extend(name, schema)["fields"])
            records.append({"message_type": name, "fields": fields})
        except SqlQueueError as error:
            unusable[name] = str(error)
    common.show(records)
    for name, reason in unusable.items():
        note(f"{quoted(name)}: {reason}")
    if unusable:
        raise typer.Exit(2)


def _compare(target: SampleOptions, proposed: str | None = None, *, write: bool = False) -> bool:
    """Show what the messages of a batch have that the schemas have not, and write it; return whether there is any.

    With ``proposed``, a title, it shows the new fields alone.

    A schema that cannot be used leaves the other types as they are, and the exit code is 2.
    """
    from airflow_sqlqueue.bodies.inference import infer, struct_of
    from airflow_sqlqueue.bodies.patterns import TypePatterns
    from airflow_sqlqueue.client.schemas.files import SchemaFolder, file_stem
    from airflow_sqlqueue.client.schemas.sampling import Sample
    from airflow_sqlqueue.errors import SqlQueueError

    unusable: dict[str, str] = {}
    folder, types = SchemaFolder(target.folder), TypePatterns.of(target.types)
    known, hints, batches = folder.all(unusable), folder.hints(), target.connect().batches
    messages = batches.messages(
        batches.get(batches.named(target.batch, target.queue), target.queue), staging=target.staging
    )
    sample = Sample.of(messages, per_type=target.per_type, types=types, schemas=known)
    records: list[dict[str, str | int | None]] = []
    for name, each in sample.types.items():
        if file_stem(name) in unusable:
            continue
        changes = each.changes(struct_of(each.statistics, name, hints))
        if proposed is not None:
            # Fields of a file keep their types.
            changes = [change for change in changes if change.schema is None]
        of_type: list[dict[str, str | int | None]] = []
        for change in changes:
            old_and_found = {"old": _short(change.schema), "found": _short(change.batch)}
            of_type.append({"message_type": name, "field": change.path, **old_and_found})
            if proposed is None:
                of_type[-1]["misfits"] = change.misfits
        if changes and write:
            schema, warnings = infer(each.statistics, name, each.misfits.schema, hints)
            for warning in warnings:
                note(warning)
            try:
                folder.extend(name, schema)
            except SqlQueueError as error:
                unusable[file_stem(name)] = str(error)
                continue
        records += of_type
    target.show(records, title=proposed or "")
    if not target.for_programs:
        _name_sample(sample)
        for text in hints.unmatched():
            note(f"The hint for {quoted(text)} matches no field of the sample.")
    for reason in unusable.values():
        note(reason)
    if unusable:
        raise typer.Exit(2)
    return bool(records)


def _name_sample(sample: Sample) -> None:
    for name, each in sample.types.items():
        unparsed = f", {each.unparsed:,} of them not parsed" if each.unparsed else ""
        misfits = f"; {count_of(len(each.misfits), 'field')} with values that do not fit" if each.misfits else ""
        messages = count_of(each.messages, "message")
        note(f"{name}: {messages}, RowVersions {each.first} to {each.last}{unparsed}{misfits}.")
    if sample.others:
        note(f"Without a type, or of one of too many types: {count_of(sample.others, 'message')}.")


def _short(kind: Type | None) -> str | None:
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "array":
        return f"array<{_short(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<string, {_short(kind['valueType'])}>"
    return f"struct<{', '.join(each['name'] + ': ' + str(_short(each['type'])) for each in kind['fields'])}>"


@contextmanager
def _noted_interrupts(received: list[int]) -> Iterator[None]:
    """Note each Ctrl-C of the block, and leave it to Spark's handler, which cancels the jobs.

    The error that ends the block is not always the handler's KeyboardInterrupt: Python drops an exception that is
    raised in a finalizer, and then the error is that of a cancelled job.
    """
    handler = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if callable(handler):
            handler(number, frame)

    with on_signals(interrupt, signal.SIGINT):
        yield


def rewrite(
    common: Common,
    message_type: Annotated[str, typer.Argument(help="The message type.")],
    location: Annotated[str, typer.Option(help="The folder of the tables, or catalog.namespace.")],
    format: str = option("parquet", "``parquet``, delta or iceberg"),  # noqa: A002
    schemas: str | None = option(None, "the folder of the schemas (_schemas there)"),
    work_folder: str | None = option(None, "the work folder of tables in a catalog"),
    conf: list[str] | None = option(None, "a setting of Spark, NAME=VALUE, any number of times"),
) -> None:
    """Make the table of a message type anew by its schema.

    Its columns and rescued values are read again, and the batches are not needed. It runs Spark on this machine; on a
    cluster run airflow_sqlqueue.spark.jobs.message_tables with --rewrite.
    """
    settings = dict(each.partition("=")[::2] for each in conf or [])
    if not all(name and value for name, value in settings.items()):
        raise ConfigurationError("--conf takes NAME=VALUE, as spark.driver.memory=4g.")
    from airflow_sqlqueue.spark.message_tables import rewrite_message_table
    from airflow_sqlqueue.spark.message_tables.table_formats import check_format
    from airflow_sqlqueue.spark.session import local_session

    check_format(format)  # before Spark starts, which takes some seconds
    received: list[int] = []
    try:
        with local_session("rewrite", "local[*]", settings) as spark, _noted_interrupts(received):
            found = rewrite_message_table(
                spark,
                location,
                message_type,
                format=format,  # type: ignore[arg-type]
                schemas=schemas,
                work_folder=work_folder,
            )
    except BaseException as error:
        if not (received or isinstance(error, KeyboardInterrupt)):
            raise
        note("Interrupted. No row is lost: run the same command again. A table of Parquet takes no batch until then.")
        raise typer.Exit(130) from None
    for warning in found.warnings:
        note(warning)
    common.show({"table": found.table, "messages": found.messages, "rescued": found.rescued}, title="Rewritten")


COMMANDS = (infer, diff, check, add)
TABLE_COMMANDS = (rewrite,)
