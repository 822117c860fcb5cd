"""Addresses in requests of the page: none leads to a database that the connection does not name."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import uuid
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, get_args, get_type_hints

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from pydantic import BaseModel

from airflow_sqlqueue import AddressResolver, ConnectionSettings, QueueClient, plugin
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.plugin import action_tokens
from airflow_sqlqueue.plugin.action_tokens import ActionRequest
from airflow_sqlqueue.plugin.addresses import Address, address_of, catalogs_of
from airflow_sqlqueue.plugin.responses import RequestBody
from airflow_sqlqueue.queue.errors.actions import ACTIONS
from tests.airflow.plugin.actions import execute

pytestmark = pytest.mark.airflow

CONNECTION = "api/connections/sqlqueue_default"

for _module in pkgutil.walk_packages(plugin.__path__, f"{plugin.__name__}."):
    importlib.import_module(_module.name)

NO_ADDRESSES = {
    "ActionRequest.action",
    "ActionRequest.batch_id",
    "ActionRequest.by",
    "ActionRequest.connection",
    "ActionRequest.group",
    "ActionRequest.holder",
    "ActionRequest.reason",
    "ConversationQuery.conversation_id",
    "Edit.body",
    "Edit.headers",
    "FailuresQuery.group",
    "FailuresQuery.group_by",
    "HeaderQuery.name",
    "HeaderQuery.value",
    "MessagesQuery.group",
    "MessagesQuery.group_by",
    "MessagesQuery.id",
    "MessagesQuery.message_type",
    "PreviewRequest.action",
    "PreviewRequest.group",
    "PreviewRequest.group_by",
    "PreviewRequest.reason",
    "StartRequest.token",
}
"""Fields with text that is no address of a queue. An address has the type of one."""


def all_below(kind: type) -> set[type]:
    return {each for child in kind.__subclasses__() for each in ({child} | all_below(child))}


def models() -> set[type]:
    """The models of all requests, those inside of them, and the order that a request becomes."""
    ours = {each for each in all_below(BaseModel) if each.__module__.startswith("airflow_sqlqueue.plugin")}
    return (ours - {RequestBody}) | {ActionRequest}


def types_in(hint: Any) -> set[Any]:
    """All types that a hint is made of."""
    return {hint}.union(*(types_in(each) for each in get_args(hint)))


def hints_of(model: Any) -> dict[str, Any]:
    """The fields of a model or a dataclass, with their types."""
    if model is ActionRequest:
        return get_type_hints(ActionRequest)
    return {name: field.annotation for name, field in model.model_fields.items()}


def fields_with(kind: type) -> set[str]:
    return {
        f"{model.__name__}.{name}"
        for model in models()
        for name, hint in hints_of(model).items()
        if kind in types_in(hint)
    }


def test_each_field_of_a_request_with_text_is_an_address_or_is_on_the_list() -> None:
    """Whoever adds a field to a request decides: an address has the type of one, and is refused below by itself."""
    assert fields_with(str) == NO_ADDRESSES
    assert fields_with(Address) == {*REQUESTS, "ActionRequest.queue", "ActionRequest.to_queue"}


@pytest.fixture
def elsewhere(hook: SqlQueueHook, queue_name: str) -> Iterator[Callable[[str], list[str]]]:
    """Spellings of a queue of another database, which the login reaches and the connection does not name."""
    run = hook.client.run_sql
    run("CREATE DATABASE [test_elsewhere]")
    hook.client.tables.create("payments@[dbo]@[test_elsewhere]")
    hook.client.tables.create("payments.error@[dbo]@[test_elsewhere]")
    run("CREATE SYNONYM [dbo].[innocent] FOR [test_elsewhere].[dbo].[payments]")
    yield lambda: [
        "payments@[dbo]@[test_elsewhere]",
        "PAYMENTS@dbo@TEST_ELSEWHERE",
        " payments@[dbo]@[Test_Elsewhere]",
        "none@[dbo]@[test_elsewhere]",
        "x@[dbo]@[no_such_database]",
        "innocent",
        "Innocent@[dbo]",
    ]
    assert hook.depth("payments@[dbo]@[test_elsewhere]").messages == 0
    run("DROP SYNONYM [dbo].[innocent]")
    run("DROP DATABASE [test_elsewhere]")


@pytest.fixture
def failed(hook: SqlQueueHook, queue_name: str) -> int:
    """The RowVersion of a failed message."""
    hook.send(queue_name, [Message({HeaderNames.FAILED_Q: queue_name, HeaderNames.EXCEPTION_TYPE: "Lost"}, b"x")])
    with hook.queue(queue_name).open() as table:
        return int(table.peek(1)[0].row_version)


TO_A_QUEUE = [action.name for action in ACTIONS.values() if "to_queue" in action.needs]

Asked = tuple[str, dict[str, Any]]
"""Path and body of a request."""


def to_a_queue(action: str) -> Callable[[str, int, str], Asked]:
    return lambda queue, row, address: (
        f"{CONNECTION}/actions/preview",
        {"action": action, "queue": queue, "row_versions": [row], "to_queue": address},
    )


def on_a_queue(action: str) -> Callable[[str, int, str], Asked]:
    return lambda queue, row, address: (
        f"{CONNECTION}/actions/preview",
        {"action": action, "queue": address, "row_versions": [row]},
    )


def edit(dry_run: bool) -> Callable[[str, int, str], Asked]:
    return lambda queue, row, address: (
        f"{CONNECTION}/queues/{queue}/messages/{row}/edit",
        {"body": "forged", "to_queue": address, "dry_run": dry_run},
    )


def failures(archived: bool) -> Callable[[str, int, str], Asked]:
    return lambda queue, row, address: (f"{CONNECTION}/failures", {"queue": address, "archived": archived})


def sweep(queue: str, row: int, address: str) -> Asked:
    return f"{CONNECTION}/actions/preview", {"action": "sweep", "queue": address}


REQUESTS: dict[str, list[Callable[[str, int, str], Asked]]] = {
    "Edit.to_queue": [edit(True), edit(False)],
    "PreviewRequest.to_queue": [to_a_queue(action) for action in TO_A_QUEUE],
    "PreviewRequest.queue": [on_a_queue(action) for action in ACTIONS if action not in TO_A_QUEUE],
    "FailuresQuery.queue": [failures(False), failures(True)],
}
"""Requests with an address in each field that has one."""


def test_no_field_of_a_request_leads_to_another_database(
    page: Any, hook: SqlQueueHook, queue_name: str, failed: int, elsewhere: Any
) -> None:
    for make in (make for makes in REQUESTS.values() for make in makes):
        for address in elsewhere():
            path, body = make(queue_name, failed, address)
            answer = page("POST", path, json=body)
            assert answer.status_code == 403, (path, body, answer.text)
            assert "does not name the database" in answer.json()["detail"]
    assert hook.depth(queue_name).messages == 1


def test_a_sweep_is_of_a_database_that_is_shown(page: Any, live: str, elsewhere: Any) -> None:
    for address in elsewhere()[:5]:
        path, body = sweep("", 0, address)
        assert page("POST", path, json=body).status_code == 403


def test_no_path_leads_to_another_database(page: Any, live: str, elsewhere: Any, monkeypatch: Any) -> None:
    from airflow_sqlqueue.plugin.app import the_app

    monkeypatch.setenv("AIRFLOW__SQLQUEUE__PAGE_SHOW_BODIES", "True")
    paths = [route for route in the_app().routes if "{address}" in getattr(route, "path", "")]
    assert len(paths) == 4
    for route in paths:
        (method,) = route.methods
        for address in elsewhere():
            path = route.path.lstrip("/").format(conn_id="sqlqueue_default", address=address, row_version=1)
            answer = page(
                method, path, **({"json": {"body": "x"} if "edit" in path else {}} if method == "POST" else {})
            )
            assert answer.status_code == 403, (path, answer.text)


def test_no_signed_order_leads_to_another_database(
    hook: SqlQueueHook, queue_name: str, failed: int, elsewhere: Any, dag: Any
) -> None:
    """A synonym, or the connection, may be another one by the time that the run begins."""
    for action, field, address in product(("redirect", "park"), ("queue", "to_queue"), elsewhere()):
        request = ActionRequest(action, "sqlqueue_default", 1, Address(queue_name), to_queue=Address(queue_name))
        request = dataclasses.replace(request, row_versions=(failed,), **{field: Address(address)})
        run_id = f"sqlqueue__{uuid.uuid4()}"
        with pytest.raises(AirflowFailException, match="does not name the database"):
            execute(dag, run_id, {"order": action_tokens.signed(request, run_id, "order")})
    assert hook.depth(queue_name).messages == 1


def test_the_databases_of_the_settings_are_named_once_and_without_brackets() -> None:
    resolver = AddressResolver(
        queue_catalogs={"audit": "[old shop]"},
        endpoint_catalogs={"Sales": "[Old Shop]", "Web": ""},
        allowed_catalogs=["shop", "[Old Shop]"],
    )
    client = QueueClient(ConnectionSettings("localhost", "Shop"), resolver)
    assert catalogs_of(client) == ["Shop", "old shop"]
    assert address_of(client, "audit").catalog == "old shop"


def test_a_database_that_the_connection_names_is_open_to_all_of_them(
    page: Any, post: Any, hook: SqlQueueHook, queue_name: str, failed: int, elsewhere: Any, connection: Any, server: Any
) -> None:
    """The counterpart, without which the tests above could pass for another reason."""
    from bench_setting import connection_fields

    from airflow_sqlqueue.server.settings import ConnectionSettings

    settings = ConnectionSettings.from_url(server.url("sqlqueue"))
    extra = {"encrypt": "yes", "trust_server_certificate": True, "allowed_catalogs": ["test_elsewhere"]}
    connection(**connection_fields(settings), extra=extra)
    for action in TO_A_QUEUE:
        path, body = to_a_queue(action)(queue_name, failed, "innocent")
        assert post(path, body)["messages"] == 1
    path, body = edit(True)(queue_name, failed, "payments@[dbo]@[test_elsewhere]")
    assert "would go to payments@[dbo]@[test_elsewhere]" in post(path, body)["sentence"]
