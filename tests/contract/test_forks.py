"""Processes that fork inside of a transaction: the child leaves the connection of its parent alone."""

from __future__ import annotations

import subprocess
import sys
import uuid
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.message import Message

PROGRAM = """
import os, sys
from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import TransactionError
from airflow_sqlqueue.messages.message import Message

client, mode = QueueClient.from_url(sys.argv[1]), sys.argv[3]
queue = client.queue(sys.argv[2])

def refused(call):
    try:
        call()
    except TransactionError as error:
        assert "Another process began" in str(error), error
    else:
        raise AssertionError("the child used its parent's connection")

with client.transaction(mode):
    queue.send([Message(body=b"before")])
    child = os.fork()
    if not child:
        {child}
    status = os.waitpid(child, 0)[1]
    queue.send([Message(body=b"after")])
assert os.waitstatus_to_exitcode(status) == 0, status
"""

CHILDREN = {
    "ends": "sys.exit()",
    "ends without a word": "os._exit(0)",
    "asks the server": """for call in (
            lambda: queue.send([Message(body=b"child")]),
            lambda: queue.receive(5),
            lambda: client.run_sql("SELECT 1"),
            lambda: client.transaction(mode).__enter__(),
        ):
            refused(call)
        sys.exit()""",
}


@pytest.fixture
def queue_name(server_url: str) -> Any:
    client, name = QueueClient.from_url(server_url), f"fork.{uuid.uuid4().hex[:12]}"
    client.tables.create(name)
    yield name
    client.tables.drop(name, force=True)


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("child", "mode"),
    [("asks the server", "receive_only"), *((child, "sends_atomic_with_receive") for child in CHILDREN)],
)
def test_a_child_leaves_the_transaction_to_its_parent(server_url: str, queue_name: str, child: str, mode: str) -> None:
    run(PROGRAM.format(child=CHILDREN[child]), server_url, queue_name, mode)
    bodies = [message.body for message in QueueClient.from_url(server_url).queue(queue_name).receive(5)]
    assert bodies == [b"before", b"after"]


CONSUMER = """
import os, sys
from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.endpoint.options import ConsumeOptions

client, started = QueueClient.from_url(sys.argv[1]), os.getpid()

def handle(message):
    assert os.getpid() == started, "a child went on with its parent's work"
    child = os.fork()
    if not child:
        if message.body == b"0":
            sys.exit(3)
        if message.body == b"1":
            raise ValueError
        if message.body == b"2":
            os._exit(0)
        return
    os.waitpid(child, 0)

done = client.queue(sys.argv[2]).consume(handle, ConsumeOptions(until_empty=True, max_handlers=1))
assert os.getpid() == started
print(done.handled, done.failed)
"""


def test_a_handler_may_fork(server_url: str, queue_name: str) -> None:
    client = QueueClient.from_url(server_url)
    client.tables.create("error")
    client.queue(queue_name).send(Message(body=b"%d" % number) for number in range(4))
    assert run(CONSUMER, server_url, queue_name).split() == ["4", "0"]
    assert client.queue(queue_name).depth().messages == 0


def test_a_child_may_use_the_server_on_its_own(server_url: str, queue_name: str) -> None:
    program = """
import os, sys
from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.message import Message
queue = QueueClient.from_url(sys.argv[1]).queue(sys.argv[2])
queue.send([Message(body=b"parent")])
if not (child := os.fork()):
    queue.send([Message(body=b"child")])
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
"""
    run(program, server_url, queue_name)
    assert QueueClient.from_url(server_url).queue(queue_name).depth().messages == 2
