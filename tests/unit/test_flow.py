"""Days of a growth, counts of a batch, and the report, without a server."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.flow import endpoint_usage
from airflow_sqlqueue.flow.days import shares
from airflow_sqlqueue.flow.endpoint_usage import OTHER_TYPES, EndpointDay, count_usage
from airflow_sqlqueue.flow.queue_usage import QueueDay
from airflow_sqlqueue.flow.report import usage_report
from airflow_sqlqueue.message import HeaderNames

MONDAY, TUESDAY, WEDNESDAY = (date(2026, 3, day) for day in (2, 3, 4))
NOW = datetime(2026, 3, 4, 9, tzinfo=timezone.utc)
OPENED = datetime(2026, 3, 2, 12, tzinfo=timezone.utc)

moments = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31))  # noqa: DTZ001 - the server's have no zone


@given(st.integers(0, 10**12), moments, st.timedeltas(timedelta(0), timedelta(days=8)))
def test_shares_are_whole_and_lose_nothing(messages: int, since: datetime, time: timedelta) -> None:
    found = list(shares(messages, since, since + time))
    assert sum(share for _, share in found) == messages
    assert all(share >= 0 for _, share in found)
    assert [day for day, _ in found] == [since.date() + timedelta(days=n) for n in range(len(found))]
    assert found[-1][0] == (since + time).date()


def test_a_growth_over_midnight_is_shared_by_time() -> None:
    evening = datetime(2026, 3, 2, 18)  # noqa: DTZ001 - the server's have no zone
    assert dict(shares(100, evening, evening + timedelta(hours=8))) == {MONDAY: 75, TUESDAY: 25}


def handled(endpoint: str | None = "Sales", kind: str = "Shop.Placed, Shop", **times: str) -> str:
    headers = {HeaderNames.PROCESSING_ENDPOINT: endpoint, HeaderNames.ENCLOSED_MESSAGE_TYPES: kind}
    return json.dumps({**headers, **{getattr(HeaderNames, name): text for name, text in times.items()}})


def test_messages_count_for_their_endpoint_on_the_day_of_the_end() -> None:
    texts = [
        handled(PROCESSING_ENDED="2026-03-03 00:00:00:000000 Z", TIME_SENT="2026-03-02 23:59:59:000000 Z"),
        handled(TIME_SENT="2026-03-03 10:00:00:000000 Z"),
        handled(None, FAILED_Q="Billing@[dbo]@[nsb]", TIME_OF_FAILURE="2026-03-04 10:00:00:000000 Z"),
        handled(None, ""),
        "no JSON",
    ]
    assert count_usage(texts, "audit", OPENED) == [
        EndpointDay("audit", "", MONDAY, 2),
        EndpointDay("Sales", "Shop.Placed", TUESDAY, 2),
        EndpointDay("Billing", "Shop.Placed", WEDNESDAY, 1, 1),
    ]


def test_the_rows_of_a_batch_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_usage, "MAX_ROWS", 3)
    found = count_usage([handled(kind=f"Type{n}") for n in range(10)], "audit", OPENED)
    assert [(day.endpoint, day.message_type, day.messages) for day in found][-1] == ("audit", OTHER_TYPES, 7)
    assert len(found) == 4


@given(st.text(st.characters(), max_size=900))
def test_any_name_fits_into_its_column(name: str) -> None:
    (found,) = count_usage([json.dumps({HeaderNames.PROCESSING_ENDPOINT: name})], "audit", OPENED)
    assert len(found.endpoint.encode("utf-16-le")) <= 800
    assert "\0" not in found.endpoint


def report(queues: list[QueueDay], endpoints: list[EndpointDay], **options: Any) -> dict[str, Any]:
    made = usage_report(queues, endpoints, **{"customer": "Contoso", "version": "1.2", "now": NOW, **options})
    assert made.keys() == {"ReportData"}
    return json.loads(json.dumps(made["ReportData"]))


SALES, SHIPPING = "Sales@[dbo]@[nsb]", "Shipping@[dbo]@[nsb]"


def test_the_report_has_the_fields_of_particulars() -> None:
    queues = [
        QueueDay(SALES, MONDAY, 10),
        QueueDay(SALES, TUESDAY, 30),
        QueueDay(SALES, WEDNESDAY, 99),
        QueueDay(SHIPPING, TUESDAY, 0),
    ]
    endpoints = [
        EndpointDay("sales", "Shop.Placed", TUESDAY, 20, 1),
        EndpointDay("sales", "Shop.Billed", TUESDAY, 15),
        EndpointDay("Elsewhere", "", MONDAY, 4),
    ]
    assert report(queues, endpoints) == {
        "CustomerName": "Contoso",
        "MessageTransport": "SqlTransport",
        "ReportMethod": "SqlServerQuery",
        "ToolType": "airflow-sqlqueue",
        "ToolVersion": "1.2",
        "StartTime": "2026-03-02T00:00:00+00:00",
        "EndTime": "2026-03-04T00:00:00+00:00",
        "ReportDuration": "2.00:00:00",
        "Queues": [
            {
                "QueueName": "Sales",
                "Throughput": 35,
                "EndpointIndicators": ["KnownEndpoint"],
                "DailyThroughputFromBroker": [
                    {"DateUTC": "2026-03-02", "MessageCount": 10},
                    {"DateUTC": "2026-03-03", "MessageCount": 30},
                ],
                "DailyThroughputFromAudit": [{"DateUTC": "2026-03-03", "MessageCount": 35}],
            },
            {
                "QueueName": "Shipping",
                "Throughput": 0,
                "NoDataOrSendOnly": True,
                "DailyThroughputFromBroker": [{"DateUTC": "2026-03-03", "MessageCount": 0}],
                "DailyThroughputFromAudit": [],
            },
            {
                "QueueName": "Elsewhere",
                "Throughput": 4,
                "EndpointIndicators": ["KnownEndpoint"],
                "DailyThroughputFromBroker": [],
                "DailyThroughputFromAudit": [{"DateUTC": "2026-03-02", "MessageCount": 4}],
            },
        ],
        "TotalThroughput": 39,
        "TotalQueues": 3,
    }


@pytest.mark.parametrize(
    ("places", "kind", "scopes"),
    [
        (["[dbo]@[nsb]", "[dbo]@[nsb]"], None, [None, None]),
        (["[dbo]@[nsb]", "[sales]@[nsb]"], "Schema", ["dbo", "sales"]),
        (["[dbo]@[nsb]", "[dbo]@[other]"], "Catalog", ["nsb", "other"]),
        (
            ["[dbo]@[nsb]", "[sales]@[nsb]", "[dbo]@[other]"],
            "Catalog & Schema",
            ["[nsb].[dbo]", "[nsb].[sales]", "[other].[dbo]"],
        ),
    ],
)
def test_queues_of_several_places_have_a_scope(places: list[str], kind: str | None, scopes: list[str | None]) -> None:
    made = report([QueueDay(f"Q{n}@{place}", MONDAY, 1) for n, place in enumerate(places)], [])
    assert made.get("ScopeType") == kind
    assert [queue.get("Scope") for queue in made["Queues"]] == scopes


def test_masks_hide_names_in_any_case() -> None:
    made = report([QueueDay("Contoso.Sales@[Contoso]@[nsb]", MONDAY, 1)], [], masks=["contoso", ""])
    assert made["Queues"][0]["QueueName"] == "***.Sales"


def test_a_report_without_a_whole_day_or_a_customer_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no whole day of usage yet"):
        report([QueueDay(SALES, WEDNESDAY, 1)], [])
    with pytest.raises(ConfigurationError, match="names the customer"):
        report([QueueDay(SALES, MONDAY, 1)], [], customer=" ")
