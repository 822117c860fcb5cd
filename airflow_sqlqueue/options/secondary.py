"""The option that extends an operation to the secondary queues of an endpoint, declared once for all operations."""

from __future__ import annotations

from typing import Any

from airflow_sqlqueue.options import option


def secondary(does: str) -> Any:
    """Return the option ``secondary`` of an operation; ``does`` says what happens to these queues.

    Source: docs/concepts/addresses.md, "Secondary queues".
    """
    return option(False, f"{does} the secondary queues too, those of instances and machines: ``<queue>.WEB01``")
