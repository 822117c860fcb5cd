"""Tables of message types: one table for each type of a batch's messages."""

from __future__ import annotations

from airflow_sqlqueue.spark.message_tables.maintenance import (
    CompactedTable,
    ExpiredTable,
    compact_message_tables,
    expire_message_tables,
)
from airflow_sqlqueue.spark.message_tables.reports import MessageTypeTable, RescuedField
from airflow_sqlqueue.spark.message_tables.rewriting import reparse, rewrite_message_table
from airflow_sqlqueue.spark.message_tables.tables import write_message_rows, write_message_tables

__all__ = [
    "CompactedTable",
    "ExpiredTable",
    "MessageTypeTable",
    "RescuedField",
    "compact_message_tables",
    "expire_message_tables",
    "reparse",
    "rewrite_message_table",
    "write_message_rows",
    "write_message_tables",
]
