"""Account of the soak: the places of all messages, compared with the sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from soak_roles import REFUSED, SENT
from soak_setting import AUDIT, ERROR, KINDS, NOTES, ORDERS, Plan, body_of, message_id, name_in

from airflow_sqlqueue.drain.batch_reader import batch_rows
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.errors import BatchNotFoundError
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query

QUEUES = (AUDIT, f"{AUDIT}.Delayed", ORDERS, f"{ORDERS}.Delayed", NOTES)


@dataclass
class Verdict:
    """Numbers of messages, but for ``torn``, which counts sends with only a part of their messages there.

    ``unknown`` messages are those of sends whose answer was lost: all of a send are there, or none. ``expired`` are
    those that are gone and were to expire, by queue; ``perhaps_expired`` those of sends whose answer was lost.
    """

    sent: int = 0
    unknown_there: int = 0
    unknown_absent: int = 0
    refused: int = 0
    expired: Counter[str] = field(default_factory=Counter)
    perhaps_expired: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    doubled: int = 0
    torn: int = 0
    made_up: int = 0
    changed: int = 0


class Account:
    """Messages by the places where they were found."""

    def __init__(self) -> None:
        self.places: Counter[str] = Counter()
        self._found: Counter[UUID] = Counter()
        self._changed = 0

    def add(self, place: str, bodies: Iterable[bytes | None]) -> int:
        """Add the messages of a place, by their bodies, and return how many there are."""
        before = self.places[place]
        for body in bodies:
            name = name_in(body or b"")
            self._found[name] += 1
            self._changed += body_of(name) != body
            self.places[place] += 1
        return self.places[place] - before

    def settle(self, sends: Iterable[tuple[int, int, int, int, str]]) -> Verdict:
        """Compare what was found with what was sent: sender, kind, first number, count and outcome of each send."""
        verdict, known = Verdict(changed=self._changed), set[UUID]()
        for sender, number, first, count, outcome in sends:
            kind = KINDS[number]
            names = [message_id(sender, each) for each in range(first, first + count)]
            known.update(names)
            there = sum(name in self._found for name in names)
            if outcome == SENT:
                verdict.sent += count
                if kind.expires:
                    verdict.expired[kind.queue] += count - there
                else:
                    verdict.lost += count - there
            elif outcome == REFUSED:
                verdict.refused += count
                verdict.made_up += there
            else:
                verdict.unknown_there += there
                verdict.unknown_absent += count - there
                if kind.expires:
                    verdict.perhaps_expired[kind.queue] += count - there
                else:
                    verdict.torn += 0 < there < count
        verdict.doubled = sum(times - 1 for times in self._found.values())
        verdict.made_up += sum(name not in known for name in self._found)
        return verdict


@dataclass
class Ledgers:
    """Numbers of the ledger: batches, and expired messages that their drains have dropped."""

    batches: int = 0
    dropped: int = 0
    differences: int = 0


def read(plan: Plan, batches: Iterable[UUID]) -> tuple[Account, Ledgers]:
    """Find all messages, in batches, handled, in error, in quarantine and in queues; unfinished batches are sealed."""
    account, ledgers = Account(), Ledgers()
    with plan.client.session() as session:
        for name in QUEUES:
            account.add("in a queue", _bodies(session, plan, name))
        account.add("in error", _bodies(session, plan, ERROR))
        account.add("handled", _bodies(session, plan, "Handled"))
        account.add("in quarantine", _bodies(session, plan, "Quarantine"))
        ledger = Ledger(session, plan.client.resolve(AUDIT).catalog)
        in_table = 0
        for batch_id in batches:
            try:
                batch = ledger.seal(batch_id)
            except BatchNotFoundError:
                continue
            rows = batch_rows(ledger, batch_id, batch.stage)
            number = account.add(f"in batches, {batch.stage}", (row.body for row in rows))
            in_table += number if batch.stage == "table" else 0
            ledgers.batches += 1
            ledgers.dropped += sum(part.expired for part in ledger.parts(batch_id))
            ledgers.differences += abs(number - batch.messages)
        staged = len(list(_bodies(session, plan, "BatchMessage")))
        ledgers.differences += abs(staged - in_table)
    return account, ledgers


def _bodies(session: Session, plan: Plan, table: str) -> Iterable[bytes]:
    """Return the bodies of a table, once no transaction of a lost connection holds a row of it."""
    name = plan.client.resolve(table).qualified_name
    text = f"SELECT [Body] FROM {name} WITH (READCOMMITTEDLOCK)"  # noqa: S608 - our own names
    return (bytes(body or b"") for (body,) in session.run(Query("soak.bodies", "read a table of the soak", text)))
