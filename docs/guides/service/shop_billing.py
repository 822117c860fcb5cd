"""Handlers of the endpoint Shop.Billing."""

from airflow_sqlqueue import Message, MessageHandlers

handlers = MessageHandlers()


@handlers.handles("Shop.PlaceOrder")
def bill(message, client):
    order = message.json()
    if order["total"] < 0:
        raise ValueError("an order's total is below zero")
    client.queue("billing").send([Message({}, message.body)])


@handlers.batch("Shop.PageViewed", max_messages=500)
def store_views(messages, client):
    for message in messages:
        client.run_sql("INSERT INTO dbo.PageView (Page) VALUES (?)", message.json()["page"])


@handlers.default
def ignore(message):
    pass
