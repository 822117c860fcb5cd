"""Progress of a drain in the task's log and in Airflow's metrics."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow_sqlqueue.drain.progress import Progress
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import SqlQueueDrainToSparkOperator
from airflow_sqlqueue.operators.metrics import DrainLog, Metrics


def test_metrics_add_up_to_the_ledger(
    queue_name: str, tmp_path: Path, context: Any, live: str, statsd: Any, capsys: Any, caplog: Any
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
    tags = f"conn_id={live},queue=sqlqueue.dbo.{queue_name}"
    for name in ("messages", "expired", "bytes"):
        assert statsd.named(f"drain.{name}") == {tags: batch[name]}
    assert statsd.named("drain.quarantined") == {}
    assert sum(line.startswith("sqlqueue.drain.messages,") for line in statsd.lines) == batch["parts"] == 3
    assert statsd.named("drain.locked") == statsd.named("backlog.messages") == {tags: 0}
    assert statsd.named("drain.seconds")[tags] > 0
    log = capsys.readouterr().out + caplog.text
    assert "Drained 40 messages" in log
    assert "a second, about 0 s left" in log
    assert f"is sealed: 40 messages, {batch['bytes'] / 2**20:.1f} MiB in 3 parts, 10 expired" in log


def test_a_retry_logs_the_whole_batch_and_counts_its_own_part_in_metrics(
    live: str, queue_name: str, statsd: Any
) -> None:
    lines: list[str] = []

    class Log:
        def info(self, text: str, *values: Any) -> None:
            lines.append(text % values)

    task = SqlQueueDrainToSparkOperator(task_id="task", queue_name=queue_name, stage="table")
    told = DrainLog(Log(), Metrics(task, task.sql_queue))
    told.progress(Progress(0.1, None, earlier=30, messages=30, bytes=300))
    told.progress(Progress(1.0, None, earlier=30, messages=50, bytes=500))
    assert [line.partition(",")[0] for line in lines] == ["Drained 30 messages", "Drained 50 messages"]
    assert "20 a second" in lines[1]
    assert list(statsd.named("drain.messages").values()) == [20]
