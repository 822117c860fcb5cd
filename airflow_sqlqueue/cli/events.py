"""Commands on events: subscribe, unsubscribe, subscriptions, publish."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_sqlqueue.cli.options import Common, ListOptions, MessageOptions
from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.options import option

Endpoint = Annotated[str, typer.Argument(help="The endpoint's name.")]
TypeName = Annotated[str, typer.Argument(help="The event's .NET type, with its namespace.")]
Table = Annotated[
    str | None, typer.Option("--table", help="The subscription table's address.", show_default="SubscriptionRouting")
]


def subscribe(
    endpoint: Endpoint,
    type_name: TypeName,
    common: Common,
    queue: str | None = option(None, "a queue other than the endpoint's own"),
    table: Table = None,
) -> None:
    """Subscribe an endpoint to the events of a type."""
    subscriptions = common.connect().subscriptions_in(table)
    changed = subscriptions.subscribe(endpoint, [type_name], queue_name=queue)
    address = subscriptions.queue_of(endpoint, queue)
    common.show({"endpoint": endpoint, "queue": address.canonical, "changed": bool(changed)})


def unsubscribe(endpoint: Endpoint, type_name: TypeName, common: Common, table: Table = None) -> None:
    """End an endpoint's subscription to a type."""
    changed = common.connect().subscriptions_in(table).unsubscribe(endpoint, [type_name])
    common.show({"endpoint": endpoint, "changed": bool(changed)})


def subscriptions(common: ListOptions, table: Table = None) -> None:
    """List the subscriptions of all endpoints."""
    found = common.connect().subscriptions_in(table)
    common.show([vars(subscription) for subscription in found.list()], title=found.address.canonical)


def publish(
    message: MessageOptions,
    common: Common,
    base_type: list[str] | None = option(
        None, "a base type or interface that endpoints may have subscribed to, any number of times"
    ),
    table: Table = None,
) -> None:
    """Publish one event to every subscriber."""
    event = message.message()
    subscriptions = common.connect().subscriptions_in(table)
    published = subscriptions.publish([message.message_type, *(base_type or [])], [event])
    common.show({"message_id": event.header(HeaderNames.MESSAGE_ID), "queues": list(published.queues)})


COMMANDS = (subscribe, unsubscribe, subscriptions, publish)
