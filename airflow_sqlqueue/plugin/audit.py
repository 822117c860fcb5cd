"""Audit log rows in Airflow: user, action and count of messages, without content of messages."""

from __future__ import annotations

import json
from typing import Any

from airflow.models.log import Log
from airflow.utils.session import create_session


def note(user: Any, event: str, *, dag_id: str | None = None, run_id: str | None = None, **details: Any) -> None:
    """Write a row; ``details`` are ids, addresses and counts."""
    name = user.get_name()
    kept = json.dumps({key: value for key, value in details.items() if value is not None})
    row = Log(
        event=f"sqlqueue_{event}"[:60],
        owner=name,
        owner_display_name=name,
        extra=kept,
        dag_id=dag_id,
        run_id=run_id,
    )
    with create_session() as session:
        session.add(row)
