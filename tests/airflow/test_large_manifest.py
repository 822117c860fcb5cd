"""Batches of many parts, through the operators: their XCom, and changes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import batch_id_for
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.operators import (
    SqlQueueDrainToSparkOperator,
    SqlQueueMarkConsumedOperator,
    SqlQueueRequeueOperator,
)
from airflow_sqlqueue.server.session import Session
from tests.contract.conftest import run_sql

PARTS = 10_000

_DIGITS = "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))"
_MADE = f"""
INSERT INTO [sqlqueue].[Part] ([PartId], [BatchId], [Path], [Messages], [Expired], [Quarantined], [Bytes],
                               [MinRowVersion], [MaxRowVersion], [Worker], [CommittedAt])
SELECT CAST(p.[Id] AS uniqueidentifier), '{{batch_id}}', '{{folder}}/{{batch_id}}/part-' + p.[Id] + '.parquet',
       1, 0, 0, 100, p.[N], p.[N], 'test', SYSUTCDATETIME()
FROM (
    SELECT n.[N], LEFT('{{batch_id}}', 24) + RIGHT('00000000000' + CAST(n.[N] AS varchar(12)), 12) AS [Id]
    FROM (
        SELECT 1000 * a.[D] + 100 * b.[D] + 10 * c.[D] + d.[D] AS [N]
        FROM {_DIGITS} AS a([D]) CROSS JOIN {_DIGITS} AS b([D]) CROSS JOIN {_DIGITS} AS c([D])
        CROSS JOIN {_DIGITS} AS d([D])
    ) AS n
) AS p
"""


def test_xcom_stays_small(hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any, run_id: str) -> None:
    queue, batch_id = hook.client.resolve(queue_name), batch_id_for("dag", run_id, "task")
    with Session(hook.client.settings) as session:
        ledger = Ledger(session, queue.catalog)
        ledger.create()
        ledger.open(batch_id, queue.canonical, 2**40)
        run_sql(session, _MADE.format(batch_id=batch_id, folder=f"file://{tmp_path}"))
        drain = SqlQueueDrainToSparkOperator(task_id="task", queue_name=queue_name, staging=str(tmp_path))
        done = drain.execute(context())
    assert len(json.dumps(done)) < 16_000
    assert (done["batch"]["parts"], done["batch"]["messages"], "paths" in done["batch"]) == (PARTS, PARTS, False)
    file = Path(done["batch"]["manifest"].removeprefix("file://"))
    assert list((tmp_path / str(batch_id)).iterdir()) == [file]
    whole = Batch.from_dict(json.loads(file.read_text()))
    assert (len(whole.paths), whole.to_reference()) == (PARTS, done["batch"])


def test_a_change_in_xcom_is_noticed_and_the_rest_is_in_the_ledger(
    hook: SqlQueueHook, queue_name: str, tmp_path: Path, context: Any
) -> None:
    staging = tmp_path.joinpath(*["x" * 200] * 3)
    hook.send(queue_name, [Message({}, b"%d" % n) for n in range(30)])
    drain = SqlQueueDrainToSparkOperator(
        task_id="task", queue_name=queue_name, staging=str(staging), drain_options={"rows_per_part": 2}
    )
    done = drain.execute(context())["batch"]
    changed = {**done, "manifest": done["manifest"].replace(done["batch_id"], "other")}
    for given in ({**done, "messages": 29}, changed):
        for operator in (SqlQueueMarkConsumedOperator, SqlQueueRequeueOperator):
            with pytest.raises(AirflowFailException, match="is not what its drain wrote"):
                operator(task_id="t", batch=given).execute(context())
    hook.client.batches.mark_consumed(hook.client.batches.load(done))
    SqlQueueMarkConsumedOperator(task_id="mark", batch=done).execute(context())
    hook.send(queue_name, [Message({}, b"%d" % n) for n in range(30)])
    second = drain.execute(context(run_id="second"))["batch"]
    back = SqlQueueRequeueOperator(task_id="back", batch=second).execute(context())
    assert back["batch"] == {**second, "state": "requeued"}
    assert hook.depth(queue_name).messages == 30
