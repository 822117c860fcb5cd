"""Rooms of the product for ``scripts/mutants.py``, each with its modules and its nearest tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    """Modules and statements that are changed, and the tests that stand nearest, the fastest first."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


def _sql(*names: str) -> tuple[str, ...]:
    return tuple(f"server/sql/{name}" for name in names)


def _unit(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/unit/test_{name}.py" for name in names)


def _contract(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/contract/test_{name}.py" for name in names)


def _airflow(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/airflow/test_{name}.py" for name in names)


def _spark(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/spark/test_{name}.py" for name in names)


_QUEUE = _contract(
    *("queue", "purge", "depth", "condition", "filters", "finding", "forward", "hold", "quarantine", "send_ledger"),
    *("outgoing", "contention", "new_copies", "large", "layouts", "long_texts"),
)
_DRAIN = _contract("drain", "stops", "drain_waits", "filtered_drain", "copying_drain", "table_stage", "new_copies")

ROOMS = {
    "address": Room(
        ("messages/address.py", "messages/routing.py"), (*_unit("address", "routing"), *_contract("names"))
    ),
    "message": Room(
        ("messages/__init__.py", "messages/message.py", "messages/row.py", "options/budget.py", "untrusted.py"),
        (*_unit("message", "row", "budget", "untrusted"), *_contract("queue")),
    ),
    "options": Room(
        ("options/__init__.py", "options/arguments.py", "options/secondary.py", "cli/commands.py"),
        (
            *_unit("options", "limits", "budget"),
            *("tests/airflow/test_operation_options.py", "tests/cli/test_own_options.py", "tests/cli/test_help.py"),
        ),
    ),
    "envelope": Room(
        ("messages/envelope/*.py",),
        (
            *_unit("envelope", "payloads", "times", "reply", "outgoing"),
            *_unit("message_types"),
            "tests/contract/endpoint/test_causation.py",
            "tests/contract/endpoint/test_tracing.py",
        ),
    ),
    "session": Room(
        ("server/session.py", "server/transactions.py", "server/reconnecting.py", "server/sql/session.sql"),
        (
            *_unit("session", "reconnecting"),
            *_contract("product", "transactions", "statement_errors", "contention", "long_texts"),
            "tests/contract/endpoint/test_modes.py",
            "tests/faults/test_killed_sessions.py",
            "tests/faults/test_transaction_lost.py",
            "tests/faults/test_connection_cut.py",
        ),
    ),
    "queue": Room(
        (
            "queue/*.py",
            *_sql("queue.sql", "quarantine.sql", "send_ledger.sql", "outgoing.sql", "copies.sql"),
            *_sql("columns.py", "narrowing.py", "__init__.py"),
        ),
        (
            *_unit("gaps", "query_names", "hints"),
            *_QUEUE,
            "tests/contract/batches/test_list.py",
            *_contract("drain", "redaction"),
        ),
    ),
    "drain": Room(
        ("drain/*.py", "drain/stages/*.py", "drain/storage/*.py", *_sql("ledger.sql", "message_table.sql")),
        (
            *_unit("worker_pool", "manifest", "batch_reader", "storage", "hints"),
            *_DRAIN,
            "tests/contract/batches",
            *_contract("file_permissions", "large", "redaction", "upgrades", "streams"),
            "tests/faults/test_staging.py",
            "tests/faults/test_processes.py",
            "tests/faults/test_model.py",
            "tests/faults/test_erase.py",
            "tests/airflow/test_stranded.py",
        ),
    ),
    "delayed": Room(
        ("queue/delayed/*.py", *_sql("delayed.sql")),
        (*_contract("delayed"), "tests/contract/mover", *_unit("hints")),
    ),
    "errors": Room(
        ("queue/errors/*.py", *_sql("errors.sql", "error_archive.sql")),
        (
            *_unit("error_queue", "hints"),
            *_contract("error_queue"),
            "tests/contract/return_to_source",
            "tests/contract/failures",
            "tests/faults/test_poison.py",
        ),
    ),
    "endpoint": Room(
        ("endpoint/*.py", *_sql("inbox.sql")),
        (
            *_unit("recoverability", "message_handlers", "outgoing", "hints", "consumer", "limits"),
            *_contract("hold"),
            "tests/contract/endpoint",
            "tests/faults/test_consuming.py",
            "tests/faults/test_consuming_cut.py",
        ),
    ),
    "tables": Room(
        ("queue/tables/*.py", *_sql("create.sql")),
        (*_unit("layout", "table", "hints"), *_contract("create", "discovery", "layouts", "inspection", "own_tables")),
    ),
    "publishing": Room(
        ("queue/publishing/*.py", *_sql("subscription.sql", "reply_queue.sql")),
        (*_unit("hints"), *_contract("subscriptions", "conversation"), "tests/cli/test_conversation.py"),
    ),
    "inspection": Room(
        ("queue/inspection/*.py", *_sql("inspect.sql", "overview.sql", "fix.sql")),
        (*_unit("findings", "health", "hints"), *_contract("inspection", "overview", "discovery", "own_tables")),
    ),
    "payloads": Room(
        ("endpoint/databus/*.py",),
        (
            *_unit("data_bus", "batch_payloads", "payloads"),
            *("tests/contract/endpoint/test_payloads.py", "tests/contract/batches/test_payloads.py"),
            *("tests/stores/test_data_bus.py", "tests/faults/test_payloads.py"),
        ),
    ),
    "bodies": Room(
        ("bodies/*.py", "bodies/redaction/*.py"),
        (
            *_unit("redaction", "redaction_actions", "redaction_leaks"),
            *("tests/bodies", "tests/stores/test_schemas.py", "tests/spark/test_rewriting.py"),
        ),
    ),
    "connection": Room(
        (
            *("server/[!rst]*.py", "server/settings.py", "server/translation.py", "threads.py"),
            *_sql("stream.sql"),
        ),
        (
            *_unit("connection", "connection_string", "entra", "libraries", "browser", "permissions", "cursors"),
            *_contract("access_tokens", "named_instance", "forks", "permissions", "product", "statement_errors"),
            *_contract("own_tables"),
            "tests/airflow/test_access_token.py",
        ),
    ),
    "client": Room(
        ("client/*.py", "client/schemas/*.py"),
        (
            *_contract("client", "own_tables", "subscriptions", "streams", "error_queue"),
            *("tests/bodies/test_schemas.py", "tests/stores/test_schemas.py", "tests/contract/failures"),
            *("tests/contract/batches", "tests/cli"),
        ),
    ),
    "spark": Room(
        ("spark/*.py", "spark/source/*.py", "spark/jobs/*.py"),
        (
            *_unit("spark_messages"),
            *_contract("spark_source"),
            *_spark("manifests", "secrets", "batch", "bodies", "parse_bodies", "payloads", "table_batch", "executors"),
            *_spark("jobs", "replay", "source", "source_send", "session", "leaks"),
        ),
    ),
    "sinks": Room(
        ("spark/message_tables/*.py", "spark/sinks/*.py"),
        _spark(
            *("chunks", "columns", "small_tables", "partitions", "message_tables", "rewriting", "retention"),
            *("table_times", "table_reports"),
        ),
    ),
    "hooks": Room(
        ("hooks/*.py", "assets/*.py"),
        (
            *_unit("connection", "task_errors", "staging_locations", "arguments"),
            *_airflow("hook", "access_token", "extra_as_arguments", "lookups", "mssql_hook", "settings"),
            *_airflow("retry_policy", "lineage", "stores", "spark_target", "live_hook", "live_transactions"),
            *_airflow("repaired_connection", "assets"),
        ),
    ),
    "operators": Room(
        ("operators/*.py", "sensors/*.py", "decorators/*.py", "notifications/*.py"),
        (
            *_unit("task_errors", "progress"),
            *_airflow("operation_options", "operators", "error_queue_operators", "rendered", "metrics", "lineage"),
            *_airflow("progress", "notifier", "redaction", "request", "return_to_source", "deferring"),
            *_airflow("live_batches", "live_consume", "live_delayed", "live_drain", "live_operators", "live_payloads"),
            *_airflow("live_provisioning", "live_python_drain", "live_routing", "live_sensor", "stranded"),
            *_airflow("stranded_sensor", "waiting_drain", "ended_drain", "spark_application", "large_manifest"),
        ),
    ),
    "triggers": Room(
        ("triggers/*.py", "queues/*.py"),
        _airflow(
            *("trigger_arguments", "live_triggers", "live_message_trigger", "message_queues", "server_away"),
            *("deferring", "runs_per_message", "request", "stranded_sensor"),
        ),
    ),
    "plugin": Room(("plugin/*.py", "plugin/api/*.py"), ("tests/airflow/plugin",)),
    "commands": Room(("cli/[!c]*.py", "cli/consume.py"), (*_unit("health", "plan_readers"), "tests/cli")),
    "traffic": Room(("traffic/*.py", "versions/*.py"), (*_unit("versions", "jars"), "tests/traffic", "tests/cli")),
}
