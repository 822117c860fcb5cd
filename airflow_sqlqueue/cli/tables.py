"""Commands on tables: create, drop, inspect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.options import Common, ListOptions, QueueArgument
from airflow_sqlqueue.cli.output import say, stdout
from airflow_sqlqueue.errors import ConfigurationError, QueueNotEmptyError
from airflow_sqlqueue.options import option
from airflow_sqlqueue.queue.inspection.inspect import Inspection
from airflow_sqlqueue.queue.tables.layout import SHAPES


@dataclass(frozen=True)
class TableOptions:
    """Options of a new queue, and the tables beside it."""

    layout: str = option("modern", f"one of {', '.join(SHAPES)}")
    legacy_columns: bool = option(True, "CorrelationId, ReplyToAddress, Recoverable", form="/")
    body_string: bool = option(False, "add a column that shows the body as text", form="/")
    delayed: bool = option(False, "create the table of delayed messages too", form="/")
    subscriptions: bool = option(False, "create the subscription table too", form="/")
    ledger: bool = option(False, "create the ledgers of drains and sends and the inbox too", form="/")
    create_schema: bool = option(False, "create a missing schema too", form="/")


def create(
    queues: Annotated[list[str], typer.Argument(metavar="QUEUE...", help="The addresses of one queue or several.")],
    common: Common,
    tables: TableOptions,
    ddl: bool = option(False, "print the script, for an administrator, and run nothing", form="/"),
) -> None:
    """Create missing queue tables."""
    manager = common.connect().tables
    act: Callable[..., Any] = manager.script if ddl else manager.create
    records: dict[str, dict[str, Any]] = {}
    scripts: list[str] = []
    for queue in queues:
        done = act(queue, **vars(tables))
        if ddl:
            scripts.append(done)
            continue
        for each in done:
            # A table that several queues share is created with the first of them.
            record = {"table": each.table.canonical, "created": each.made, "differences": list(each.differences)}
            records.setdefault(each.table.canonical, record)
    if not ddl:
        common.show(list(records.values()))
    elif common.as_json:
        common.show({"script": "".join(scripts)})
    else:
        stdout.out("".join(scripts), highlight=False, end="")


def drop(
    queue: QueueArgument,
    common: Common,
    force: bool = option(False, "drop it with the messages it holds"),
) -> None:
    """Drop a queue table; refuse one that holds messages."""
    client = common.connect()
    try:
        lost = client.tables.drop(queue, force=force)
    except QueueNotEmptyError as error:
        raise QueueNotEmptyError(
            f"The queue {client.find(queue).canonical} holds messages: drain or purge it first, or give --force and "
            "lose them."
        ) from error
    common.show({"queue": client.find(queue).canonical, "dropped": True, "messages_lost": lost})


def inspect(
    common: ListOptions,
    queue: Annotated[Optional[str], typer.Argument(help="The queue's address; or --all.")] = None,
    all_tables: bool = option(False, "every table of the transport in the database", form="--all"),
    fix: str | None = option(None, "run the statement of this finding"),
) -> None:
    """Show a table's layout and the findings on it."""
    if (queue is None) != all_tables or (all_tables and fix is not None):
        raise ConfigurationError("Name one queue, with or without --fix, or give --all alone.")
    client = common.connect()
    if queue is None:
        found = client.tables.inspect_all()
        common.show([_summary(each) for each in found], title=client.settings.database)
        return
    fixed = client.tables.fix(queue, fix) if fix is not None else None
    inspection = client.tables.inspect(queue)
    details = {**inspection.layout.to_dict(), "rows": inspection.rows, "findings": _findings(inspection)}
    if fixed is not None:
        details["fixed"] = fixed.code
    if common.for_programs:
        common.show(details)
        return
    findings = details.pop("findings")
    common.show({**details, "columns": [f"{name} {text}" for name, text in details["columns"].items()]})
    for finding in findings:
        say(f"{finding['severity']} {finding['code']}", finding["text"], finding["statement"])


def _summary(inspection: Inspection) -> dict[str, Any]:
    layout = inspection.layout
    return {
        "table": layout.table.canonical,
        "kind": layout.kind,
        "layout": (", ".join(layout.names) or str(layout.shape)) if layout.kind == "queue" else "",
        "rows": inspection.rows,
        "findings": [finding.code for finding in inspection.findings],
    }


def _findings(inspection: Inspection) -> list[dict[str, Any]]:
    return [
        {
            "code": finding.code,
            "severity": finding.severity,
            "text": finding.text,
            "statement": finding.fix.text if finding.fix else None,
        }
        for finding in inspection.findings
    ]


COMMANDS = (create, inspect, drop)
