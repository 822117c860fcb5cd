"""The link from a drain to its batch on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink, conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


def page_url(*parts: str) -> str:
    """Where Airflow shows a view of the page: the path of its ``[api] base_url``, and the view's own parts.

    The address bar holds the path of the frame behind that of the page, so the base path is there twice.
    """
    base = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    view = "/".join(("#", *(quote(part, safe="") for part in parts)))
    return f"{base}/plugin/sqlqueue{base}/sqlqueue/page?view={quote(view, safe='')}"


class BatchLink(BaseOperatorLink):
    """The batch of a task that drains; the batches of its connection where it came to none."""

    name = "SQL queue batch"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Called on the worker, when the task has ended."""
        batch_id = getattr(operator, "worked_on", None)
        parts = ("c", str(getattr(operator, "sqlqueue_conn_id", "")), "batches")
        return page_url(*parts, *([] if batch_id is None else [str(batch_id)]))
