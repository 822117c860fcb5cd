"""Commands on private data: previews of rules of redaction."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from airflow_sqlqueue.bodies.redaction.actions import PLACES, names
from airflow_sqlqueue.cli.options import FilterOptions, QueueListOptions
from airflow_sqlqueue.cli.output import note
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.row import Row
from airflow_sqlqueue.options import option
from airflow_sqlqueue.untrusted import label

if TYPE_CHECKING:
    from airflow_sqlqueue.bodies.redaction.redactor import Redaction, Redactor
    from airflow_sqlqueue.messages.message import ReceivedMessage

KEY_VARIABLE = "SQLQUEUE_REDACTION_KEY"
_ANY_KEY = "a preview shows no hash"
_LISTED = 20


def redactor_of(rules: Optional[str]) -> Redactor | None:
    """Return the redactor of a file of rules, with the key of the environment. Raises :class:`ConfigurationError`."""
    if rules is None:
        return None
    from airflow_sqlqueue.bodies.redaction.redactor import Redactor

    return Redactor.of(rules, os.environ.get(KEY_VARIABLE))


def rules_help() -> str:
    """Return the help of the option for rules, with the actions."""
    parts = [f"{' or '.join(names(place))} {place}" for place in PLACES]
    return f"A JSON file of rules, which {', '.join(parts)}."


def redact(
    target: QueueListOptions,
    selected: FilterOptions,
    rules: Annotated[str, typer.Option(help=rules_help())],
    dry_run: bool = option(False, "show what the rules would change"),
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100, help="Number of messages.")] = 10,
) -> None:
    """Show what rules of redaction would change, without values.

    A queue itself is never redacted: give the rules to a drain, with --redaction.
    """
    from airflow_sqlqueue.bodies.redaction.redactor import Redactor

    if not dry_run:
        raise ConfigurationError("A queue is not redacted: give --dry-run here, and --redaction to the command drain.")
    # No hash is shown, so no key is needed.
    redactor, where = Redactor.of(rules, _ANY_KEY), selected.filter()
    queue = target.connect_queue()
    examined = [(each.row_version, redactor.examine(_row(each))) for each in queue.peek(count, where=where)]
    target.show([_record(number, redaction) for number, redaction in examined], title=queue.address.canonical)
    if not target.for_programs:
        paths = {path.text for rule in redactor.rules.rules for path, _ in rule.fields}
        missing = sorted(paths - {path for _, redaction in examined for path in redaction.fields})
        if missing and examined:
            note(f"No message has a field at {', '.join(missing[:_LISTED])}: check the path, or look at more messages.")


def _row(message: ReceivedMessage) -> Row:
    values = {name: value for name, value in vars(message).items() if name in Row._fields}
    return Row(**{**values, "id": str(message.id), "body": message.body or None})


def _record(number: int, redaction: Redaction) -> dict[str, Any]:
    misplaced = {path: f"{redaction.fields[path]}, on a value in place of the object" for path in redaction.misplaced}
    return {
        "row_version": number,
        "headers": _listed(redaction.headers),
        # A value that stands where a path names an object is changed in its place.
        "fields": _listed(redaction.fields | misplaced),
        "body": None if redaction.body is None else f"left out ({redaction.body})",
    }


def _listed(actions: dict[str, str]) -> dict[str, str]:
    """Return the actions by name; names of headers come from senders, so they are cut and bounded in number."""
    return {str(label(name, 100)): action for name, action in list(actions.items())[:_LISTED]}


COMMANDS = (redact,)
