"""Causes of messages, from the header that names the message whose handler sent this one.

``python -m airflow_sqlqueue.spark.jobs.causes --table LAKE --picture flow.svg``

Source: docs/transport/messages.md, "Header names".
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_sqlqueue.spark.jobs.flow_picture import MAX_NODES, Link, Node, draw_flow
from airflow_sqlqueue.spark.jobs.program import Program, need_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NO_TYPE, BEGINNING, UNKNOWN = "(no message type)", "(a conversation begins)", "(not among these messages)"

_NEEDED = (
    "message_id", "conversation_id", "related_to", "message_type", "originating_endpoint", "failed_queue", "time_sent",
    "headers_malformed",
)  # fmt: skip
_MAX_LINKS, _LABEL = 400, 200
"""Limits of a picture's query: links, and characters of a name."""


def caused_messages(messages: DataFrame) -> DataFrame:
    """A row for each message with its cause; the copies of a message, one of each subscriber of an event, make one row.

    It has ``message_id``, ``conversation_id``, ``related_to`` (the id of the message that was handled when this one was
    sent; null for the first of a conversation), ``message_type``, ``originating_endpoint`` (the sender), ``time_sent``,
    ``copies``, ``failed`` (the number of failed copies), ``cause_found`` (true if the cause is among the messages) and
    ``cause_type`` (its ``message_type``). If copies differ, the least value counts. Messages may relate to themselves
    or in a circle. Messages with malformed headers are left out, because their id and type are unknown.

    :param messages: the rows of :func:`~airflow_sqlqueue.spark.read_batch`, or the table of :mod:`.audit`.

    Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for rows without the columns that it needs.
    """
    from pyspark.sql import functions as sf

    need_columns(messages, *_NEEDED)
    first = ("conversation_id", "related_to", "message_type", "originating_endpoint", "time_sent")
    each = (
        messages.where("NOT headers_malformed")
        .groupBy("message_id")
        .agg(
            *(sf.min(name).alias(name) for name in first),
            sf.count(sf.lit(1)).alias("copies"),
            sf.count("failed_queue").alias("failed"),
        )
    )
    causes = each.select(
        sf.col("message_id").alias("related_to"),
        sf.lit(True).alias("_found"),
        sf.col("message_type").alias("cause_type"),
    )
    joined = each.join(causes, "related_to", "left")
    found = sf.coalesce("_found", sf.lit(False)).alias("cause_found")
    return joined.select("message_id", *first, "copies", "failed", found, "cause_type")


def message_flow(messages: DataFrame) -> DataFrame:
    """A row for each pair of types, cause and message, over all conversations, from :func:`caused_messages`.

    ``cause_type`` and ``message_type`` are types, null for a message without a type; ``caused`` is ``beginning`` for
    messages without a cause, ``unknown`` if the cause is not among the messages, and else ``found``; ``messages``,
    ``copies`` and ``failed`` are counts.
    """
    from pyspark.sql import functions as sf

    caused = (
        sf.when(sf.col("related_to").isNull(), "beginning").when(sf.col("cause_found"), "found").otherwise("unknown")
    )
    counted = caused_messages(messages).groupBy(caused.alias("caused"), "cause_type", "message_type")
    return counted.agg(
        sf.count(sf.lit(1)).alias("messages"), sf.sum("copies").alias("copies"), sf.sum("failed").alias("failed")
    )


def conversation_graph(messages: DataFrame, conversation_id: str | None = None) -> str:
    """Draw the types of messages and their causes, with counts, as a page of SVG.

    With a ``conversation_id`` it shows that conversation, message by message, the earliest first. It has at most
    :data:`~.flow_picture.MAX_NODES` nodes, the most frequent or the earliest, and the number of messages that it does
    not show. The same messages give the same picture. Values of headers are escaped, and long ones are cut.
    """
    need_columns(messages, *_NEEDED)
    if conversation_id is None:
        return _flow_of_types(messages)
    return _conversation(messages, conversation_id)


def _flow_of_types(messages: DataFrame) -> str:
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    # Names are cut before they are grouped, so that the driver collects a bounded amount.
    cut = messages.withColumn("message_type", sf.coalesce(_name("message_type"), sf.lit(NO_TYPE)))
    everything = Observation()
    flow = message_flow(cut).observe(everything, sf.coalesce(sf.sum("messages"), sf.lit(0)).alias("messages"))
    source = sf.when(sf.col("caused") == "found", sf.col("cause_type")).when(sf.col("caused") == "unknown", UNKNOWN)
    rows = (
        flow.select(sf.coalesce(source, sf.lit(BEGINNING)).alias("source"), "message_type", "messages", "failed")
        .orderBy(sf.desc("messages"), "source", "message_type")
        .limit(_MAX_LINKS)
        .collect()
    )
    links = [Link(row["source"], row["message_type"], row["messages"]) for row in rows]
    sent: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for row in rows:
        sent[row["message_type"]] += row["messages"]
        failed[row["message_type"]] += row["failed"]
    total = everything.get["messages"]
    # The nodes BEGINNING and UNKNOWN have no messages of their own; they are always drawn.
    weights = {**sent, BEGINNING: total + 1, UNKNOWN: total + 1}
    nodes = [
        Node(name, name.rpartition(".")[2] or name, _counts(sent[name], failed[name]), weights.get(name, 0))
        for name in {name for link in links for name in (link.source, link.target)}
    ]
    return draw_flow("Which message causes which", nodes, links, total, "messages")


def _conversation(messages: DataFrame, conversation_id: str) -> str:
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    everything = Observation()
    own = messages.where(sf.col("conversation_id") == conversation_id)
    counted = caused_messages(own).observe(everything, sf.count(sf.lit(1)).alias("messages"))
    names = [_name(name).alias(name) for name in ("message_id", "related_to", "message_type", "originating_endpoint")]
    rows = counted.orderBy(sf.asc_nulls_last("time_sent"), "message_id").select(*names, "failed").limit(MAX_NODES)
    found = rows.collect()
    ids = {row["message_id"] for row in found}
    nodes = []
    for rank, row in enumerate(found):
        kind = row["message_type"] or NO_TYPE
        note = f"from {row['originating_endpoint'] or 'an unknown endpoint'}{', failed' if row['failed'] else ''}"
        nodes.append(Node(row["message_id"], kind.rpartition(".")[2] or kind, note, len(found) - rank))
    links = [Link(row["related_to"], row["message_id"], 1) for row in found if row["related_to"] in ids]
    return draw_flow("A conversation", nodes, links, everything.get["messages"], "messages", drawn=len(found))


def _name(column: str) -> Column:
    from pyspark.sql import functions as sf

    return sf.substring(column, 1, _LABEL)


def _counts(messages: int, failed: int) -> str:
    if not messages:
        return ""
    return f"{messages:,}, {failed:,} failed" if failed else f"{messages:,}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program, which prints the number of rows or bytes that it wrote."""
    program = Program(__doc__ or "")
    program.add_source()
    program.add_out(required=False)
    program.add("--picture", type=Path, help="the file for the picture, SVG")
    program.add("--conversation", help="draw the conversation with this id")
    with program.start(arguments) as (spark, options):
        messages, counts = program.read(spark), {}
        if options.out is not None:
            counts["rows"] = program.write(message_flow(messages))
        if options.picture is not None:
            picture = conversation_graph(messages, options.conversation)
            counts["bytes"] = options.picture.write_bytes(picture.encode())
        program.answer(**counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
