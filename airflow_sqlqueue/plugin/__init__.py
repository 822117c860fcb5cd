"""Airflow plugin: a page on queues, batches and failures in Airflow's web interface (docs/guides/page.md).

Every Airflow process imports this module at its start, so it imports the page's modules only in the API server.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowPlugin


class SqlQueuePlugin(AirflowPlugin):
    """Plugin with the page and its API, for the entry point ``airflow.plugins``."""

    name = "sqlqueue"
    external_views: list[Any] = [  # noqa: RUF012 - as Airflow declares it
        {
            "name": "SQL Queues",
            "href": "sqlqueue/page",
            "destination": "nav",
            "category": "browse",
            "url_route": "sqlqueue",
            "icon": "sqlqueue/static/icon.svg",
            "icon_dark_mode": "sqlqueue/static/icon_dark.svg",
        }
    ]

    @property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]
        """The application, made at the first access."""
        from airflow_sqlqueue.plugin.app import the_app

        return [{"app": the_app(), "url_prefix": "/sqlqueue", "name": "SQL Queues"}]
