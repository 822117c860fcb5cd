"""Competing consumers in processes of their own, on any server."""

from __future__ import annotations

import queue as queues
from collections import Counter
from typing import Any

import pytest

from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests import competing
from tests.contract.conftest import run_sql
from tests.forks import CONTEXT

MESSAGES = 4_000


Account = tuple[str, "Counter[int]", int]


def next_account(accounts: Any, processes: list[Any]) -> Account:
    """Next result of a process; a failed process ends the wait."""
    while True:
        try:
            account: Account = accounts.get(timeout=1)
        except queues.Empty:
            assert not [process.exitcode for process in processes if process.exitcode]
        else:
            return account


@pytest.mark.timeout(600)
def test_every_message_is_accounted_for_exactly_once(
    server_url: str, settings: ConnectionSettings, queue: QueueTable
) -> None:
    """Eight receive, four of them with an endpoint's statement, while two send and one purges."""
    accounts, done = CONTEXT.Queue(), CONTEXT.Event()
    name, half = queue.address.canonical, MESSAGES // 2
    text, table = settings.odbc_connection_string(), queue.address.qualified_name
    senders = [
        CONTEXT.Process(target=competing.send, args=(server_url, name, n * half, half, accounts)) for n in (0, 1)
    ]
    others = [CONTEXT.Process(target=competing.purge_expired, args=(server_url, name, done, accounts))]
    for n in range(4):
        others.append(CONTEXT.Process(target=competing.receive, args=(server_url, name, n, done, accounts)))
        others.append(CONTEXT.Process(target=competing.receive_as_endpoint, args=(text, table, done, accounts)))
    processes = [*senders, *others]
    try:
        for process in processes:
            process.start()
        handed_over = [next_account(accounts, processes) for _ in senders]
        done.set()
        handed_over += [next_account(accounts, processes) for _ in others]
        for process in processes:
            process.join(60)
        assert [process.exitcode for process in processes] == [0] * len(processes)
    finally:
        for process in processes:
            process.kill()
    total: dict[str, Counter[int]] = {"sent": Counter(), "received": Counter(), "purged": Counter()}
    purged = 0
    for kind, numbers, count in handed_over:
        total[kind].update(numbers)
        purged += count
    assert set(total["received"].values()) == {1}
    missing = total["sent"] - total["received"]
    assert all(number % 20 == 0 for number in missing)
    assert len(missing) == purged
    assert run_sql(queue.session, f"SELECT COUNT(*) FROM {table}")[0][0] == 0
