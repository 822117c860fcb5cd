"""The shop of the generated traffic: endpoints, their failures, messages, and the conversations of messages.

Sales takes an order, waits until the buyer can no longer cancel it, and sends commands to Billing and Shipping. Each
subscriber handles a published event, so one event leaves several audit rows with one message id.

Source: docs/transport/messages.md, "Header names", for what the headers mean.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_sqlqueue.messages.message import HeaderNames


@dataclass(frozen=True)
class ShopEndpoint:
    """A logical endpoint. ``failure_rate`` is the share of its messages that end in the error queue."""

    name: str
    content_type: str
    version: str
    machines: tuple[str, ...]
    failure_rate: float = 0.0

    @property
    def address(self) -> str:
        """The transport address of the endpoint's queue."""
        return f"{self.name}@[dbo]@[shop]"


@dataclass(frozen=True)
class ShopFailure:
    """An exception of an endpoint; ``weight`` is its share of that endpoint's failures."""

    exception: str
    message: str
    source: str
    frame: str
    weight: float

    def headers(self, endpoint: ShopEndpoint, handler: str) -> dict[str, str | None]:
        """Return the headers of this failure that are the same in all messages."""
        stack = (
            f"{self.exception}: {self.message}\r\n   at {self.frame}\r\n"
            f"   at Shop.{endpoint.name}.{handler}.Handle({handler.removesuffix('Handler')} message, "
            f"IMessageHandlerContext context) in C:\\build\\Shop.{endpoint.name}\\{handler}.cs:line 42\r\n"
            "   at NServiceBus.InvokeHandlerTerminator.Terminate(IInvokeHandlerContext context)\r\n"
            "   at NServiceBus.LoadHandlersConnector.Invoke(IIncomingLogicalMessageContext context, Func`2 stage)\r\n"
            "   at NServiceBus.MainPipelineExecutor.Invoke(MessageContext messageContext, CancellationToken token)"
        )
        return {
            HeaderNames.FAILED_Q: endpoint.address,
            HeaderNames.EXCEPTION_TYPE: self.exception,
            HeaderNames.EXCEPTION_MESSAGE: self.message,
            HeaderNames.EXCEPTION_SOURCE: self.source,
            HeaderNames.EXCEPTION_STACK_TRACE: stack,
            HeaderNames.EXCEPTION_HELP_LINK: None,
            "NServiceBus.ExceptionInfo.Data.Message type": handler.removesuffix("Handler"),
        }


@dataclass(frozen=True)
class MessageType:
    """A message type. ``size`` scales the random size of its bodies (1 is a mean of about 2 KB)."""

    name: str
    owner: str
    marker: str = ""
    size: float = 1.0
    expires: bool = False

    @property
    def full_name(self) -> str:
        """The .NET name with its namespace, as in reports."""
        return f"Shop.{self.owner}.Contracts.{self.name}"

    @property
    def enclosed(self) -> str:
        """``NServiceBus.EnclosedMessageTypes``: assembly-qualified names, the most derived first."""
        rest = f"Shop.{self.owner}.Contracts, Version=3.1.0.0, Culture=neutral, PublicKeyToken=null"
        marker = f";Shop.Contracts.{self.marker}, {rest.replace(f'Shop.{self.owner}', 'Shop')}" if self.marker else ""
        return f"{self.full_name}, {rest}{marker}"


@dataclass(frozen=True)
class Handling:
    """A receiver of a step: its processing time is log-normal with this median (ms) and spread (of the logarithm)."""

    endpoint: ShopEndpoint
    median_ms: float
    spread: float = 0.6


@dataclass(frozen=True)
class Step:
    """A message of a conversation, sent by ``sender`` during the handling of the step ``cause`` (None: the first step).

    ``delay_s`` delays the message, as the timeout of a saga. ``message`` is None for a control message.
    """

    message: MessageType | None
    intent: str
    sender: ShopEndpoint
    handlings: tuple[Handling, ...]
    cause: int | None = None
    delay_s: float = 0.0
    saga: bool = False


STOREFRONT = ShopEndpoint("Storefront", "application/json", "9.2.3", ("WEB-01", "WEB-02", "WEB-KÖLN-03"))
SALES = ShopEndpoint("Sales", "application/json", "9.2.3", ("SALES-01", "SALES-02"), 0.006)
BILLING = ShopEndpoint("Billing", "text/xml", "7.8.4", ("BILLING-01",), 0.018)
SHIPPING = ShopEndpoint("Shipping", "application/json; systemjson", "9.1.0", ("SHIP-01", "SHIP-ŁÓDŹ-02"), 0.011)

FAILURES: dict[ShopEndpoint, tuple[ShopFailure, ...]] = {
    SALES: (
        ShopFailure(
            "Microsoft.Data.SqlClient.SqlException",
            "Transaction (Process ID 71) was deadlocked on lock resources with another process and has been chosen as "
            "the deadlock victim. Rerun the transaction.",
            "Core Microsoft SqlClient Data Provider",
            "Microsoft.Data.SqlClient.SqlCommand.<>c.<ExecuteDbDataReaderAsync>b__211_0(Task`1 result)",
            0.6,
        ),
        ShopFailure(
            "System.InvalidOperationException",
            "The order is already \u201ccancelled\u201d and cannot be placed again.",
            "Shop.Sales",
            "Shop.Sales.OrderSaga.EnsureOpen() in C:\\build\\Shop.Sales\\OrderSaga.cs:line 118",
            0.4,
        ),
    ),
    BILLING: (
        ShopFailure(
            "System.Net.Http.HttpRequestException",
            "Response status code does not indicate success: 503 (Service Unavailable).",
            "System.Net.Http",
            "System.Net.Http.HttpResponseMessage.EnsureSuccessStatusCode()",
            0.55,
        ),
        ShopFailure(
            "System.TimeoutException",
            "The payment provider did not answer within 00:00:30.",
            "Shop.Billing",
            "Shop.Billing.PaymentGateway.<ChargeAsync>d__7.MoveNext() in C:\\build\\Shop.Billing\\Gateway.cs:line 63",
            0.35,
        ),
        ShopFailure(
            "NServiceBus.MessageDeserializationException",
            "An error occurred while attempting to extract logical messages from incoming physical message.",
            "NServiceBus.Core",
            "NServiceBus.DeserializeMessageConnector.ExtractWithExceptionHandling(IncomingMessage message)",
            0.10,
        ),
    ),
    SHIPPING: (
        ShopFailure(
            "System.Threading.Tasks.TaskCanceledException",
            "The request was canceled due to the configured HttpClient.Timeout of 100 seconds elapsing.",
            "System.Private.CoreLib",
            "System.Net.Http.HttpClient.HandleFailure(Exception e, Boolean telemetryStarted)",
            0.5,
        ),
        ShopFailure(
            "System.ArgumentException",
            "No carrier serves the postcode \u2018\u00d8-2100 <K\u00f8benhavn>\u2019. (Parameter 'address')",
            "Shop.Shipping",
            "Shop.Shipping.Carriers.Find(Address address) in C:\\build\\Shop.Shipping\\Carriers.cs:line 27",
            0.5,
        ),
    ),
}
"""Failures of each endpoint. HelpLink is a JSON null, as .NET leaves it."""

PLACE_ORDER = MessageType("PlaceOrder", "Sales", size=1.6)
ORDER_PLACED = MessageType("OrderPlaced", "Sales", "IOrderEvent", size=1.3)
REMORSE_OVER = MessageType("BuyersRemorseIsOver", "Sales", size=0.4)
BILL_ORDER = MessageType("BillOrder", "Billing", size=0.9)
PAYMENT_ACCEPTED = MessageType("PaymentAccepted", "Billing", size=0.5)
ORDER_BILLED = MessageType("OrderBilled", "Billing", "IOrderEvent", size=0.9)
SHIP_ORDER = MessageType("ShipOrder", "Shipping", size=1.2)
SHIPMENT_BOOKED = MessageType("ShipmentBooked", "Shipping", size=0.6)
ORDER_SHIPPED = MessageType("OrderShipped", "Shipping", "IOrderEvent", size=1.1)
CANCEL_ORDER = MessageType("CancelOrder", "Sales", size=0.4)
ORDER_CANCELLED = MessageType("OrderCancelled", "Sales", "IOrderEvent", size=0.8)
REFUND_PAYMENT = MessageType("RefundPayment", "Billing", size=0.5)
PAYMENT_REFUNDED = MessageType("PaymentRefunded", "Billing", size=0.5)
STOCK_CHANGED = MessageType("StockLevelChanged", "Shipping", size=1.0, expires=True)

ORDER: tuple[Step, ...] = (
    Step(PLACE_ORDER, "Send", STOREFRONT, (Handling(SALES, 22),)),
    Step(ORDER_PLACED, "Publish", SALES, (Handling(BILLING, 14), Handling(SHIPPING, 9)), cause=0),
    Step(REMORSE_OVER, "Send", SALES, (Handling(SALES, 6, 0.4),), cause=0, delay_s=1200, saga=True),
    Step(BILL_ORDER, "Send", SALES, (Handling(BILLING, 260, 0.85),), cause=2, saga=True),
    Step(PAYMENT_ACCEPTED, "Reply", BILLING, (Handling(SALES, 8, 0.5),), cause=3, saga=True),
    Step(ORDER_BILLED, "Publish", BILLING, (Handling(SALES, 11), Handling(SHIPPING, 16)), cause=3),
    Step(SHIP_ORDER, "Send", SALES, (Handling(SHIPPING, 95, 0.9),), cause=5, saga=True),
    Step(SHIPMENT_BOOKED, "Reply", SHIPPING, (Handling(SALES, 7, 0.5),), cause=6, saga=True),
    Step(ORDER_SHIPPED, "Publish", SHIPPING, (Handling(SALES, 12),), cause=6),
)
CANCELLATION: tuple[Step, ...] = (
    Step(CANCEL_ORDER, "Send", STOREFRONT, (Handling(SALES, 15),)),
    Step(ORDER_CANCELLED, "Publish", SALES, (Handling(BILLING, 18), Handling(SHIPPING, 21)), cause=0),
    Step(REFUND_PAYMENT, "Send", SALES, (Handling(BILLING, 340, 0.95),), cause=0),
    Step(PAYMENT_REFUNDED, "Reply", BILLING, (Handling(SALES, 8, 0.5),), cause=2),
)
STOCK_TAKE: tuple[Step, ...] = (Step(STOCK_CHANGED, "Publish", SHIPPING, (Handling(SALES, 4, 0.5),)),)
SUBSCRIPTION: tuple[Step, ...] = (Step(None, "Subscribe", SHIPPING, (Handling(SALES, 3, 0.4),)),)

FLOWS: tuple[tuple[float, tuple[Step, ...]], ...] = (
    (0.678, ORDER),
    (0.150, CANCELLATION),
    (0.168, STOCK_TAKE),
    (0.004, SUBSCRIPTION),
)
"""Share of each conversation. StockLevelChanged, the only type with a time to be received, makes 2% of the rows."""

LONGEST_CONVERSATION_S = 45 * 60
"""Longest conversation: :mod:`airflow_sqlqueue.traffic.generate` caps waits, processing times and retries."""
