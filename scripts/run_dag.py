"""Run a DAG of the DAGs folder to its end, and write its tasks' XComs and durations as JSON."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def main(name: str, answer: str) -> int:
    from airflow.configuration import conf

    sys.path.insert(0, conf.get_mandatory_value("core", "dags_folder"))
    run = importlib.import_module(name).dag.test()
    result: dict[str, Any] = {"seconds": {}}
    for task in run.get_task_instances():
        result[task.task_id] = task.xcom_pull(task_ids=task.task_id)
        result["seconds"][task.task_id] = task.duration
    Path(answer).write_text(json.dumps(result, default=str), "utf-8")
    return 0 if run.state == "success" else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
