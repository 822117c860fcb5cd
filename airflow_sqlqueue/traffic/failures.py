"""The exceptions that send a message to the error queue, with the texts that recoverability writes into its headers.

Source: docs/transport/messages.md, "Header names". HelpLink is a JSON null, as .NET leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_sqlqueue.message import HeaderNames
from airflow_sqlqueue.traffic.shop import BILLING, SALES, SHIPPING, ShopEndpoint


@dataclass(frozen=True)
class ShopFailure:
    """An exception as an endpoint meets it; ``weight`` is its share among that endpoint's failures."""

    exception: str
    message: str
    source: str
    frame: str
    weight: float

    def headers(self, endpoint: ShopEndpoint, handler: str) -> dict[str, str | None]:
        """The headers that do not change from one failed message to the next."""
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
