"""What a drain leaves in the task's log and in Airflow's metrics."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.drain.progress import Progress
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.message import Message
from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator, progress


class Metrics:
    """Airflow's metrics as far as they are used here."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()
        self.steps = 0
        self.others: dict[str, Any] = {}

    def incr(self, name: str, count: int) -> None:
        self.counted[name] += count
        self.steps += name.endswith(".messages")

    def timing(self, name: str, value: timedelta) -> None:
        self.others[name] = value

    def gauge(self, name: str, value: int) -> None:
        self.others[name] = value


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Metrics:
    metrics = Metrics()
    monkeypatch.setattr(progress, "stats", metrics)
    return metrics


def test_metrics_add_up_to_what_the_ledger_says(
    queue_name: str, tmp_path: Path, context: Any, live: str, metrics: Metrics, capsys: Any, caplog: Any
) -> None:
    lifetimes = {n: timedelta(seconds=-1) for n in range(0, 50, 5)}
    SqlQueueHook(live).send(queue_name, (Message({}, b"x" * n, lifetimes.get(n)) for n in range(50)))
    drain = SqlQueueDrainToSparkOperator(
        task_id="task",
        queue_name=queue_name,
        staging=str(tmp_path),
        drain_options={"rows_per_part": 20, "workers": 1},
        sqlqueue_conn_id=live,
    )
    batch = drain.execute(context())["batch"]
    assert metrics.steps == batch["parts"] == 3
    assert {name.rpartition(".")[2]: count for name, count in metrics.counted.items()} == {
        name: batch[name] for name in ("messages", "expired", "quarantined", "bytes")
    }
    assert metrics.others["sqlqueue.drain.locked"] == 0
    assert metrics.others["sqlqueue.drain.seconds"] > timedelta(0)
    log = capsys.readouterr().out + caplog.text
    assert "Drained 40 messages" in log
    assert "a second, about 0 s left" in log
    assert f"is sealed: 40 messages, {batch['bytes']} bytes in 3 parts, 10 expired" in log


def test_a_retry_counts_in_its_log_what_is_there_and_in_the_metrics_what_it_adds(metrics: Metrics) -> None:
    lines: list[str] = []

    class Log:
        def info(self, text: str, *values: Any) -> None:
            lines.append(text % values)

    told = progress.DrainLog(Log())
    told.progress(Progress(30, 0, 0, 300, 0.1, None, earlier=30))
    told.progress(Progress(50, 0, 0, 500, 1.0, None, earlier=30))
    assert [line.partition(",")[0] for line in lines] == ["Drained 30 messages", "Drained 50 messages"]
    assert "20 a second" in lines[1]
    assert metrics.counted["sqlqueue.drain.messages"] == 20
