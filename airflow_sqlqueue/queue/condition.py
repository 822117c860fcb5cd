"""Conditions of a queue to wait for, and a check whether one is met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError, QueueNotFoundError
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.options import Options, option
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.options.secondary import secondary
from airflow_sqlqueue.queue.browsing import Search
from airflow_sqlqueue.queue.copies import QueueCopy, check_copy_name
from airflow_sqlqueue.queue.depth import KINDS, Depth, depth, oldest_seconds
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.table_access import TableAccess
from airflow_sqlqueue.queue.tables.reading import read_layout
from airflow_sqlqueue.server.sql import identifier, query

EXPIRED_ALLOWANCE = 1_000
"""Expired messages at the head of the queue that a check skips before it counts the whole queue."""

_HOW = {"kind", "filters", "incremental", "secondary"}
"""Options that say what is counted and how."""


@dataclass(frozen=True, kw_only=True)
class QueueCondition(Options):
    """Condition to wait for: the first option that holds ends the wait; without options one message does.

    ``max_messages`` goes without other options, and ``filters`` and ``incremental`` with ``min_messages`` and
    ``max_messages`` alone. A queue without messages is not yet drained: other transactions may hold some. With
    ``filters`` each check reads the headers of the queue until enough messages match, or to the end. With ``secondary``
    the messages of all queues count together, the oldest is that of all, and each check finds the queues anew.
    """

    parameter = "wait_for"

    min_messages: int | None = option(
        None, "the least number of messages that have not expired and are not locked", least=1
    )
    max_messages: int | None = option(None, "the highest number of them", least=0)
    oldest_seconds: float | None = option(
        None,
        "the least age of the message at the head of the queue, by its header TimeSent",
        above=0,
    )
    min_expired: int | None = option(
        None,
        "the least number of expired messages that are not locked, which a purge would delete",
        least=1,
    )
    min_delayed: int | None = option(
        None, "the least number of messages in the queue's table of delayed messages", least=1
    )
    kind: str = option("exact", "way of counting", choices=KINDS)
    filters: Mapping[str, Any] | None = option(
        None, "count only messages that match, conditions of :class:`~airflow_sqlqueue.MessageFilter`", hash=False
    )
    incremental: str | None = option(None, "count only messages that the copy with this name does not have")
    secondary: bool = secondary("count the messages of")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.filters is not None:
            where = self.filters if isinstance(self.filters, MessageFilter) else MessageFilter.of(self.filters)
            object.__setattr__(self, "filters", where.to_dict())
        given = self.to_dict().keys() - _HOW
        if not given:
            object.__setattr__(self, "min_messages", 1)
        if self.filters is not None and (given - {"min_messages", "max_messages"} or self.kind != "exact"):
            raise ConfigurationError(
                "Matching messages are counted exactly: with filters give only min_messages or max_messages."
            )
        if self.incremental is not None:
            check_copy_name(self.incremental)
            if given - {"min_messages", "max_messages"} or self.kind != "exact" or self.filters is not None:
                raise ConfigurationError(
                    "New messages are counted exactly: with incremental give only min_messages or max_messages."
                )
        if self.max_messages is not None and len(given) > 1:
            raise ConfigurationError("max_messages waits for a queue to run empty: give it without other conditions.")

    @classmethod
    def of(cls, values: Mapping[str, Any] | QueueCondition | None, **arguments: Any) -> QueueCondition:
        """As :meth:`.Options.of`; also raises if all conditions are empty, as templates may render them.

        One message would meet the wait then, also where the queue had to run empty.
        """
        condition = super().of(values, **arguments)
        named = sorted(values.keys() - _HOW) if isinstance(values, Mapping) else []
        if named and condition.to_dict().keys().isdisjoint(named):
            raise ConfigurationError(f"wait_for has no value for {', '.join(named)}: give one, or leave it out.")
        return condition

    def to_dict(self) -> dict[str, Any]:
        """Return the options that were given, for :meth:`of`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None and value is not False}

    def __str__(self) -> str:
        given = self.to_dict()
        conditions = [f"{name}={value}" for name, value in given.items() if name not in ("kind", "filters")]
        # Without the values of the filters: headers do not belong into logs.
        return ", ".join(conditions) + ("" if self.filters is None else f", filters on {', '.join(self.filters)}")


@dataclass(frozen=True)
class ConditionResult:
    """Result of a check; a number that the check did not need is None.

    ``messages`` and ``expired`` are counted only as far as needed; ``counted_all`` says whether they are complete.
    """

    met: bool
    messages: int | None = None
    expired: int | None = None
    delayed: int | None = None
    oldest_seconds: float | None = None
    counted_all: bool = True

    def to_dict(self, condition: QueueCondition) -> dict[str, Any]:
        """Return the numbers that the condition needed, for XCom and events."""
        found: dict[str, Any] = {}
        if self.messages is not None:
            found = {"messages": self.messages, "expired": self.expired}
        elif condition.min_expired is not None:
            found = {"expired": self.expired}
        if condition.min_delayed is not None:
            found["delayed"] = self.delayed
        if condition.oldest_seconds is not None:
            found["oldest_seconds"] = self.oldest_seconds
        return found

    def __str__(self) -> str:
        least = "" if self.counted_all else "at least "
        parts = [] if self.messages is None else [least + count_of(self.messages, "message")]
        parts += [] if self.expired is None else [f"{self.expired:,} expired"]
        parts += [] if self.delayed is None else [f"{self.delayed:,} delayed"]
        parts += [] if self.oldest_seconds is None else [f"the oldest sent {self.oldest_seconds:,.0f} s ago"]
        return ", ".join(parts) or "no messages"


def check_condition(
    table: TableAccess,
    condition: QueueCondition,
    *,
    delayed: ResolvedAddress | None = None,
    others: Sequence[TableAccess] = (),
) -> ConditionResult:
    """Check once, and read only as many rows as the condition needs, however deep the queue is.

    ``delayed`` is the address of the table of delayed messages; ``others`` are the secondary queues, which have no such
    tables. Raises :class:`QueueNotFoundError` and :class:`NotAQueueError`, also for that table where the condition
    needs it, and :class:`CopyError`.
    """
    table.require()
    tables = (table, *others)
    counted, counted_all = _messages(tables, condition)
    messages = None if counted is None else counted.messages
    expired = None if counted is None else counted.expired
    waiting = age = None
    met = []
    if counted is not None and condition.min_messages is not None:
        met.append(counted.messages >= condition.min_messages)
    if counted is not None and condition.max_messages is not None:
        met.append(counted.messages <= condition.max_messages)
    if condition.min_expired is not None:
        purgeable = sum(int(each.value("queue.expired_up_to", condition.min_expired)) for each in tables)
        met.append(purgeable >= condition.min_expired)
        expired = max(purgeable, expired or 0)
    if condition.min_delayed is not None:
        waiting = _delayed(table, delayed, condition.min_delayed)
        met.append(waiting >= condition.min_delayed)
    if condition.oldest_seconds is not None:
        ages = [oldest_seconds(each) for each in tables]
        age = max((each for each in ages if each is not None), default=None)
        met.append(age is not None and age >= condition.oldest_seconds)
    return ConditionResult(any(met), messages, expired, waiting, age, counted_all)


def _messages(tables: Sequence[TableAccess], condition: QueueCondition) -> tuple[Depth | None, bool]:
    """Return the depth of all tables as far as needed, and whether it is complete: a count below its limit is."""
    needed = condition.min_messages
    if condition.max_messages is not None:
        needed = condition.max_messages + 1
    if needed is None:
        return None, True
    found, counted_all = _messages_of(tables[0], condition, needed)
    for table in tables[1:]:
        if found.messages >= needed:
            return found, False
        more, counted_all = _messages_of(table, condition, needed - found.messages)
        expired = None if more.expired is None else (found.expired or 0) + more.expired
        found = Depth(found.messages + more.messages, expired, found.kind)
    return found, counted_all


def _messages_of(table: TableAccess, condition: QueueCondition, needed: int) -> tuple[Depth, bool]:
    if condition.filters is not None:
        return _matching(table, MessageFilter.of(condition.filters), needed)
    if condition.kind != "exact":
        return depth(table, condition.kind), True
    copy = None if condition.incremental is None else QueueCopy(table, condition.incremental)
    rows = needed + EXPIRED_ALLOWANCE
    new = None if copy is None else copy.count(rows)
    head = new or depth(table, limit=rows)
    if head.total < rows:
        return head, True
    # A limited count of new messages does not tell the expired ones apart: the next run of the copy passes them.
    if new is not None or head.messages >= needed:
        return head, False
    return depth(table), True


def _matching(table: TableAccess, where: MessageFilter, needed: int) -> tuple[Depth, bool]:
    search, messages, expired = Search(where), 0, 0
    while (page := search.page(table)) is not None:
        for head in page:
            if where.matches(head.id, head.decoded):
                expired, messages = expired + head.expired, messages + (not head.expired)
                if messages >= needed:
                    return Depth(messages, expired), False
    return Depth(messages, expired), True


def _delayed(table: TableAccess, address: ResolvedAddress | None, limit: int) -> int:
    if address is None:
        raise QueueNotFoundError("The queue has no table of delayed messages: leave out min_delayed.")
    read_layout(table.session, address, "delayed").require("delayed")
    return int(table.session.value(query("delayed.count_up_to", table=identifier(address)), limit))
