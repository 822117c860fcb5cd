from airflow_sqlqueue.client.batch_manager import BatchManager as BatchManager
from airflow_sqlqueue.client.conversation import ConversationStep as ConversationStep
from airflow_sqlqueue.client.delayed import DelayedQueue as DelayedQueue
from airflow_sqlqueue.client.errors import ArchiveManager as ArchiveManager
from airflow_sqlqueue.client.errors import ErrorManager as ErrorManager
from airflow_sqlqueue.client.own_tables import CopyManager as CopyManager
from airflow_sqlqueue.client.own_tables import QuarantineManager as QuarantineManager
from airflow_sqlqueue.client.own_tables import StreamManager as StreamManager
from airflow_sqlqueue.client.subscriptions import SubscriptionManager as SubscriptionManager
from airflow_sqlqueue.client.tables import TableManager as TableManager
from airflow_sqlqueue.drain.batches import BatchInfo as BatchInfo
from airflow_sqlqueue.endpoint.databus.batch_payloads import StagedPayload as StagedPayload
from airflow_sqlqueue.endpoint.databus.payload_file import PayloadsResult as PayloadsResult
from airflow_sqlqueue.queue.condition import ConditionResult as ConditionResult
from airflow_sqlqueue.queue.errors.triage import ErrorGroup as ErrorGroup
from airflow_sqlqueue.queue.errors.triage import Triage as Triage
from airflow_sqlqueue.queue.inspection.findings import Finding as Finding

__all__: list[str]
