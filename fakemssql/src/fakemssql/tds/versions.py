"""Versions of TDS that the server speaks (MS-TDS 2.2.6.4 LOGIN7, 2.2.7.14 LOGINACK)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Version:
    """Version of TDS, with the differences in its messages.

    Since 7.2 (``wide``) a request starts with ALL_HEADERS, row counts have 8 bytes, a UserType and the line of an error
    have 4, messages and tokens handle transactions, and values of ``max`` types come in parts; before, they are
    ``text``, ``ntext`` and ``image``. Since 7.3 there are types for dates (``dates``); before, dates are ``nvarchar``.
    """

    name: str
    acknowledged: int
    wide: bool = True
    dates: bool = True


TDS_7_1 = Version("7.1", 0x07010000, wide=False, dates=False)
TDS_7_1_REVISION_1 = Version("7.1", 0x71000001, wide=False, dates=False)
TDS_7_2 = Version("7.2", 0x72090002, dates=False)
TDS_7_3 = Version("7.3", 0x730A0003)
TDS_7_4 = Version("7.4", 0x74000004)
TDS_8_0 = Version("8.0", 0x08000000)

SPOKEN = "TDS 7.1, 7.2, 7.3, 7.4 and 8.0"
_BY_FIRST_BYTE = {0x71: TDS_7_1_REVISION_1, 0x72: TDS_7_2, 0x73: TDS_7_3, 0x74: TDS_7_4, 0x08: TDS_8_0}
_FIRST_7_1 = 0x71000000
"""Version of SQL Server 2000 before its first service pack; it is acknowledged in another byte order."""


def spoken(asked: int) -> Version | None:
    """Version for a client that requests this number in its login; None for an unknown version."""
    return TDS_7_1 if asked == _FIRST_7_1 else _BY_FIRST_BYTE.get(asked >> 24)
