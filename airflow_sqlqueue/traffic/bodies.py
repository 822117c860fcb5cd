"""Bodies of messages: valid JSON or XML as the sender's serializer writes it, with a heavy-tailed size.

A body is a short head of its own and a run of order lines. The lines are cut from a text that is made once, so that a
body of 200 KB costs one copy and no serialization.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from random import Random
from xml.sax.saxutils import escape

from airflow_sqlqueue.traffic.shop import MessageType

SMALLEST, LARGEST = 200, 200_000
"""Bounds of a body's size in bytes; a control message has no body."""

_MEDIAN, _SPREAD = 1_150.0, 1.1
_BULK_SHARE = 0.0012

CUSTOMERS = (
    "Zoë Ångström", "Łukasz Wójcik", "山田 花子", "Ana María Núñez", "Oliver Smith", "Νίκος Παπαδόπουλος",
    "Fatima Zahra", "Søren Kjær", "Chloé Lefèvre", "Дмитрий Соколов", "Priya Nair", "João Gonçalves", "Emily O'Brien",
    "Müller & Söhne",
)  # fmt: skip
_ARTICLES = (
    "Desk lamp", "Café au lait bowl", "Notebook A5 <ruled>", "Espresso tamper 58 mm", "Wool blanket",
    "緑茶 sencha 100 g", "Bicycle bell", 'Garden chair "Ærø"', "Gift card 🎁", "Kettle & toaster set", "Running socks",
    "Crème brûlée dishes",
)  # fmt: skip


def body_size(rng: Random, scale: float) -> int:
    """Random size in bytes: log-normal, with a few very large bulk orders."""
    if rng.random() < _BULK_SHARE:
        return int(40_000 * 5 ** rng.random())
    return min(LARGEST, max(SMALLEST, int(_MEDIAN * scale * rng.lognormvariate(0.0, _SPREAD))))


class _Lines:
    """Serialized order lines in one text, and the start of each line."""

    def __init__(self, lines: list[bytes], separator: bytes) -> None:
        self._text = separator.join(lines)
        self._separator = len(separator)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line) + len(separator))
        self._first_starts = bisect_right(self._starts, len(self._text) - LARGEST) - 1

    def cut(self, rng: Random, size: int) -> bytes:
        """Whole lines, from a random line on, with at most ``size`` bytes in all."""
        first = int(rng.random() * self._first_starts)
        begin = self._starts[first]
        last = bisect_right(self._starts, begin + size + self._separator) - 1
        return self._text[begin : self._starts[last] - self._separator] if last > first else b""


def _order_lines() -> tuple[_Lines, _Lines]:
    rng = Random(58)  # noqa: S311 - the same articles in every run
    as_json, as_xml = [], []
    total = 0
    while total < 2 * LARGEST:
        article = rng.choice(_ARTICLES)
        line = {
            "Sku": f"SKU-{rng.randrange(10**6):06d}",
            "Article": article,
            "Quantity": rng.randrange(1, 9),
            "UnitPrice": rng.randrange(99, 49_900) / 100,
        }
        as_json.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode())
        inner = "".join(f"<{name}>{escape(str(value))}</{name}>" for name, value in line.items())
        as_xml.append(f"<Line>{inner}</Line>".encode())
        total += len(as_json[-1])
    return _Lines(as_json, b","), _Lines(as_xml, b"")


_JSON_LINES, _XML_LINES = _order_lines()
_JSON_CUSTOMERS = tuple(json.dumps(name, ensure_ascii=False).encode() for name in CUSTOMERS)
_XML_CUSTOMERS = tuple(escape(name).encode() for name in CUSTOMERS)


@dataclass(frozen=True)
class BodyTemplate:
    """Pattern of the bodies of one message type in one serializer."""

    pattern: bytes
    lines: _Lines
    customers: tuple[bytes, ...]
    scale: float

    @classmethod
    def of(cls, message: MessageType, content_type: str) -> BodyTemplate:
        """Return the template of a type for a sender with this content type."""
        if content_type == "text/xml":
            pattern = (
                f'<?xml version="1.0"?>\r\n<{message.name} xmlns="http://tempuri.net/Shop.{message.owner}.Contracts">'
                "<OrderId>%b</OrderId><Customer>%b</Customer><OccurredAt>%b</OccurredAt><Total>%d.%02d</Total>"
                f"<Currency>EUR</Currency><Lines>%b</Lines></{message.name}>"
            )
            return cls(pattern.encode(), _XML_LINES, _XML_CUSTOMERS, message.size)
        pattern = (
            f'{{"$type":"{message.full_name}","OrderId":"%b","Customer":%b,"OccurredAt":"%b","Total":%d.%02d,'
            '"Currency":"EUR","Channel":"web","DeliveryNote":null,"Lines":[%b]}'
        )
        return cls(pattern.encode(), _JSON_LINES, _JSON_CUSTOMERS, message.size)

    def render(self, rng: Random, order_id: str, customer: int, sent: str) -> bytes:
        """Return a body of a random size. ``customer`` is an index into :data:`CUSTOMERS`, ``sent`` a wire time."""
        room = body_size(rng, self.scale) - len(self.pattern) - 80
        lines = self.lines.cut(rng, room) if room > 0 else b""
        occurred = f"{sent[:10]}T{sent[11:19]}.{sent[20:26]}Z".encode()
        euros, cents = divmod(int(len(lines) * 37.3) + 495, 100)
        return self.pattern % (order_id.encode(), self.customers[customer], occurred, euros, cents, lines)
