"""Tables of message types: one table for each type of a batch's messages."""

from __future__ import annotations

from airflow_sqlqueue.spark.message_tables.maintenance import CompactedTable as CompactedTable
from airflow_sqlqueue.spark.message_tables.maintenance import ExpiredTable as ExpiredTable
from airflow_sqlqueue.spark.message_tables.maintenance import compact_message_tables as compact_message_tables
from airflow_sqlqueue.spark.message_tables.maintenance import expire_message_tables as expire_message_tables
from airflow_sqlqueue.spark.message_tables.reports import MessageTypeTable as MessageTypeTable
from airflow_sqlqueue.spark.message_tables.reports import RescuedField as RescuedField
from airflow_sqlqueue.spark.message_tables.rewriting import reparse as reparse
from airflow_sqlqueue.spark.message_tables.rewriting import rewrite_message_table as rewrite_message_table
from airflow_sqlqueue.spark.message_tables.tables import write_message_rows as write_message_rows
from airflow_sqlqueue.spark.message_tables.tables import write_message_tables as write_message_tables
