"""Usage report in the form of Particular's tools, from the usage by day.

The fields are those of the reports that Particular's throughput tool and ServicePulse write. ``Signature`` is missing:
only these tools can sign.

Source: docs/guides/usage.md, "Report for Particular".
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from typing import Any

from airflow_sqlqueue.address import QueueAddress
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.flow.endpoint_usage import EndpointDay
from airflow_sqlqueue.flow.queue_usage import QueueDay

_Days = Mapping[date, int]


@dataclass(frozen=True)
class _Entry:
    """Queue or endpoint of the report. ``scope`` tells queues of the same name apart."""

    name: str
    scope: str | None
    queue: _Days
    endpoint: _Days

    @property
    def throughput(self) -> int:
        """The most messages of one day, from either source."""
        return max((*self.queue.values(), *self.endpoint.values()), default=0)

    def to_dict(self, masks: Sequence[str]) -> dict[str, Any]:
        shown: dict[str, Any] = {"QueueName": _masked(self.name, masks), "Throughput": self.throughput}
        if not self.throughput:
            shown["NoDataOrSendOnly"] = True
        if self.endpoint:
            shown["EndpointIndicators"] = ["KnownEndpoint"]
        if self.scope is not None:
            shown["Scope"] = _masked(self.scope, masks)
        shown["DailyThroughputFromBroker"] = _daily(self.queue)
        shown["DailyThroughputFromAudit"] = _daily(self.endpoint)
        return shown


def usage_report(
    queues: Iterable[QueueDay],
    endpoints: Iterable[EndpointDay],
    *,
    customer: str,
    version: str,
    now: datetime,
    masks: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the report of all whole days, those before ``now``.

    A queue's daily figures are ``DailyThroughputFromBroker``. Those of the endpoint of the same name, in any case, are
    ``DailyThroughputFromAudit``; an endpoint without such a queue has an entry of its own. ``Throughput`` is the most
    of one day.

    :param customer: the name that the license is registered to.
    :param version: the version of this package.
    :param masks: texts that become ``***`` in names of queues, in any case.

    Raises :class:`ConfigurationError` for an empty customer, and where there is no whole day.
    """
    if not customer.strip():
        raise ConfigurationError("A report names the customer that the license is registered to: it is empty.")
    today = now.astimezone(timezone.utc).date()
    of_queues = _by_name((day.queue, day.day, day.messages) for day in queues if day.day < today)
    of_endpoints = _by_name((day.endpoint, day.day, day.messages) for day in endpoints if day.day < today)
    dates = [day for days in (*of_queues.values(), *of_endpoints.values()) for day in days]
    if not dates:
        raise ConfigurationError(
            "There is no whole day of usage yet: record the growth of the queues (sqlqueue usage record), at best "
            "every hour, and ask for the report tomorrow."
        )
    kind, entries = _entries(of_queues, of_endpoints)
    start, end = _midnight(min(dates)), _midnight(today)
    shown = [entry.to_dict([mask for mask in masks if mask]) for entry in entries]
    report = {
        "CustomerName": customer,
        "MessageTransport": "SqlTransport",
        "ReportMethod": "SqlServerQuery",
        "ToolType": "airflow-sqlqueue",
        "ToolVersion": version,
        **({} if kind is None else {"ScopeType": kind}),
        "StartTime": start.isoformat(),
        "EndTime": end.isoformat(),
        "ReportDuration": f"{(end - start).days}.00:00:00",
        "Queues": shown,
        "TotalThroughput": sum(entry.throughput for entry in entries),
        "TotalQueues": len(entries),
    }
    return {"ReportData": report}


def _by_name(days: Iterable[tuple[str, date, int]]) -> dict[str, dict[date, int]]:
    found: dict[str, dict[date, int]] = defaultdict(lambda: defaultdict(int))
    for name, day, messages in days:
        found[name][day] += messages
    return found


def _entries(queues: Mapping[str, _Days], endpoints: Mapping[str, _Days]) -> tuple[str | None, list[_Entry]]:
    """Return the kind of the scopes, None if all queues have the same one, and the entries by name."""
    addresses = {name: QueueAddress.parse(name) for name in queues}
    catalogs = {address.catalog for address in addresses.values()}
    schemas = {(address.catalog, address.schema) for address in addresses.values()}
    kind = {(False, True): "Schema", (True, True): "Catalog & Schema"}.get((len(catalogs) > 1, len(schemas) > 1))
    if len(catalogs) > 1 and len(schemas) == len(catalogs):
        kind = "Catalog"
    left = {name.casefold(): name for name in endpoints}
    entries = []
    for name, address in sorted(addresses.items()):
        scope = {
            "Schema": address.schema,
            "Catalog": address.catalog,
            "Catalog & Schema": f"[{address.catalog}].[{address.schema}]",
        }.get(kind or "")
        endpoint = left.pop(address.table.casefold(), None)
        entries.append(_Entry(address.table, scope, queues[name], {} if endpoint is None else endpoints[endpoint]))
    entries += [_Entry(name, None, {}, endpoints[name]) for name in sorted(left.values())]
    return kind, entries


def _daily(days: _Days) -> list[dict[str, Any]]:
    return [{"DateUTC": day.isoformat(), "MessageCount": days[day]} for day in sorted(days)]


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), timezone.utc)


def _masked(name: str, masks: Sequence[str]) -> str:
    for mask in masks:
        name = re.sub(re.escape(mask), "***", name, flags=re.IGNORECASE)
    return name
