"""What OpenLineage is told of a task: the tables and folders that its messages came from and went to, with counts.

Names and numbers only. Datasets are named as OpenLineage's naming has them: a table of SQL Server by its server and
``database.schema.table``, the files of a batch by their folder, which is what OpenLineage's Spark listener calls the
input of the job that reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.drain.stores import store_at
from airflow_sqlqueue.hooks.lineage import namespace_of

if TYPE_CHECKING:
    from airflow_sqlqueue.client import QueueClient
    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.message import Message
    from airflow_sqlqueue.routing import ResolvedAddress


@dataclass(frozen=True)
class Flow:
    """Messages that were taken from a dataset or put into it; ``bytes`` and ``files`` are None where none counted."""

    namespace: str
    name: str
    messages: int
    bytes: int | None = None
    files: int | None = None


@dataclass
class Lineage:
    """Where the messages of one task came from and went to."""

    inputs: list[Flow] = field(default_factory=list)
    outputs: list[Flow] = field(default_factory=list)

    def facets(self) -> Any:
        """It as OpenLineage's provider asks for it, and the only place that imports that provider."""
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.event_v2 import InputDataset, OutputDataset
        from openlineage.client.facet_v2 import input_statistics_input_dataset as read
        from openlineage.client.facet_v2 import output_statistics_output_dataset as written

        def of(flow: Flow, statistics: Any) -> Any:
            return statistics(rowCount=flow.messages, size=flow.bytes, fileCount=flow.files)

        return OperatorLineage(
            inputs=[
                InputDataset(
                    flow.namespace,
                    flow.name,
                    inputFacets={"inputStatistics": of(flow, read.InputStatisticsInputDatasetFacet)},
                )
                for flow in self.inputs
            ],
            outputs=[
                OutputDataset(
                    flow.namespace,
                    flow.name,
                    outputFacets={"outputStatistics": of(flow, written.OutputStatisticsOutputDatasetFacet)},
                )
                for flow in self.outputs
            ],
        )


def of_table(client: QueueClient, address: str | ResolvedAddress, messages: int, size: int | None = None) -> Flow:
    """Messages of a table on the client's server, by its address."""
    table = client.resolve(address) if isinstance(address, str) else address
    name = f"{table.catalog}.{table.schema}.{table.table}"
    return Flow(namespace_of(client.settings), name, messages, size)


def of_batch(client: QueueClient, batch: Batch) -> list[Flow]:
    """What is staged of a batch: its folder, or the table beside the queue. Nothing, for a batch without messages."""
    if not batch.parts:
        return []
    if batch.stage == "table":
        from airflow_sqlqueue.drain.stages.message_table import MessageTable

        table = MessageTable.address_in(client.resolve(batch.queue).catalog, client.ledger_schema)
        return [of_table(client, table, batch.messages, batch.bytes)]
    namespace, name = _folder(batch.paths[0])
    return [Flow(namespace, name, batch.messages, batch.bytes, len(batch.paths))]


def of_drain(client: QueueClient, batch: Batch) -> Lineage:
    """Every row that was taken out of the queue, and those that were staged."""
    taken = batch.messages + batch.expired + batch.quarantined
    return Lineage([of_table(client, batch.queue, taken, batch.bytes)], of_batch(client, batch))


def of_requeue(client: QueueClient, batch: Batch) -> Lineage:
    """A batch that is put back into its queue."""
    return Lineage(of_batch(client, batch), [of_table(client, batch.queue, batch.messages, batch.bytes)])


class Counted:
    """Messages on their way, and ``bytes``, the size of the bodies that went by; None while none did."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages = messages
        self.bytes: int | None = None

    def __iter__(self) -> Iterator[Message]:
        for message in self._messages:
            self.bytes = (self.bytes or 0) + len(message.body)
            yield message


def _folder(path: str) -> tuple[str, str]:
    """Namespace and name of the folder of a file: ``s3://bucket`` and the key, ``file`` and the path on a disk."""
    folder = path.rpartition("/")[0]
    scheme, is_uri, rest = folder.partition("://")
    if not is_uri or scheme == "file":
        return "file", rest or folder
    store = store_at(folder)
    authority, slash, name = rest.partition("/")
    if store is None:
        return f"{scheme}://{authority}", slash + name
    return f"{store.dataset or scheme}://{authority}", name if store.buckets else slash + name
