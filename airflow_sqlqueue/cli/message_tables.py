"""Commands on tables of message types."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_sqlqueue.cli.options import Common
from airflow_sqlqueue.cli.output import note
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import option


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
    if not all(settings.values()):
        raise ConfigurationError("--conf takes NAME=VALUE, as spark.driver.memory=4g.")
    from airflow_sqlqueue.spark.message_tables import rewrite_message_table
    from airflow_sqlqueue.spark.session import local_session

    try:
        with local_session("rewrite", "local[*]", settings) as spark:
            found = rewrite_message_table(
                spark,
                location,
                message_type,
                format=format,  # type: ignore[arg-type]
                schemas=schemas,
                work_folder=work_folder,
            )
    except KeyboardInterrupt:
        note("Interrupted. No row is lost: run the same command again. A table of Parquet takes no batch until then.")
        raise typer.Exit(130) from None
    for warning in found.warnings:
        note(warning)
    common.show({"table": found.table, "messages": found.messages, "rescued": found.rescued}, title="Rewritten")


COMMANDS = (rewrite,)
