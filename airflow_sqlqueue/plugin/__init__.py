"""The plugin: a page in Airflow's web interface, over queues, batches and failures (docs/guides/page.md).

Every Airflow process imports this module at its start, so all that it needs for the page is imported when the API
server asks for it.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin


class SqlQueuePlugin(AirflowPlugin):
    """The page and its API, for the entry point ``airflow.plugins``."""

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
        """The application, made when it is first asked for."""
        from airflow_sqlqueue.plugin.app import the_app

        return [{"app": the_app(), "url_prefix": "/sqlqueue", "name": "SQL Queues"}]
