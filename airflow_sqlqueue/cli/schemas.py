"""Commands on schemas of message types: propose them from a batch, compare them, and check them in a build."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.options import Common
from airflow_sqlqueue.cli.output import note
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_sqlqueue.bodies.extension import Change
    from airflow_sqlqueue.bodies.hints import Hints
    from airflow_sqlqueue.bodies.schemas import Struct, Type
    from airflow_sqlqueue.schemas.files import SchemaFolder
    from airflow_sqlqueue.schemas.sampling import Sample


@dataclass(frozen=True, kw_only=True)
class SampleOptions(Common):
    """Options of a command that compares schemas with the first messages of a batch."""

    folder: Annotated[str, typer.Argument(help="The folder or object store URL of the schemas.")]
    batch: Annotated[uuid.UUID, typer.Option("--batch", help="A sealed or consumed batch.")]
    types: Annotated[
        Optional[list[str]],
        typer.Option("--types", help='Only these message types: "Shop.*", or "!Shop.Internal.*" for all others.'),
    ] = None
    per_type: Annotated[
        int, typer.Option(min=1, help="Take this many messages of each type and sender, the first ones.")
    ] = 10_000
    queue: Annotated[
        Optional[str],
        typer.Option(
            "--queue", help="A queue beside the ledger; without it the ledger is in the connection's database."
        ),
    ] = None
    staging: Annotated[
        Optional[str], typer.Option(help="The batch's folder, if it needs more than the environment's credentials.")
    ] = None

    def compared(self) -> Comparison:
        """Read the schemas and the hints, and take the sample."""
        from airflow_sqlqueue.bodies.patterns import TypePatterns
        from airflow_sqlqueue.schemas.files import SchemaFolder
        from airflow_sqlqueue.schemas.sampling import Sample

        unusable: dict[str, str] = {}
        schemas, types = SchemaFolder(self.folder), TypePatterns.of(self.types)
        known, hints = schemas.all(unusable), schemas.hints()
        client = self.connect()
        messages = client.batches.messages(client.batches.get(self.batch, self.queue), staging=self.staging)
        sample = Sample.of(messages, per_type=self.per_type, types=types)
        return Comparison(self, schemas, known, unusable, hints, sample)


@dataclass
class Comparison:
    """Schemas beside a sample. A schema that cannot be used leaves the other types as they are."""

    target: SampleOptions
    schemas: SchemaFolder
    known: dict[str, Struct]
    unusable: dict[str, str]
    hints: Hints
    sample: Sample

    def __post_init__(self) -> None:
        from airflow_sqlqueue.schemas.files import file_stem

        types = self.sample.types
        self.sample.types = {name: each for name, each in types.items() if file_stem(name) not in self.unusable}

    def changes(self) -> dict[str, list[Change]]:
        from airflow_sqlqueue.schemas.sampling import changes

        return changes(self.sample, self.known, self.hints)

    def write(self, names: Iterable[str]) -> None:
        """Write the schemas of these types, with their new fields."""
        from airflow_sqlqueue.bodies.extension import EMPTY
        from airflow_sqlqueue.bodies.inference import infer
        from airflow_sqlqueue.errors import SqlQueueError

        for name in names:
            found = infer(self.sample.types[name].statistics, name, self.known.get(name, EMPTY), self.hints)
            for warning in found.warnings:
                note(str(warning))
            try:
                self.schemas.extend(name, found.schema)
            except SqlQueueError as error:
                self.unusable[name] = str(error)

    def finish(self) -> None:
        """Name the sample and what is wrong on standard error; the exit code is 2 if a schema cannot be used."""
        if not self.target.as_json:
            self._name_sample()
        for reason in self.unusable.values():
            note(reason)
        if self.unusable:
            raise typer.Exit(2)

    def _name_sample(self) -> None:
        from airflow_sqlqueue.bodies.inference import struct_of

        for name, each in self.sample.types.items():
            unparsed = f", {each.unparsed:,} of them not parsed" if each.unparsed else ""
            note(f"{name}: {each.messages:,} messages, RowVersions {each.first} to {each.last}{unparsed}.")
        if self.sample.others:
            note(f"{self.sample.others:,} messages have no type, or one of too many types.")
        found = ((name, struct_of(each.statistics, name, self.hints)) for name, each in self.sample.types.items())
        for text in self.hints.unmatched([*self.known.items(), *found]):
            note(f"The hint for {quoted(text)} matches no field of the schemas and the sample.")


def infer(
    target: SampleOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes, and write nothing.")] = False,
) -> None:
    """Propose schemas from the first messages of a batch.

    They are new files, and new fields in files that exist, whose other fields keep their types. Read the changes, and
    commit the files.
    """
    compared = target.compared()
    found = compared.changes()
    if not dry_run:
        compared.write(found)
    records = [record for name, each in found.items() for record in _records(name, each)]
    target.show(records, title="Would be written; nothing was yet" if dry_run else "Written")
    compared.finish()


def diff(target: SampleOptions) -> None:
    """Show new fields and other types of a batch's messages."""
    _show_changes(target)


def check(target: SampleOptions) -> None:
    """Fail (exit code 1) where diff shows a difference; for a build."""
    if _show_changes(target):
        raise typer.Exit(1)


def _show_changes(target: SampleOptions) -> bool:
    compared = target.compared()
    found = compared.changes()
    target.show([record for name, each in found.items() for record in _records(name, each)])
    compared.finish()
    return bool(found)


def _records(name: str, changes: list[Change]) -> list[dict[str, Any]]:
    return [
        {"message_type": name, "field": each.path, "old": _short(each.schema), "found": _short(each.batch)}
        for each in changes
    ]


def _short(kind: Type | None) -> str | None:
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "array":
        return f"array<{_short(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<string, {_short(kind['valueType'])}>"
    return f"struct<{', '.join(each['name'] + ': ' + str(_short(each['type'])) for each in kind['fields'])}>"


COMMANDS = (infer, diff, check)
