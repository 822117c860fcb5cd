"""Texts of leaf values, and the values that Arrow takes: dates are days and times microseconds since 1970.

A reader raises ValueError or ArithmeticError for a text that does not fit.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from datetime import date, datetime, timedelta, timezone
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

_INTEGER = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_EXACT = Context(prec=1 << 24, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Arithmetic on numbers of as many digits as a body can have."""

BITS = {"byte": 7, "short": 15, "integer": 31, "long": 63}
"""Bits of the integer types beside the sign."""

DATE_FORM = r"\d{4}-\d\d-\d\d"
LOCAL_FORM = DATE_FORM + r"T\d\d:\d\d:\d\d(\.\d{1,9})?"
ZONE_FORM = r"(Z|[+-]\d\d:[0-5]\d)"
# The hour 24 is refused, whatever a version of Python makes of it.
_TIME = re.compile(rf"({DATE_FORM}T(?!24)\d\d:\d\d:\d\d)(?:\.(\d{{1,9}}))?{ZONE_FORM}?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_DAYS = date(1970, 1, 1).toordinal()
MICROS = tuple((day - _DAYS) * 86_400_000_000 for day in (date.min.toordinal(), date.max.toordinal() + 1))
"""The first microsecond of the year 1 and the one after the year 9999, since 1970."""


class CoercionError(ValueError):
    """A value does not fit its column."""


def integer(text: str, bits: int) -> int:
    """Return a whole number of ``bits`` beside its sign, without a fraction or an exponent."""
    if not _INTEGER.fullmatch(text) or len(text) > 20 or not -(1 << bits) <= (found := int(text)) < 1 << bits:
        raise CoercionError
    return found


def _nearest(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else math.nan


def double(text: str) -> float:
    """Return the number that is written, if its shortest text says the same."""
    found = _nearest(text)
    if not math.isfinite(found) or Decimal(text) != Decimal(repr(found)):
        raise CoercionError
    return found


def float32(text: str) -> float:
    """Return the number of 32 bits that is written, if its shortest text says the same."""
    (found,) = struct.unpack("f", struct.pack("f", _nearest(text)))
    if not math.isfinite(found) or Decimal(text) != Decimal(shortest32(found)):
        raise CoercionError
    return found  # type: ignore[no-any-return]


def shortest32(value: float) -> str:
    """Return the shortest text that a float of 32 bits is read from."""
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next(text for text in texts if struct.pack("f", float(text)) == struct.pack("f", value))


def number_text(text: str) -> str:
    """Return the text of a number, without a point and an exponent if it is whole."""
    number = Decimal(text)
    return f"{number:.0f}" if number == number.to_integral_value() and abs(number) < 1 << 53 else text


def decimal(text: str, precision: int, scale: int) -> Decimal:
    """Return the number that is written, if the type has its digits."""
    form = _NUMBER.fullmatch(text)
    if not form:
        raise CoercionError
    whole, _, fraction = text.partition(".")
    if not form[2] and len(whole) <= precision - scale and len(fraction) <= scale:
        return Decimal(text)
    found = Decimal(text).normalize(_EXACT)
    exponent = found.as_tuple().exponent
    if found and (found.adjusted() >= precision - scale or not isinstance(exponent, int) or exponent < -scale):
        raise CoercionError
    return found.quantize(Decimal(1).scaleb(-scale), context=_EXACT) if found else Decimal(0)


def decimal_text(value: Decimal) -> str:
    """Return the text of a decimal, without zeros at its end."""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def days(text: str) -> int:
    """Days since 1970."""
    if not re.fullmatch(DATE_FORM, text, re.ASCII):
        raise CoercionError
    return date.fromisoformat(text).toordinal() - _DAYS


def instant(text: str, *, has_zone: bool) -> int:
    """Microseconds since 1970 of the years 1 to 9999, in UTC or as the clock shows them; finer digits are cut off."""
    found = _TIME.fullmatch(text)
    if found is None or bool(found[3]) is not has_zone:
        raise CoercionError
    zone = (found[3] or "Z").replace("Z", "+00:00")
    micros = (datetime.fromisoformat(f"{found[1]}.{(found[2] or '')[:6]:0<6}{zone}") - _EPOCH) // _MICROSECOND
    if not MICROS[0] <= micros < MICROS[1]:
        raise CoercionError
    return micros


def instant_text(micros: int, zone: str) -> str:
    """Return the text of :func:`instant`."""
    return (_EPOCH + micros * _MICROSECOND).isoformat().removesuffix("+00:00") + zone


def text_of(text: str) -> str:
    """Return the text itself, which may not have half of a surrogate pair: no column can hold it."""
    if not text.isascii():
        text.encode()
    return text


def boolean(text: str) -> bool:
    """True or false."""
    if text not in ("true", "false"):
        raise CoercionError
    return text == "true"


def binary(text: str) -> bytes:
    """Return the bytes of Base64, if this is the one text of them."""
    found = base64.b64decode(text, validate=True)
    if base64.b64encode(found).decode() != text:
        raise CoercionError
    return found
