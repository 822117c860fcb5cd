"""Commands on subscriptions: subscribe, unsubscribe, subscriptions, publish."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated, Optional

import typer

from airflow_sqlqueue.cli.message_options import Body, ContentType, HeaderOption, MessageType, message_from_options
from airflow_sqlqueue.cli.options import ConnId, Json, Url
from airflow_sqlqueue.cli.output import show
from airflow_sqlqueue.cli.target import Target
from airflow_sqlqueue.message import HeaderNames
from airflow_sqlqueue.publishing.subscriptions import SubscriptionTable
from airflow_sqlqueue.publishing.subscriptions import publish as publish_to
from airflow_sqlqueue.tables.create import SUBSCRIPTION_TABLE
from airflow_sqlqueue.tables.discovery import find_queue

Endpoint = Annotated[str, typer.Argument(help="The endpoint's name.")]
TypeName = Annotated[str, typer.Argument(help="The event's .NET type, with its namespace.")]
Table = Annotated[str, typer.Option("--table", help="The subscription table's address.")]


@contextmanager
def _subscription_table(target: Target, address: str) -> Iterator[SubscriptionTable]:
    table = target.resolver.resolve(address)
    with closing(target.connect()) as session:
        yield SubscriptionTable(session, table)


def subscribe(
    endpoint: Endpoint,
    type_name: TypeName,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    queue: Annotated[Optional[str], typer.Option(help="Another queue than the endpoint's.")] = None,  # noqa: UP045
    table: Table = SUBSCRIPTION_TABLE,
) -> None:
    """Let an endpoint have the events of a type."""
    target = Target.of(url, conn_id)
    with _subscription_table(target, table) as subscriptions:
        address = (
            target.resolver.resolve_endpoint(endpoint)
            if queue is None
            else find_queue(subscriptions.session, target.resolver, queue)
        )
        changed = subscriptions.subscribe(type_name, endpoint, address)
    show({"endpoint": endpoint, "queue": address.canonical, "changed": changed}, as_json=as_json)


def unsubscribe(
    endpoint: Endpoint,
    type_name: TypeName,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    table: Table = SUBSCRIPTION_TABLE,
) -> None:
    """End an endpoint's subscription to a type."""
    with _subscription_table(Target.of(url, conn_id), table) as subscriptions:
        changed = subscriptions.unsubscribe(type_name, endpoint)
    show({"endpoint": endpoint, "changed": changed}, as_json=as_json)


def subscriptions(
    url: Url = None, conn_id: ConnId = None, as_json: Json = False, table: Table = SUBSCRIPTION_TABLE
) -> None:
    """List who has subscribed to what."""
    with _subscription_table(Target.of(url, conn_id), table) as found:
        records = [vars(subscription) for subscription in found.subscriptions()]
    show(records, as_json=as_json, title=found.address.canonical)


def publish(
    message_type: MessageType,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    base_type: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads the annotation at run time, on Python 3.10 too
        typer.Option(help="A base type or interface that subscribers may have asked for, any number of times."),
    ] = None,
    body: Body = "",
    header: HeaderOption = None,
    content_type: ContentType = "application/json",
    table: Table = SUBSCRIPTION_TABLE,
) -> None:
    """Publish one event to everybody who has subscribed to it."""
    message = message_from_options(body, header, content_type, message_type)
    target = Target.of(url, conn_id)
    with _subscription_table(target, table) as subscriptions:
        published = publish_to(subscriptions, target.resolver, [message], [message_type, *(base_type or [])])
    values = {"message_id": message.header(HeaderNames.MESSAGE_ID), "queues": list(published.queues)}
    show(values, as_json=as_json)
