"""Jobs on drained messages, in plain PySpark: each is a function of a DataFrame, and a program of the same name.

Call the function in a notebook or in a task with a session, start the module with ``python -m``, or hand its file to
``spark-submit``. What a program prints is numbers only: no body and no header's value reaches a log.

=================== ==================================================================================
:mod:`.audit`       a batch into a table that is partitioned by batch and day
:mod:`.processing`  processing times of each endpoint, or by other columns
:mod:`.failures`    groups of failures over time
:mod:`.causes`      which message caused which: a table of edges, and a picture
:mod:`.replay`      messages from the lake to a queue, each once
=================== ==================================================================================
"""

from __future__ import annotations

from airflow_sqlqueue.spark.jobs.audit import audit_rows, audit_table
from airflow_sqlqueue.spark.jobs.causes import caused_messages, conversation_graph, message_flow
from airflow_sqlqueue.spark.jobs.failures import failure_groups
from airflow_sqlqueue.spark.jobs.flow_picture import draw_flow
from airflow_sqlqueue.spark.jobs.processing import processing_times
from airflow_sqlqueue.spark.jobs.replay import replay

__all__ = [
    "audit_rows",
    "audit_table",
    "caused_messages",
    "conversation_graph",
    "draw_flow",
    "failure_groups",
    "message_flow",
    "processing_times",
    "replay",
]
