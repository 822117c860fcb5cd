"""OpenLineage facets of a task: the tables and folders of its messages, with counts.

They hold only names and numbers. Datasets have the names of OpenLineage's conventions: a table of SQL Server is named
by its server and ``database.schema.table``, and a batch's files by their folder, as OpenLineage's Spark listener names
the input of the job that reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.drain.stores import store_at
from airflow_sqlqueue.hooks.lineage import namespace_of

if TYPE_CHECKING:
    from airflow_sqlqueue.client.client import QueueClient
    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.messages.message import Message
    from airflow_sqlqueue.messages.routing import ResolvedAddress


@dataclass(frozen=True)
class Flow:
    """Messages read from a dataset or written to it; ``bytes`` and ``files`` are None if they were not counted."""

    namespace: str
    name: str
    messages: int
    bytes: int | None = None
    files: int | None = None


@dataclass
class Lineage:
    """Inputs and outputs of one task's messages."""

    inputs: list[Flow] = field(default_factory=list)
    outputs: list[Flow] = field(default_factory=list)

    def facets(self) -> Any:
        """Return the facets for OpenLineage's provider; only this function imports that provider."""
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.event_v2 import InputDataset, OutputDataset
        from openlineage.client.facet_v2 import input_statistics_input_dataset as read
        from openlineage.client.facet_v2 import output_statistics_output_dataset as written

        def datasets(flows: list[Flow], dataset: Any, side: str, facet: Any) -> list[Any]:
            statistics = [facet(rowCount=flow.messages, size=flow.bytes, fileCount=flow.files) for flow in flows]
            facets = [{f"{side}Facets": {f"{side}Statistics": each}} for each in statistics]
            return [dataset(flow.namespace, flow.name, **each) for flow, each in zip(flows, facets, strict=True)]

        return OperatorLineage(
            inputs=datasets(self.inputs, InputDataset, "input", read.InputStatisticsInputDatasetFacet),
            outputs=datasets(self.outputs, OutputDataset, "output", written.OutputStatisticsOutputDatasetFacet),
        )


def of_table(client: QueueClient, address: str | ResolvedAddress, messages: int, size: int | None = None) -> Flow:
    """Flow of messages of a table on the client's server, by the table's address."""
    table = client.resolve(address) if isinstance(address, str) else address
    name = f"{table.catalog}.{table.schema}.{table.table}"
    return Flow(namespace_of(client.settings), name, messages, size)


def of_batch(client: QueueClient, batch: Batch) -> list[Flow]:
    """Return the flows of a batch's folder, or of the table beside the queue; none for an empty batch."""
    if not batch.parts:
        return []
    if batch.stage == "table":
        from airflow_sqlqueue.drain.stages.staging_table import MessageTable

        table = MessageTable.address_in(client.resolve(batch.queue).catalog, client.settings.ledger_schema)
        return [of_table(client, table, batch.messages, batch.bytes)]
    namespace, name = _folder(batch.paths[0])
    return [Flow(namespace, name, batch.messages, batch.bytes, len(batch.paths))]


def of_drain(client: QueueClient, batch: Batch) -> Lineage:
    """Return the lineage of a drain: all rows taken out of the queue, and the staged ones."""
    taken = batch.messages + batch.expired + batch.quarantined
    return Lineage([of_table(client, batch.queue, taken, batch.bytes)], of_batch(client, batch))


def of_requeue(client: QueueClient, batch: Batch) -> Lineage:
    """Return the lineage of a batch that is put back into its queue."""
    return Lineage(of_batch(client, batch), [of_table(client, batch.queue, batch.messages, batch.bytes)])


class Counted:
    """Iterable of messages that adds up ``bytes``, the size of their bodies; None before the first message."""

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
