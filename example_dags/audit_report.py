"""Report on one batch: the counts from Spark as tables and charts in one HTML file.

The page needs no network and no script. All texts on it that come from messages (types, endpoints, exceptions) are
escaped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow_sqlqueue import Batch

if __package__:
    from . import audit_charts as charts
    from .shop_tables import ShopTables
else:
    import audit_charts as charts
    from shop_tables import ShopTables

Rows = list[dict[str, Any]]

OTHERS = "other types"
_COLOURS = 10
_SHOWN_DAYS, _MOST_COLUMNS, _WIDTHS = 14, 84, (1, 2, 3, 6, 12)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Figures:
    """Counts of the job.

    :param hourly: per ``message_type`` and ``hour`` (whole hours since 1970, or None): ``messages``, ``failed``,
        ``malformed``, ``body_bytes``, and ``first`` and ``last`` in microseconds since 1970.
    :param times: per ``processing_endpoint`` (where ``of_endpoint`` is 1) and per ``message_type`` (where it is 0):
        ``messages`` and ``percentiles`` (p50, p90, p99, in milliseconds).
    :param failures: per ``exception_type`` and ``processing_endpoint``: ``messages`` and ``last``.
    :param shop: the tables of message types, if they were written.
    """

    batch: Batch
    hourly: Rows
    times: Rows
    failures: Rows
    shop: ShopTables | None = None


def write_report(figures: Figures, target: str) -> None:
    """Write the page to a local path, whose missing folders are created, or to any URL that fsspec knows."""
    page = render(figures)
    if "://" in target:
        import fsspec

        with fsspec.open(target, "w", encoding="utf-8") as file:
            file.write(page)
        return
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.tmp")
    unfinished.write_text(page, encoding="utf-8")
    unfinished.replace(path)


def render(figures: Figures) -> str:
    """Return the page as text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "number": charts.number, "duration": charts.duration, "size": charts.size,
        "moment": _moment, "short": short_name,
    }  # fmt: skip
    return environment.get_template("audit_report.html.j2").render(view(figures))


def view(figures: Figures) -> dict[str, Any]:
    """Return the values that the template shows."""
    types, endpoints = type_rows(figures), endpoint_rows(figures)
    exceptions: Counter[str] = Counter()
    for row in figures.failures:
        exceptions[row["exception_type"] or "(no exception type)"] += row["messages"]
    columns, ticks, series, outside = over_time(figures.hourly)
    width = columns[0][1] if columns else 1
    return {
        "batch": figures.batch,
        "messages": sum(row["messages"] for row in figures.hourly),
        "failed": sum(row["failed"] for row in figures.hourly),
        "malformed": sum(row["malformed"] for row in figures.hourly),
        "first": min((row["first"] for row in figures.hourly if row["first"] is not None), default=None),
        "last": max((row["last"] for row in figures.hourly if row["last"] is not None), default=None),
        "types": types,
        "type_count": sum(not row["name"].startswith("(") for row in types),
        "endpoints": endpoints,
        "failures": sorted(figures.failures, key=lambda row: (-row["messages"], row["exception_type"] or "")),
        "series": series,
        "columns": [name for name, _ in columns],
        "column_hours": width,
        "outside": outside,
        "time_chart": charts.stacked_bars("Messages by type over time", [name for name, _ in columns], ticks, series),
        "percentile_chart": charts.percentile_ranges(
            "Processing time by endpoint", [charts.Range(row["name"], *row["percentiles"]) for row in endpoints]
        ),
        "failure_chart": charts.bars("Failures by exception type", exceptions.most_common(12), "bad"),
        "shop": figures.shop,
        "revenue": None if figures.shop is None else revenue_view(figures.shop.revenue),
    }


def revenue_view(revenue: Rows) -> dict[str, Any]:
    """Return the chart of what was ordered and paid by hour, and its values."""
    parts = [
        {"hour": row["hour"], "message_type": name, "messages": round(amount)}
        for row in revenue
        for name, amount in (("paid", row["paid"]), ("not paid", row["ordered"] - row["paid"]))
    ]
    columns, ticks, series, outside = over_time(parts)
    names = [name for name, _ in columns]
    title = "Orders in euros by hour, paid and not paid"
    return {
        "chart": charts.stacked_bars(title, names, ticks, series, unit="euros"),
        "column_hours": columns[0][1] if columns else 1,
        "columns": names,
        "series": series,
        "outside": outside,
        "sums": {name: sum(row[name] for row in revenue) for name in ("orders", "paid_orders", "ordered", "paid")},
    }


def type_rows(figures: Figures) -> Rows:
    """Return the table of message types, the most frequent first."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for row in figures.hourly:
        totals[row["message_type"]].update({name: row[name] for name in ("messages", "failed", "body_bytes")})
    times = {row["message_type"]: row["percentiles"] for row in figures.times if not row["of_endpoint"]}
    whole = sum(total["messages"] for total in totals.values())
    rows = [
        {"name": name, **total, "share": total["messages"] / whole, "percentiles": times.get(name, [None] * 3)}
        for name, total in totals.items()
    ]
    return sorted(rows, key=lambda row: (-row["messages"], row["name"]))


def endpoint_rows(figures: Figures) -> Rows:
    """Return the processing times per endpoint, by name."""
    rows = [{**row, "name": row["processing_endpoint"] or "(unknown)"} for row in figures.times if row["of_endpoint"]]
    return sorted(rows, key=lambda row: row["name"])


def over_time(hourly: Rows) -> tuple[list[tuple[str, int]], list[str], list[charts.Series], int]:
    """Columns (name, width in hours), their tick labels, the series, and the number of messages outside.

    The columns lie within a week of the busiest hour, so that one wrong time in a header does not flatten the chart.
    """
    counted: dict[int, Counter[str]] = defaultdict(Counter)
    outside = 0
    for row in hourly:
        if row["hour"] is None:
            outside += row["messages"]
        else:
            counted[row["hour"]][row["message_type"]] += row["messages"]
    if not counted:
        return [], [], [], outside
    busiest = max(counted, key=lambda hour: sum(counted[hour].values()))
    near = [hour for hour in counted if abs(hour - busiest) <= _SHOWN_DAYS * 12]
    outside += sum(sum(counter.values()) for hour, counter in counted.items() if abs(hour - busiest) > _SHOWN_DAYS * 12)
    width = next(width for width in _WIDTHS if max(near) // width - min(near) // width < _MOST_COLUMNS)
    first, last = min(near) // width, max(near) // width
    per_type: dict[str, list[int]] = defaultdict(lambda: [0] * (last - first + 1))
    for hour in near:
        for name, messages in counted[hour].items():
            per_type[name][hour // width - first] += messages
    starts = [_EPOCH + timedelta(hours=column * width) for column in range(first, last + 1)]
    columns = [(f"{start:%Y-%m-%d %H}:00", width) for start in starts]
    return columns, _ticks(starts), _largest(per_type), outside


def short_name(full_name: str) -> str:
    """Return a type's name without its namespace."""
    return full_name.rpartition(".")[2] or full_name


def _largest(per_type: dict[str, list[int]]) -> list[charts.Series]:
    """Return a series for each of the most frequent types, and one for the others."""
    ranked = sorted(per_type, key=lambda name: (-sum(per_type[name]), name))
    if len(ranked) <= _COLOURS:
        return [charts.Series(name, per_type[name]) for name in ranked]
    kept, rest = ranked[: _COLOURS - 1], ranked[_COLOURS - 1 :]
    others = [sum(values) for values in zip(*(per_type[name] for name in rest), strict=True)]
    return [*(charts.Series(name, per_type[name]) for name in kept), charts.Series(OTHERS, others)]


def _ticks(starts: list[datetime]) -> list[str]:
    """Labels: the date at each midnight and at the first column, and the hours in between if there are few columns."""
    labels, room = [], 0
    for i, start in enumerate(starts):
        text = f"{start:%d %b}" if start.hour == 0 or i == 0 else ""
        if not text and len(starts) <= 60 and start.hour % 6 == 0:
            text = f"{start:%H}:00"
        if text and i >= room:
            labels.append(text)
            room = i + max(1, len(starts) // 20)
        else:
            labels.append("")
    return labels


def _moment(microseconds: int | None) -> str:
    return "\u2013" if microseconds is None else f"{_EPOCH + timedelta(microseconds=microseconds):%Y-%m-%d %H:%M:%S}"
