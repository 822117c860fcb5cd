"""Message tables of a batch, and a question about the shop that Spark SQL answers from two of them.

The question: how much was ordered in each hour, and how much of it was paid?
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue import Batch
from airflow_sqlqueue.spark import message_tables_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[dict[str, Any]]

ORDERS, PAYMENTS = "Shop.Sales.Contracts.PlaceOrder", "Shop.Billing.Contracts.PaymentAccepted"
NEEDED = {"OrderId", "OccurredAt", "Total"}

# An order that failed was not placed. A total in another form, such as "12.50 EUR", is in _rescued. There is a limit of
# hours because bodies can have any times.
QUESTION = """
WITH placed AS (
  SELECT OrderId, floor(unix_seconds(OccurredAt) / 3600) AS hour,
         coalesce(string(Total), get_json_object(_rescued, '$.Total')) AS total
  FROM {orders} WHERE failed_queue IS NULL
)
SELECT hour, count(*) AS orders, count(paid.OrderId) AS paid_orders,
       coalesce(sum(amount), 0) AS ordered, coalesce(sum(amount) FILTER (WHERE paid.OrderId IS NOT NULL), 0) AS paid
FROM (SELECT OrderId, hour, try_cast(replace(total, ' EUR') AS DECIMAL(18, 2)) AS amount FROM placed) AS placed
LEFT JOIN (SELECT DISTINCT OrderId FROM {payments}) AS paid USING (OrderId)
WHERE hour IS NOT NULL GROUP BY hour ORDER BY orders DESC, hour LIMIT 500
"""


@dataclass(frozen=True)
class ShopTables:
    """Message tables of a batch.

    :param result: the result of ``message_tables_job``.
    :param tables: per message type ``name`` (None without a type), ``rows``, ``columns``, ``unparsed``, ``rescued`` and
        ``new_fields``, the largest table first.
    :param revenue: per ``hour`` (whole hours since 1970, UTC): ``orders``, ``paid_orders``, and ``ordered`` and
        ``paid`` in euros.
    """

    result: dict[str, Any]
    tables: Rows
    revenue: Rows


def write_shop_tables(spark: SparkSession, batch: Batch, location: str, schemas: str | None = None) -> ShopTables:
    """Write the message tables of a batch to ``location``, and answer the question from them."""
    result = message_tables_job(spark, batch, location, schemas=schemas)
    written = [each for each in result["largest"] if not each["is_unparsed"]]
    # In parallel, because a read of one table keeps the driver busy and the executors idle.
    with ThreadPoolExecutor(4) as pool:
        read = pool.map(lambda each: spark.read.parquet(f"{each['table']}/batch_id={batch.batch_id}"), written)
        frames = dict(zip((each["table"] for each in written), read, strict=True))
    by_type = {each["message_type"]: frames[each["table"]] for each in written}
    return ShopTables(result, _by_type(result["largest"], frames), _revenue(spark, by_type))


def _by_type(found: Rows, frames: dict[str, DataFrame]) -> Rows:
    """Return a row for each type, of its table and the table of its unparsed messages."""
    rows: dict[str | None, dict[str, Any]] = {}
    for each in found:
        empty = {"rows": 0, "columns": 0, "unparsed": 0, "rescued": 0, "new_fields": []}
        row = rows.setdefault(each["message_type"], {"name": each["message_type"], **empty})
        row["unparsed" if each["is_unparsed"] else "rows"] += each["messages"]
        row["rescued"] += each["rescued"]
        if not each["is_unparsed"]:
            row |= {"columns": len(frames[each["table"]].columns), "new_fields": each["new_fields"]}
    return sorted(rows.values(), key=lambda row: -row["rows"])


def _revenue(spark: SparkSession, tables: dict[str | None, DataFrame]) -> Rows:
    """Return the answer by hour; empty for a batch without orders and payments."""
    orders, payments = tables.get(ORDERS), tables.get(PAYMENTS)
    if orders is None or payments is None or not NEEDED.issubset(orders.columns) or "OrderId" not in payments.columns:
        return []
    found = [row.asDict() for row in spark.sql(QUESTION, orders=orders, payments=payments).collect()]
    amounts = ("ordered", "paid")
    return sorted(
        ({**row, **{name: float(row[name]) for name in amounts}} for row in found), key=lambda row: row["hour"]
    )
