"""Generator of messages, in the order of an audit or error queue: by the end of their processing."""

from __future__ import annotations

import heapq
import uuid
from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from random import Random

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.address import QueueAddress
from airflow_sqlqueue.messages.envelope.times import format_interval
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.traffic.bodies import CUSTOMERS, BodyTemplate
from airflow_sqlqueue.traffic.clock import Rhythm, microseconds, wire_time
from airflow_sqlqueue.traffic.headers import HeaderTemplate, MessageFacts, malformed
from airflow_sqlqueue.traffic.shop import FAILURES, FLOWS, LONGEST_CONVERSATION_S, SUBSCRIPTION, Step

DEFAULT_START = datetime(2026, 3, 5, tzinfo=timezone.utc)
"""Default end of the traffic: a fixed time, so that a run can be repeated."""

SPAN = timedelta(days=2)
_MALFORMED_EVERY = 1_000
_EXPIRED_SHARE = 0.4
_FAILURES_IF_ALONE = 20
"""Factor of the failure rate for :func:`generate_failed`."""
_WAIT_MS, _WAIT_SPREAD, _WAIT_CAP_US = 18.0, 1.1, 60_000_000
_WORK_CAP_US = 30_000_000
_RETRY_US = 15_000_000

_Row = tuple[int, int, Step, int, str, MessageFacts]
"""End of the processing (µs), unique number, step, index of its handling, id of the order, other facts."""


def generate(count: int, *, seed: int, start: datetime | None = None) -> Iterator[Message]:
    """Generate ``count`` messages of a shop's audit and error queues.

    The same arguments give the same messages, with the same ids and times. Times lie in the two days before ``start``
    (by default :data:`DEFAULT_START`). About 1% of the messages failed, 2% have a time to be received, some of them a
    negative one, so that they expire at once, and one in 1,000 has malformed headers, given as text. The first message
    is a control message, which has no body.

    Raises :class:`ConfigurationError` for a negative count and for a start without a time zone.
    """
    return _Traffic(count, seed, start).messages()


def generate_failed(
    count: int, *, seed: int, start: datetime | None = None, schema: str = "dbo", catalog: str = "shop"
) -> Iterator[Message]:
    """Generate ``count`` messages of the shop's error queue: as :func:`generate`, but failed messages only.

    Each names the queue where it failed, ``Sales``, ``Billing`` or ``Shipping`` of ``schema`` and ``catalog``, so that
    it can be returned there. The messages do not expire; one in 1,000 has malformed headers. Raises the errors of
    :func:`generate`.
    """
    return _Traffic(count, seed, start, (schema, catalog)).messages()


FAILED_QUEUES = tuple(endpoint.name for endpoint in FAILURES)
"""The queues where messages of :func:`generate_failed` failed."""


def _guid(rng: Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


class _Traffic:
    """Run of the shop. Conversations overlap, so a heap holds the rows of those that have not ended.

    With ``failed_in``, a schema and a catalog, more messages fail, in queues there, and only failed ones are its rows.
    """

    def __init__(self, count: int, seed: int, start: datetime | None, failed_in: tuple[str, str] | None = None) -> None:
        if count < 0:
            raise ConfigurationError(f"A count of messages is zero or more, not {count}.")
        moment = DEFAULT_START if start is None else start
        if moment.tzinfo is None:
            raise ConfigurationError("The start of the traffic needs a time zone: give an aware datetime.")
        self._count, self._failed_in = count, failed_in
        self._failures = _FAILURES_IF_ALONE if failed_in else 1
        self._rng = Random(seed)  # noqa: S311 - repeatable on purpose
        end_us = microseconds(moment)
        begin = end_us - SPAN // timedelta(microseconds=1)
        self._rhythm = Rhythm(begin, end_us - LONGEST_CONVERSATION_S * 1_000_000)
        self._shares = list(accumulate(share for share, _ in FLOWS))
        steps = [step for _, flow in FLOWS for step in flow]
        self._headers = {(id(step), i): HeaderTemplate(step, h) for step in steps for i, h in enumerate(step.handlings)}
        self._bodies = {id(s): BodyTemplate.of(s.message, s.sender.content_type) for s in steps if s.message}

    def messages(self) -> Iterator[Message]:
        """Yield the rows as messages; one in each thousand has malformed headers."""
        rng = self._rng
        spoilt = int(rng.random() * _MALFORMED_EVERY)
        for index, (_, _, step, handling, order_id, facts) in enumerate(self._rows()):
            headers: dict[str, str | None] | str = self._headers[id(step), handling].render(rng, facts)
            if self._failed_in and facts.failure is not None and isinstance(headers, dict):
                headers[HeaderNames.FAILED_Q] = str(
                    QueueAddress(step.handlings[handling].endpoint.name, *self._failed_in)
                )
            body = b""
            if step.message is not None:
                body = self._bodies[id(step)].render(rng, order_id, facts.customer, wire_time(facts.sent))
            lives = None
            if step.message is not None and step.message.expires and isinstance(headers, dict) and not self._failed_in:
                lives = self._time_to_be_received(headers)
            if index % _MALFORMED_EVERY == spoilt and isinstance(headers, dict):
                headers = malformed(headers, index // _MALFORMED_EVERY)
            yield Message(headers, body, lives, uuid.UUID(int=rng.getrandbits(128), version=4))

    def _time_to_be_received(self, headers: dict[str, str | None]) -> timedelta:
        minutes = 1 + int(self._rng.random() * 30)
        headers[HeaderNames.TIME_TO_BE_RECEIVED] = format_interval(timedelta(minutes=minutes))
        if self._rng.random() < _EXPIRED_SHARE:
            return timedelta(milliseconds=-1 - int(self._rng.random() * 3_600_000))
        return timedelta(days=1, minutes=minutes)

    def _rows(self) -> Iterator[_Row]:
        rng, pushed = self._rng, 0
        heap: list[_Row] = []
        while pushed < self._count:
            first = not (pushed or self._failed_in)
            flow = SUBSCRIPTION if first else FLOWS[bisect_right(self._shares, rng.random() * self._shares[-1])][1]
            begin = self._rhythm.moment((pushed + rng.random()) / self._count)
            while heap and heap[0][0] < begin:
                yield heapq.heappop(heap)
            for row in self._conversation(flow, begin, pushed):
                if pushed == self._count:
                    break
                if self._failed_in and row[-1].failure is None:
                    continue
                heapq.heappush(heap, row)
                pushed += 1
        while heap:
            yield heapq.heappop(heap)

    def _conversation(self, flow: tuple[Step, ...], begin: int, number: int) -> Iterator[_Row]:
        """Yield the rows of one conversation. A failed message causes no further messages."""
        rng = self._rng
        conversation_id, order_id, customer = _guid(rng), _guid(rng), int(rng.random() * len(CUSTOMERS))
        done: dict[tuple[int, str], MessageFacts] = {}
        for position, step in enumerate(flow):
            cause = None if step.cause is None else done.get((step.cause, step.sender.name))
            if step.cause is not None and cause is None:
                continue
            message_id = _guid(rng)
            correlation_id = cause.correlation_id if cause and step.intent == "Reply" else message_id
            sent = begin if cause is None else cause.ended
            related_to = cause.message_id if cause else None
            for index, handling in enumerate(step.handlings):
                wait = int(_WAIT_MS * 1000 * rng.lognormvariate(0.0, _WAIT_SPREAD))
                started = sent + int(step.delay_s * 1_000_000) + min(wait, _WAIT_CAP_US)
                work = int(handling.median_ms * 1000 * rng.lognormvariate(0.0, handling.spread))
                ended = started + min(work, _WORK_CAP_US)
                failure, retries = None, 0
                if rng.random() < handling.endpoint.failure_rate * self._failures:
                    kinds = FAILURES[handling.endpoint]
                    totals = list(accumulate(kind.weight for kind in kinds))
                    failure = kinds[min(bisect_right(totals, rng.random()), len(kinds) - 1)]
                    retries = int(rng.random() * 6)
                    ended += retries * _RETRY_US
                facts = MessageFacts(
                    message_id, correlation_id, conversation_id, related_to, customer, sent, started, ended, failure,
                    retries,
                )  # fmt: skip
                if failure is None:
                    done[position, handling.endpoint.name] = facts
                yield ended, number * 64 + position * 4 + index, step, index, order_id, facts
