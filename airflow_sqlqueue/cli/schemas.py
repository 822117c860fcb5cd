"""Commands on schemas of message types: propose them from a batch, compare them, and check them in a build."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.options import Common
from airflow_sqlqueue.cli.output import note

if TYPE_CHECKING:
    from airflow_sqlqueue.bodies.inference import Change
    from airflow_sqlqueue.bodies.schemas import Type
    from airflow_sqlqueue.schemas.files import SchemaFolder
    from airflow_sqlqueue.schemas.sampling import Sample


@dataclass(frozen=True, kw_only=True)
class SampleOptions(Common):
    """Options of a command that compares schemas with the first messages of a batch."""

    folder: Annotated[str, typer.Argument(help="The folder or object store URL of the schemas.")]
    batch: Annotated[uuid.UUID, typer.Option("--batch", help="A sealed or consumed batch.")]
    message_type: Annotated[
        Optional[list[str]], typer.Option("--message-type", help="Only this message type, any number of times.")
    ] = None
    per_type: Annotated[int, typer.Option(min=1, help="Take this many messages of each type, the first ones.")] = 10_000
    queue: Annotated[
        Optional[str],
        typer.Option(
            "--queue", help="A queue beside the ledger; without it the ledger is in the connection's database."
        ),
    ] = None
    staging: Annotated[
        Optional[str], typer.Option(help="The batch's folder, if it needs more than the environment's credentials.")
    ] = None

    def compared(self) -> tuple[SchemaFolder, Sample]:
        """The schemas, and the sample to compare them with."""
        from airflow_sqlqueue.schemas.files import SchemaFolder
        from airflow_sqlqueue.schemas.sampling import Sample

        schemas, client = SchemaFolder(self.folder), self.connect()
        messages = client.batches.messages(client.batches.get(self.batch, self.queue), staging=self.staging)
        sample = Sample.of(messages, per_type=self.per_type)
        if self.message_type:
            sample.types = {name: each for name, each in sample.types.items() if name in self.message_type}
        return schemas, sample


def infer(
    target: SampleOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes, and write nothing.")] = False,
) -> None:
    """Propose schemas from the first messages of a batch.

    They are new files, and new fields in files that exist, whose other fields keep their types. Read the changes, and
    commit the files.
    """
    from airflow_sqlqueue.schemas.sampling import changes

    schemas, sample = target.compared()
    known = schemas.all()
    records = []
    for name, found in changes(sample, known).items():
        if not dry_run:
            schemas.extend(name, sample.types[name].schema)
        records += _records(name, found)
    target.show(records, title="Would be written; nothing was yet" if dry_run else "Written")
    _say_sample(target, sample)


def diff(target: SampleOptions) -> None:
    """Show new fields and other types of a batch's messages."""
    _show_changes(target)


def check(target: SampleOptions) -> None:
    """Fail (exit code 1) where diff shows a difference; for a build."""
    if _show_changes(target):
        raise typer.Exit(1)


def _show_changes(target: SampleOptions) -> bool:
    from airflow_sqlqueue.schemas.sampling import changes

    schemas, sample = target.compared()
    found = changes(sample, schemas.all())
    target.show([record for name, each in found.items() for record in _records(name, each)])
    _say_sample(target, sample)
    return bool(found)


def _records(name: str, changes: list[Change]) -> list[dict[str, Any]]:
    return [
        {"message_type": name, "field": each.path, "old": _short(each.schema), "found": _short(each.batch)}
        for each in changes
    ]


def _short(kind: Type | None) -> str | None:
    if isinstance(kind, dict):
        if kind["type"] == "array":
            return f"array<{_short(kind['elementType'])}>"
        return f"struct<{', '.join(each['name'] + ': ' + str(_short(each['type'])) for each in kind['fields'])}>"
    return kind


def _say_sample(common: Common, sample: Sample) -> None:
    """Name the sample on standard error: the same messages give the same schemas."""
    if common.as_json:
        return
    for name, each in sample.types.items():
        unparsed = f", {each.unparsed:,} of them not parsed" if each.unparsed else ""
        note(f"{name}: {each.messages:,} messages, RowVersions {each.first} to {each.last}{unparsed}.")
    if sample.others:
        note(f"{sample.others:,} messages have no type, or one of too many types.")


COMMANDS = (infer, diff, check)
