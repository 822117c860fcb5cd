from airflow_sqlqueue.spark.batch import raw_schema as raw_schema
from airflow_sqlqueue.spark.batch import read_batch as read_batch
from airflow_sqlqueue.spark.batch import read_bodies as read_bodies
from airflow_sqlqueue.spark.batch import typed_columns as typed_columns
from airflow_sqlqueue.spark.batch import verify_count as verify_count
from airflow_sqlqueue.spark.bodies import parse_bodies as parse_bodies
from airflow_sqlqueue.spark.jobs.audit import audit_rows as audit_rows
from airflow_sqlqueue.spark.jobs.audit import audit_table as audit_table
from airflow_sqlqueue.spark.jobs.causes import caused_messages as caused_messages
from airflow_sqlqueue.spark.jobs.causes import conversation_graph as conversation_graph
from airflow_sqlqueue.spark.jobs.causes import message_flow as message_flow
from airflow_sqlqueue.spark.jobs.failures import failure_groups as failure_groups
from airflow_sqlqueue.spark.jobs.processing import processing_times as processing_times
from airflow_sqlqueue.spark.jobs.program import Program as Program
from airflow_sqlqueue.spark.jobs.replay import replay_messages as replay_messages
from airflow_sqlqueue.spark.manifests import load_batch as load_batch
from airflow_sqlqueue.spark.payloads import read_payloads as read_payloads
from airflow_sqlqueue.spark.session import local_session as local_session
from airflow_sqlqueue.spark.sinks import MicroBatch as MicroBatch
from airflow_sqlqueue.spark.sinks import foreach_batch as foreach_batch
from airflow_sqlqueue.spark.sinks import write_delta as write_delta
from airflow_sqlqueue.spark.sinks import write_iceberg as write_iceberg
from airflow_sqlqueue.spark.sinks import write_partitions as write_partitions
from airflow_sqlqueue.spark.source import finish_stream as finish_stream
from airflow_sqlqueue.spark.source import register as register

__all__: list[str]
