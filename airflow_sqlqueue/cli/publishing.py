"""Commands on subscriptions: subscribe, unsubscribe, subscriptions, publish."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from airflow_sqlqueue.cli.message_options import Body, ContentType, HeaderOption, MessageType, message_from_options
from airflow_sqlqueue.cli.options import ConnId, Json, Url, connect
from airflow_sqlqueue.cli.output import show
from airflow_sqlqueue.message import HeaderNames
from airflow_sqlqueue.tables.create import SUBSCRIPTION_TABLE

Endpoint = Annotated[str, typer.Argument(help="The endpoint's name.")]
TypeName = Annotated[str, typer.Argument(help="The event's .NET type, with its namespace.")]
Table = Annotated[str, typer.Option("--table", help="The subscription table's address.")]


def subscribe(
    endpoint: Endpoint,
    type_name: TypeName,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    queue: Annotated[Optional[str], typer.Option(help="Another queue than the endpoint's.")] = None,
    table: Table = SUBSCRIPTION_TABLE,
) -> None:
    """Let an endpoint have the events of a type."""
    subscriptions = connect(url, conn_id).subscriptions_in(table)
    changed = subscriptions.subscribe(endpoint, [type_name], queue_name=queue)
    address = subscriptions.queue_of(endpoint, queue)
    show({"endpoint": endpoint, "queue": address.canonical, "changed": bool(changed)}, as_json=as_json)


def unsubscribe(
    endpoint: Endpoint,
    type_name: TypeName,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    table: Table = SUBSCRIPTION_TABLE,
) -> None:
    """End an endpoint's subscription to a type."""
    changed = connect(url, conn_id).subscriptions_in(table).unsubscribe(endpoint, [type_name])
    show({"endpoint": endpoint, "changed": bool(changed)}, as_json=as_json)


def subscriptions(
    url: Url = None, conn_id: ConnId = None, as_json: Json = False, table: Table = SUBSCRIPTION_TABLE
) -> None:
    """List who has subscribed to what."""
    found = connect(url, conn_id).subscriptions_in(table)
    records = [vars(subscription) for subscription in found.list()]
    show(records, as_json=as_json, title=found.address.canonical)


def publish(
    message_type: MessageType,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    base_type: Annotated[
        Optional[list[str]],
        typer.Option(help="A base type or interface that subscribers may have asked for, any number of times."),
    ] = None,
    body: Body = "",
    header: HeaderOption = None,
    content_type: ContentType = "application/json",
    table: Table = SUBSCRIPTION_TABLE,
) -> None:
    """Publish one event to every subscriber."""
    message = message_from_options(body, header, content_type, message_type)
    subscriptions = connect(url, conn_id).subscriptions_in(table)
    published = subscriptions.publish([message_type, *(base_type or [])], [message])
    values = {"message_id": message.header(HeaderNames.MESSAGE_ID), "queues": list(published.queues)}
    show(values, as_json=as_json)
