"""LOGIN7 message (MS-TDS 2.2.6.4), and the check of the administrator's password or token."""

from __future__ import annotations

import hmac
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from fakemssql.contract import SqlError
from fakemssql.tds import access_tokens

_FIXED = struct.Struct("<IIIIIIBBBBiI")
_EXTENSION_USED = 0x10
"""Bit fExtension in OptionFlags3: the client appended feature requests."""


@dataclass(frozen=True)
class Login:
    """Fields of a LOGIN7 message that the server uses. The password stays out of ``repr``."""

    tds_version: int
    packet_size: int
    user: str
    password: str = field(repr=False)
    application: str
    database: str
    language: str
    integrated: bool
    features: Mapping[int, bytes] = field(repr=False)
    host: str = ""
    library: str = ""
    process: int = 0

    @property
    def brings_token(self) -> bool:
        """Whether the client logs in with an access token."""
        return access_tokens.FEDAUTH in self.features


def parse(data: bytes) -> Login:
    """Parse a LOGIN7 message. Raises :class:`ValueError` if an offset points outside of it."""
    if len(data) < 94:
        raise ValueError("truncated login")
    _, version, packet_size, _, process, _, _, flags2, _, flags3, _, _ = _FIXED.unpack_from(data)

    def raw(position: int, unit: int = 2) -> bytes:
        offset, length = struct.unpack_from("<HH", data, position)
        if offset + length * unit > len(data):
            raise ValueError("login field outside of its message")
        return data[offset : offset + length * unit]

    def text(position: int) -> str:
        return raw(position).decode("utf-16-le", "replace")

    features: dict[int, bytes] = {}
    if flags3 & _EXTENSION_USED:
        pointer = raw(56, 1)
        if len(pointer) == 4:
            features = parse_features(data, struct.unpack("<I", pointer)[0])
    return Login(
        tds_version=version,
        packet_size=packet_size,
        user=text(40),
        password=reveal(raw(44)),
        application=text(48),
        database=text(68),
        language=text(64),
        integrated=bool(flags2 & 0x80),
        features=features,
        host=text(36),
        library=text(60),
        process=process & 0x7FFFFFFF,
    )


def parse_features(data: bytes, position: int) -> dict[int, bytes]:
    """Feature requests (FeatureExt) by feature id."""
    found: dict[int, bytes] = {}
    while position < len(data) and data[position] != 0xFF:
        if position + 5 > len(data):
            raise ValueError("truncated feature request")
        feature, length = struct.unpack_from("<BI", data, position)
        found[feature] = data[position + 5 : position + 5 + length]
        position += 5 + length
    return found


_REVEAL = bytes(((b ^ 0xA5) >> 4 | ((b ^ 0xA5) << 4 & 0xF0)) for b in range(256))


def reveal(obscured: bytes) -> str:
    """Decode the password of a LOGIN7 message: the client swapped the nibbles of each byte and XORed it with 0xA5."""
    return obscured.translate(_REVEAL).decode("utf-16-le", "replace")


@dataclass(frozen=True)
class Account:
    """Account of a login. The engine checks ``password``; None is a checked login. An access token brings ``nonce``."""

    name: str
    password: str | None = field(repr=False)
    nonce: bytes | None = None


@dataclass(frozen=True)
class Credentials:
    """Name and password of the administrator. The engine has all other logins."""

    user: str
    password: str = field(repr=False)

    def admit(self, login: Login) -> Account:
        """Return the account of a login. Raises :class:`SqlError` 18456 as :meth:`check` does, and for an invalid
        token.
        """
        if not login.brings_token:
            return Account(self.user, None) if self.check(login) else Account(login.user, login.password)
        try:
            token, nonce = access_tokens.parse(login.features[access_tokens.FEDAUTH])
        except ValueError as error:
            raise login_failed("<token-identified principal>") from error
        name = access_tokens.login_of(token, self.password)
        if name is None or name.casefold() != self.user.casefold():
            raise login_failed("<token-identified principal>")
        return Account(self.user, None, nonce)

    def check(self, login: Login) -> bool:
        """True for the administrator; False for another login, whose password the engine checks.

        Raises :class:`SqlError` 18456 for a wrong password of the administrator and for a login without a password.
        """
        password = hmac.compare_digest(_digestible(login.password), _digestible(self.password))
        if login.integrated:
            raise login_failed(login.user)
        if login.user.casefold() != self.user.casefold():
            return False
        if not password:
            raise login_failed(login.user)
        return True


def login_failed(user: str) -> SqlError:
    """Error 18456, the same for every reason why a login fails."""
    return SqlError(18456, f"Login failed for user '{user}'.", severity=14, state=1)


def _digestible(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")
