"""Receives after an anchor: a model of a queue under the product's own receive (docs/design.md, "Receives after an
anchor").

Senders commit late or roll back, receivers fail or die, messages expire, numbers begin again, and all of this may also
happen while a receive is under way. Each event has a number, and the clock moves only where a step moves it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.messages.message import ReceivedMessage
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.messages.row import Row
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.anchor import MAX_AGE, Anchor
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.server.session import Session

PROCESSES, RECEIVERS, SENDERS = 2, 4, 3
"""Receivers take turns at the processes, each of which has one anchor."""

MOST_STATEMENTS = 1_000
"""Statements of one receiver in one run of the model; the most are far fewer."""

COMMON = (*("send",) * 6, "commit", "receive", "receive", "handled", "handled", "tick", *("return",) * 3)
RARE = ("send expired", "abort", "failed", "died", "reseed")
STEPS = st.lists(st.tuples(st.sampled_from(COMMON + RARE), st.integers(0, 11)), min_size=40, max_size=120)


@dataclass
class Stored:
    """A row of the model; ``visible`` is the event and the time since which every receiver can take it."""

    row_version: int
    number: int
    expired: bool
    visible: tuple[int, float] | None = None


class Receiver(QueueTable):
    """A queue table whose statements run on the model. Rows that it has taken are locked to the end."""

    def __init__(self, model: Model, process: Process) -> None:
        super().__init__(cast(Session, SimpleNamespace()), ResolvedAddress("q", "s", "c"))
        self.model, self.process = model, process
        self.locked, self.received, self.at_work = list[Stored](), list[int](), False
        self.begun = (0, 0.0)
        self.left_none, self.statements = False, 0

    def delete_output(self, name: str, *values: Any, **options: Any) -> list[Row]:
        self.model.go_on()
        after = values[0] if values else FIRST
        visible = self.model.visible()
        seen = [row for row in visible if row.row_version > after][: int(options["limit"])]
        self.statements += 1
        assert self.statements < MOST_STATEMENTS, "it never ends"
        self.left_none = len(seen) == len(visible)
        for row in visible:
            if seen and row not in seen and row.row_version < seen[-1].row_version:
                self.check_overtaken(row)
        self.locked += seen
        for row in seen:
            row.visible = None
        rows = [Row("", None, None, True, None, "{}", b"%d" % row.number, row.row_version, row.expired) for row in seen]
        self.model.go_on()
        return [row._replace(id="00000000-0000-0000-0000-000000000000") for row in rows]

    def check_overtaken(self, row: Stored) -> None:
        assert row.visible is not None
        (event, since), (begun, now) = row.visible, self.begun
        assert now - since < MAX_AGE, "overtaken for too long"
        assert not event < self.process.rolled_back < begun, "overtaken after a rollback"

    def _drop_expired(self, met: int) -> None:
        for row in [row for row in self.model.visible() if row.expired][:2]:
            row.visible = None
            self.locked.append(row)

    def end(self, *, visible: bool) -> None:
        """End the transaction; ``visible``: its rows are in the queue again."""
        if visible:
            self.model.show(self.locked)
        else:
            self.model.handled.update(self.received)
            self.model.rows = [row for row in self.model.rows if row not in self.locked]
        self.locked, self.received = [], []


@dataclass
class Process:
    """A process with its anchor, and the event of its last rollback."""

    anchor: Anchor
    rolled_back: int = 0


@dataclass
class Model:
    """The queue, its senders and receivers, and the steps still to come."""

    steps: Iterator[tuple[str, int]] = field(default_factory=lambda: iter(()))
    rows: list[Stored] = field(default_factory=list)
    now: float = 100.0
    last: int = 0
    depth: int = 0
    handled: Counter[int] = field(default_factory=Counter)
    events: Iterator[int] = field(default_factory=lambda: count(1))
    numbers: Iterator[int] = field(default_factory=count)
    sent: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        processes = [Process(Anchor(lambda: self.now)) for _ in range(PROCESSES)]
        self.receivers = [Receiver(self, processes[n % PROCESSES]) for n in range(RECEIVERS)]
        self.senders: list[list[Stored]] = [[] for _ in range(SENDERS)]

    def visible(self) -> list[Stored]:
        return sorted((row for row in self.rows if row.visible), key=lambda row: row.row_version)

    def show(self, rows: list[Stored]) -> None:
        for row in rows:
            row.visible = next(self.events), self.now

    def go_on(self) -> None:
        """Take steps, to the next ``return`` where a receive is under way."""
        self.depth += 1
        for name, which in self.steps:
            if name == "return" and self.depth > 1:
                break
            self.step(name, which)
        self.depth -= 1

    def step(self, name: str, which: int) -> None:
        receiver, sender = self.receivers[which % RECEIVERS], self.senders[which % SENDERS]
        if name.startswith("send"):
            self.send(sender, expired=name == "send expired")
        elif name == "commit":
            self.sent.update(row.number for row in sender if not row.expired)
            self.show(sender)
            sender.clear()
        elif name == "abort":
            self.rows = [row for row in self.rows if row not in sender]
            sender.clear()
        elif name == "tick":
            self.now += MAX_AGE / (1 + which % 4)
        elif name == "reseed":
            self.last = 0
        elif name == "receive" and not receiver.at_work:
            self.receive(receiver, 1 + which // 8)
        elif name == "handled" and not receiver.at_work:
            receiver.end(visible=False)
        elif name in ("failed", "died") and not receiver.at_work:
            receiver.end(visible=True)
            if name == "failed":
                receiver.process.anchor.go_to_head()
                receiver.process.rolled_back = next(self.events)

    def send(self, sender: list[Stored], *, expired: bool = False) -> None:
        used = {row.row_version for row in self.rows}
        self.last = next(n for n in count(self.last + 1) if n not in used)
        row = Stored(self.last, next(self.numbers), expired)
        self.rows.append(row)
        sender.append(row)

    def receive(self, receiver: Receiver, limit: int = 1) -> list[ReceivedMessage]:
        receiver.at_work, receiver.begun = True, (next(self.events), self.now)
        received = receiver.receive(limit, anchor=receiver.process.anchor)
        receiver.received += [int(message.body) for message in received]
        receiver.at_work = False
        assert received or receiver.left_none, "empty, and a message was there"
        return received


@given(steps=STEPS)
def test_every_message_is_received_once_and_none_is_overtaken_for_long(steps: list[tuple[str, int]]) -> None:
    model = Model(iter(steps))
    model.go_on()
    for n in range(SENDERS):
        model.step("commit", n)
    for receiver in model.receivers:
        receiver.end(visible=False)
    (last, *_) = model.receivers
    while model.receive(last, 2):
        last.end(visible=False)
    last.end(visible=False)
    assert model.rows == []
    assert model.handled == Counter(model.sent)


@pytest.fixture
def model() -> Model:
    return Model()


def take(model: Model, receiver: int = 0) -> int | None:
    """Receive and handle one message; its number, or None if there is none."""
    received = model.receive(model.receivers[receiver])
    model.receivers[receiver].end(visible=False)
    return int(received[0].body) if received else None


def late_and_others(model: Model, late: int = 1) -> None:
    """Receive the first of some messages, and commit ``late`` ones below it then."""
    for sender, sends in ((0, late), (1, 9)):
        for _ in range(sends):
            model.send(model.senders[sender])
    model.step("commit", 1)
    assert take(model) == late
    model.step("commit", 0)


def test_a_late_commit_is_received_at_half_the_age_of_an_anchor(model: Model) -> None:
    late_and_others(model)
    taken = []
    for _ in range(4):
        taken.append(take(model))
        model.now += MAX_AGE / 4
    assert taken == [2, 3, 0, 4], "the queue never gets empty"


def test_others_do_not_go_to_the_head_beside_the_first_one(model: Model) -> None:
    late_and_others(model)
    model.now += MAX_AGE / 2
    other = model.receivers[PROCESSES]
    model.steps, model.depth = iter([("receive", PROCESSES), ("return", 0), ("return", 0), ("return", 0)]), 1
    model.receive(model.receivers[0])
    assert (other.received, model.receivers[0].received) == ([2], [0])


def test_a_receive_from_the_head_that_takes_too_long_is_not_waited_for(model: Model) -> None:
    late_and_others(model)
    model.now += MAX_AGE / 2
    model.steps, model.depth = (
        iter([("tick", 1), ("receive", PROCESSES), ("return", 0), ("return", 0), ("return", 0)]),
        1,
    )
    model.receive(model.receivers[0])
    assert (model.receivers[PROCESSES].received, model.receivers[0].received) == ([0], [2])


def test_the_others_follow_a_receive_from_the_head(model: Model) -> None:
    late_and_others(model, late=3)
    model.now += MAX_AGE / 2
    assert take(model) == 0
    assert [take(model, PROCESSES), take(model), take(model)] == [1, 2, 4]


def test_the_last_messages_below_the_anchor_are_found_at_once(model: Model) -> None:
    for n in (0, 1):
        model.send(model.senders[n])
    model.step("commit", 1)
    assert take(model) == 1
    model.step("commit", 0)
    assert [take(model), take(model)] == [0, None]


def test_messages_that_all_have_expired_do_not_hide_one_below_the_anchor(model: Model) -> None:
    model.send(model.senders[0])
    model.send(model.senders[1])
    model.send(model.senders[1], expired=True)
    model.step("commit", 1)
    assert take(model) == 1
    model.step("commit", 0)
    assert [int(message.body) for message in model.receive(model.receivers[0], 5)] == [0]


def test_after_a_rollback_the_message_is_the_next_one_for_the_whole_process(model: Model) -> None:
    for _ in range(4):
        model.send(model.senders[0])
    model.step("commit", 0)
    model.receive(model.receivers[0])
    assert take(model, PROCESSES) == 1, "the same process, so the same anchor"
    model.step("failed", 0)
    assert [take(model, PROCESSES) for _ in range(3)] == [0, 2, 3]


def slow_receive(model: Model, *meanwhile: tuple[str, int]) -> None:
    """Receive by the first receiver; the steps come between its statement and its answer."""
    model.steps, model.depth = iter([("return", 0), *meanwhile, ("return", 0)]), 1
    model.receive(model.receivers[0])
    model.depth = 0


def test_a_receive_under_way_does_not_pass_what_a_rollback_brings_back_meanwhile(model: Model) -> None:
    for _ in range(4):
        model.send(model.senders[0])
    model.step("commit", 0)
    model.receive(model.receivers[PROCESSES])
    slow_receive(model, ("failed", PROCESSES))
    assert [take(model, PROCESSES) for _ in range(2)] == [0, 2]


def test_nor_what_another_receive_from_the_head_has_seen_meanwhile(model: Model) -> None:
    for sender in (0, 0, 1, 1):
        model.send(model.senders[sender])
    model.step("commit", 1)
    slow_receive(model, ("commit", 0), ("tick", 0), ("receive", PROCESSES))
    assert model.receivers[PROCESSES].received == [0]
    assert [take(model) for _ in range(2)] == [1, 3]


def test_numbers_that_begin_again_are_found_at_once(model: Model) -> None:
    for _ in range(3):
        model.send(model.senders[0])
    model.step("commit", 0)
    assert [take(model) for _ in range(3)] == [0, 1, 2]
    model.step("reseed", 0)
    model.send(model.senders[0])
    model.step("commit", 0)
    assert take(model) == 3
    assert [row.row_version for row in model.rows] == []


def test_an_anchor_does_not_go_back_to_a_lower_row() -> None:
    current = Anchor(lambda: 0.0).current()
    for row_version in (5, 9, 7):
        current.advance(row_version)
    assert current.after == 9


def test_a_count_does_not_take_the_place_of_the_receive_that_goes_to_the_head() -> None:
    now = 0.0
    anchor = Anchor(lambda: now)
    anchor.current().advance(5)
    now = MAX_AGE / 2
    assert anchor.after == 5
    assert anchor.current().after == FIRST
    assert anchor.current().after == 5, "the others do not follow before it has found a message"
    now = MAX_AGE
    assert anchor.after == FIRST
