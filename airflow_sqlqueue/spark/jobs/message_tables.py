"""Message tables: one table for each message type of a batch, with the fields of the bodies as columns.

``python -m airflow_sqlqueue.spark.jobs.message_tables --manifest MANIFEST --location LAKE``
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.bodies.names import BODY_COLUMNS
from airflow_sqlqueue.spark import message_tables
from airflow_sqlqueue.spark.jobs.program import Program
from airflow_sqlqueue.spark.manifests import AnyBatch
from airflow_sqlqueue.spark.message_tables.table_formats import FORMATS
from airflow_sqlqueue.untrusted import event_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_TABLES = 100
"""Tables that a result names; the rest is in its sums."""

_MOST_WORST, _MOST_FIELDS = 20, 5
"""Tables with rescued or unparsed messages that a result names, and the fields of each."""


def message_tables_job(spark: SparkSession, batch: AnyBatch, location: str, **options: Any) -> dict[str, Any]:
    """Run :func:`write_message_tables` as the job of an operator, and return a result for XCom.

    ``SqlQueueDrainToSparkOperator(python_callable=message_tables_job, op_kwargs={"location": "s3://lake/orders"})``.

    The result has ``messages``, ``unparsed`` and ``rescued`` (numbers of messages), ``tables`` (their number), and
    ``largest``, the :class:`MessageTypeTable` of up to 100 tables as dicts, those with most messages first. ``worst``
    has up to 20 of those with rescued or unparsed messages, those with most of them first, with their ``reasons`` and
    up to 5 ``rescued_fields``; ``warnings`` are up to 20 sentences on limits of schemas. A name or path that XCom
    cannot hold is None there.

    :param options: the other parameters of ``write_message_tables``.
    """
    return result_of(message_tables.write_message_tables(spark, batch, location, **options))


def result_of(tables: Sequence[message_tables.MessageTypeTable]) -> dict[str, Any]:
    """Return the result of the job, bounded for XCom."""
    worst = [each for each in tables if each.rescued or each.is_unparsed]
    return {
        "messages": sum(each.messages for each in tables),
        "unparsed": sum(each.messages for each in tables if each.is_unparsed),
        "rescued": sum(each.rescued for each in tables),
        "tables": len(tables),
        "warnings": [event_value(text) for each in tables for text in each.warnings][:_MOST_WORST],
        "largest": [_named(each) for each in sorted(tables, key=lambda each: -each.messages)[:MOST_TABLES]],
        "worst": [
            {
                **_named(each),
                "reasons": each.reasons,
                "rescued_fields": [_safe(vars(field)) for field in each.rescued_fields[:_MOST_FIELDS]],
            }
            for each in sorted(worst, key=lambda each: -(each.rescued or each.messages))[:_MOST_WORST]
        ],
    }


def _named(table: message_tables.MessageTypeTable) -> dict[str, Any]:
    left_out = ("rescued_fields", "reasons", "warnings")
    values = {name: value for name, value in vars(table).items() if name not in left_out}
    return {**_safe(values), "table": table.table, "new_fields": list(map(event_value, table.new_fields[:MOST_TABLES]))}


def _safe(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: event_value(value) if isinstance(value, str) else value for name, value in values.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program, which prints the sums of the result of what the arguments name."""
    program = Program(__doc__ or "")
    program.add_manifest()
    program.add("--location", required=True, help="the folder of the tables, or catalog.namespace for Iceberg")
    program.add("--format", choices=FORMATS, default="parquet", help="(%(default)s)")
    program.add("--schemas", help="the folder of the schemas (_schemas in the work folder)")
    program.add("--types", action="append", help='types that get tables: "Shop.*", or all but "!Shop.Internal.*"')
    program.add("--work-folder", help="the folder of intermediate files (the location; Iceberg needs one)")
    program.add("--no-new-fields", action="store_true", help="leave the schemas as they are: new fields are rescued")
    for name, what in (("rescued", "have rescued values"), ("unparsed", "stay unparsed")):
        program.add(f"--max-{name}", help=f"the share of a type's messages that may {what}, from 0 to 1")
    program.add("--reparse", action="store_true", help="parse the unparsed messages again, in place of a batch")
    program.add("--rewrite", metavar="TYPE", help="make the table of a type anew by its schema, in place of a batch")
    program.add("--body", choices=BODY_COLUMNS, help="keep whole bodies beside the columns, as a text or a variant")
    program.add("--compact", action="store_true", help="merge small files of all tables, in place of a batch")
    with program.start(arguments) as (spark, options):
        if sum((options.manifest is not None, options.reparse, options.rewrite is not None, options.compact)) != 1:
            program.fail("give one of --manifest, --reparse, --rewrite and --compact")
        if options.compact:
            merged = message_tables.compact_message_tables(spark, options.location, format=options.format)
            program.answer(
                tables=len(merged),
                merged_files=sum(each.merged_files for each in merged),
                new_files=sum(each.new_files for each in merged),
            )
            return 0
        given = {name: vars(options)[name] for name in ("format", "schemas", "work_folder")}
        if options.rewrite is not None:
            found = result_of([message_tables.rewrite_message_table(spark, options.location, options.rewrite, **given)])
        elif options.reparse:
            found = result_of(message_tables.reparse(spark, options.location, **given, body=options.body))
        else:
            batch = program.batch(spark)
            given |= {name: vars(options)[name] for name in ("types", "max_rescued", "max_unparsed", "body")}
            given |= {"new_fields": not options.no_new_fields, "connection": program.connection(batch)}
            found = result_of(message_tables.write_message_tables(spark, batch, options.location, **given))
        program.answer(**{name: found[name] for name in ("messages", "unparsed", "rescued", "tables")})
    return 0


if __name__ == "__main__":
    sys.exit(main())
