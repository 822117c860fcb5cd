"""Registration of the provider with Airflow. Imports only the version: every Airflow process reads it at its start.

The shape is ``provider_info.schema.json`` of Airflow 3.3; ``conn-fields`` is that of ``provider.yaml.schema.json``
(docs/design.md, "Registration with Airflow").
"""

from __future__ import annotations

from typing import Any

from airflow_sqlqueue import __version__

_NAME = "SQL Server queue"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's registration for Airflow's entry point ``apache_airflow_provider``."""
    return {
        "package-name": "airflow-sqlqueue",
        "name": _NAME,
        "description": "SQL Server queue tables (the NServiceBus SQL Server transport), drained into Spark.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://docs.particular.net/transports/sql/",
                "how-to-guide": ["/docs/guides/queue-to-table.md", "/docs/guides/errors.md"],
                "logo": "/docs/pictures/logo.svg",
                "tags": ["service"],
            }
        ],
        "hooks": [_modules("hooks.sqlqueue")],
        "operators": [
            _modules(
                "operators.tables",
                "operators.events",
                "operators.send",
                "operators.consume",
                "operators.drain",
                "operators.drain_to_spark",
                "operators.batches",
                "operators.maintenance",
                "operators.error_queue",
                "operators.request",
            )
        ],
        "sensors": [_modules("sensors.depth", "sensors.stranded")],
        "asset-uris": [
            {
                "schemes": ["mssql+queue"],
                "handler": "airflow_sqlqueue.assets.sanitize_uri",
                "factory": "airflow_sqlqueue.assets.create_asset",
                "to_openlineage_converter": "airflow_sqlqueue.assets.convert_to_openlineage",
            }
        ],
        "notifications": ["airflow_sqlqueue.notifications.SqlQueueNotifier"],
        "triggers": [_modules("triggers.depth", "triggers.message", "triggers.reply", "triggers.stranded")],
        "queues": [
            "airflow_sqlqueue.queues.SqlQueueMessageQueueProvider",
            "airflow_sqlqueue.queues.SqlQueueMessagesProvider",
        ],
        "task-decorators": [
            {"class-name": "airflow_sqlqueue.decorators.consume.sqlqueue_consume_task", "name": "sqlqueue_consume"}
        ],
        "extra-links": ["airflow_sqlqueue.operators.drain.BatchLink"],
        "connection-types": [
            {
                "connection-type": "sqlqueue",
                "hook-class-name": "airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook",
                "hook-name": _NAME,
                "ui-field-behaviour": {
                    "hidden-fields": [],
                    "relabeling": {"schema": "Database"},
                    "placeholders": {
                        "host": "sql.example.com",
                        "login": "airflow",
                        "schema": "nservicebus",
                        "port": "1433",
                    },
                },
                "conn-fields": _conn_fields(),
            }
        ],
        "config": {
            "sqlqueue": {
                "description": "Settings of the SQL Server queue provider.",
                "options": {
                    "allow_driver_in_extra": _switch(
                        "Whether a connection's extra may name any path of a library as that of the ODBC driver. "
                        "A user who may edit connections can then load code into workers."
                    ),
                    "token_hosts": _option(
                        "Hosts, with commas, that get a token of Microsoft Entra ID where a connection names them, "
                        "besides those of Azure SQL and Fabric; .example.com means all hosts in that domain. The "
                        "operator of such a host can use the token.",
                        "sql.example.com, .db.example.com",
                    ),
                    "access_token_connections": _option(
                        "Ids of connections, with commas, that access tokens may be taken from, besides those with "
                        "sqlqueue_access_token in their own extra.",
                        "entra",
                    ),
                    "spark_settings_in_extra": _option(
                        "Settings of Spark, with commas, that the extra of a Spark connection may have besides those "
                        "of memory, cores and the like, or * for all. A user who may edit connections can then load "
                        "code into workers.",
                        "spark.hadoop.fs.s3a.endpoint",
                    ),
                    "spark_masters": _option(
                        "Masters and Spark Connect servers, with commas, that a Spark connection may name, or * for "
                        "all. An intruder's own server would get the data that the job reads, and could run code in "
                        "the task.",
                        "spark://master:7077, yarn, sc://spark:15002",
                        default="*",
                    ),
                    "page_connections": _option(
                        "Ids of connections, with commas, that the page SQL Queues shows besides those of type "
                        "sqlqueue in the environment, or * for all of that type in Airflow's database. The API server "
                        "logs in with them.",
                        "sqlqueue_default, billing",
                    ),
                    "page_open_connections": _option(
                        "Ids of connections, with commas, or * for all: every user of the page sees their queues and "
                        "headers, even without the right to read the connection.",
                        "sqlqueue_default",
                    ),
                    "page_show_bodies": _switch(
                        "Whether the page shows bodies of messages, to those who may read 'SQL Queue Bodies' and edit "
                        "the connection."
                    ),
                    "page_metrics_token": _option(
                        "The Bearer token for sqlqueue/metrics; without it there are no metrics.",
                        sensitive=True,
                    ),
                    "page_secret_key": _option(
                        "The key that signs the page's actions for its DAG, the same on API servers and workers; "
                        "[api] secret_key unless set.",
                        sensitive=True,
                    ),
                },
            }
        },
    }


def _option(
    description: str, example: str | None = None, *, kind: str = "string", default: str = "", **further: bool
) -> dict[str, Any]:
    found = {"description": description, "version_added": "0.1.0", "type": kind, "example": example}
    return {**found, "default": default, **further}


def _switch(description: str) -> dict[str, Any]:
    return _option(description, "True", kind="boolean", default="False")


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _NAME, "python-modules": [f"airflow_sqlqueue.{name}" for name in names]}


def _conn_fields() -> dict[str, Any]:
    """Return the fields of the extra by their groups in the form, which shows each group closed.

    Airflow's own fields are above them and are enough for a server with a trusted certificate.
    """
    groups = {
        "Encryption": {
            "trust_server_certificate": _field(
                "Trust server certificate", "Accept a certificate that no trusted authority has signed.", "boolean"
            ),
            "encrypt": _field("Encrypt", "Yes unless set.", enum=["yes", "no", "strict"]),
        },
        "Microsoft Entra ID": {
            "authentication": _field(
                "Authentication",
                "The way in which the login gets its token. ActiveDirectoryDefault uses the identity that "
                "azure-identity finds; the others are the driver's. Login is the id of the application or of the "
                "managed identity.",
                enum=[
                    "ActiveDirectoryDefault",
                    "ActiveDirectoryMsi",
                    "ActiveDirectoryServicePrincipal",
                    "ActiveDirectoryPassword",
                    "ActiveDirectoryIntegrated",
                ],
            ),
            "access_token_conn_id": _field(
                "Access token from connection",
                "The id of an Airflow connection: its password is an access token, or, of type azure, it has tenant, "
                "client id and client secret. Its extra has sqlqueue_access_token: true. Leave Login and Password "
                "empty.",
            ),
        },
        "Addresses of queues": {
            "default_schema": _field("Default schema", "Of queues whose address names none."),
            "default_catalog": _field("Default catalog", "The database of queues whose address names none."),
            "queue_schemas": _json("Schemas of queues", '{"table": "schema"}'),
            "queue_catalogs": _json("Catalogs of queues", '{"table": "database"}'),
            "endpoint_schemas": _json("Schemas of endpoints", '{"Endpoint": "schema"}'),
            "endpoint_catalogs": _json("Catalogs of endpoints", '{"Endpoint": "database"}'),
            "transport_version": _field(
                "Transport version",
                "Set it only if addresses are those of endpoints of an old version.",
                enum=["1", "2", "3.0"],
            ),
            "delayed_suffix": _field(
                "Suffix of delayed tables", "The endpoints' table suffix of delayed delivery; Delayed unless set."
            ),
            "subscription_table": _field("Subscription table", "Its address; SubscriptionRouting unless set."),
            "allowed_catalogs": _field(
                "Allowed catalogs",
                "Databases that headers of messages may name, with commas; the default one unless set.",
            ),
            "allowed_schemas": _field(
                "Allowed schemas", "Schemas that headers of messages may name, with commas; all unless set."
            ),
            "ledger_schema": _field("Ledger schema", "Of the drain's ledger; sqlqueue unless set."),
        },
        "Driver and timeouts": {
            "login_timeout": _field("Login timeout", "Seconds; 15 unless set.", "integer", minimum=1),
            "lock_timeout": _field("Lock timeout", "Seconds a statement waits; 30 unless set.", "number", minimum=0),
            "application_intent": _field("Application intent", "", enum=["ReadWrite", "ReadOnly"]),
            "multi_subnet_failover": _field("Multi-subnet failover", "For availability group listeners.", "boolean"),
            "driver": _field("ODBC driver", "An installed one of Microsoft's; the newest unless set."),
            "keywords": _json("Further ODBC keywords", '{"KeepAlive": "30"}'),
        },
        "Connection string of .NET": {
            "connection_string": _field(
                "Connection string",
                "An endpoint's own: Server=...;Database=...;Queue Schema=... The other fields override it. Keep the "
                "password in the field Password: more people can see an extra.",
                format="password",
            ),
        },
    }
    return {
        name: {**field, "schema": {**field["schema"], "section": group}}
        for group, fields in groups.items()
        for name, field in fields.items()
    }


def _field(label: str, description: str, kind: str = "string", **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": [kind, "null"], **schema}}


def _json(label: str, example: str) -> dict[str, Any]:
    return _field(label, f"A JSON object, as {example}.", format="json")
