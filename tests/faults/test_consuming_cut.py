"""An endpoint in Python whose connection is cut at the round trips that decide."""

from __future__ import annotations

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.faults.conftest import LONG
from tests.faults.proxy import DURING, MOMENTS, Proxy

MESSAGES = 12
# The first time, the driver sends the text of a statement; later, the handle under which the server knows it.
ROUND_TRIPS = {"receive": "DELETE FROM head", "send": "INSERT INTO", "commit": "COMMIT TRANSACTION"}


@pytest.mark.parametrize(
    ("round_trip", "moment"),
    [(each, moment) for each in ROUND_TRIPS for moment in MOMENTS if LONG or each == "commit" or moment == DURING],
)
def test_a_cut_connection_loses_and_duplicates_nothing(
    settings: ConnectionSettings, proxy: Proxy, queues: dict[str, str], round_trip: str, moment: str
) -> None:
    client, through = QueueClient(settings), QueueClient(proxy.settings)
    client.queue(queues["orders"]).send(Message(body=b"%d" % n) for n in range(MESSAGES))

    def handle(message: Envelope) -> None:
        through.queue(queues["billing"]).send([Message(body=message.body)])

    proxy.set_trap(ROUND_TRIPS[round_trip], moment)
    options = ConsumeOptions(max_handlers=1, delayed_retries=0, error_queue=queues["error"])
    done = through.queue(queues["orders"]).consume(handle, options)
    assert proxy.left == 0
    assert sorted(int(message.body) for message in client.queue(queues["billing"]).peek(100)) == list(range(MESSAGES))
    assert client.queue(queues["orders"]).depth().messages == client.queue(queues["error"]).depth().messages == 0
    # Whether a COMMIT whose answer was lost took effect is not known: then one more was handled than was counted.
    assert done.handled in {MESSAGES, MESSAGES - 1}
