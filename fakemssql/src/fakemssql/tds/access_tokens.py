"""Access tokens in place of a password, as clients of Microsoft Entra ID send them.

A client announces a token in PRELOGIN (FEDAUTHREQUIRED, MS-TDS 2.2.6.5) and sends it in LOGIN7 as the feature FEDAUTH
with the library "security token" (2.2.6.4, FeatureExt). Entra's tokens are JSON Web Tokens, and servers check them by
Entra's public keys. Tokens of fakemssql have the same form and are signed with the administrator's password (RFC 7519;
RFC 7515, HS256). A token names the login and the time when it expires.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
import time

FEDAUTH = 0x02
"""Id of the feature in LOGIN7."""

_SECURITY_TOKEN = 0x01
_HEADER = {"typ": "JWT", "alg": "HS256"}
_NONCE_BYTES = 32


def issue(login: str, secret: str, lifetime: float) -> str:
    """Make a token for a login, valid for ``lifetime`` seconds; with a negative number it has expired already."""
    claims = {"sub": login, "exp": int(time.time() + lifetime)}
    signed = ".".join(_encoded(json.dumps(part).encode()) for part in (_HEADER, claims))
    return f"{signed}.{_signature(signed, secret)}"


def login_of(token: str, secret: str) -> str | None:
    """Return the login that a token names; None for a token of another server, a changed one, or an expired one."""
    signed, _, signature = token.rpartition(".")
    if not token.isascii() or not hmac.compare_digest(signature, _signature(signed, secret)):
        return None
    encoded = signed.partition(".")[2]
    claims = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    return str(claims["sub"]) if claims["exp"] > time.time() else None


def parse(feature: bytes) -> tuple[str, bytes]:
    """Token and nonce (may be empty) of a request. Raises :class:`ValueError` for a request of another kind."""
    if len(feature) < 5 or feature[0] >> 1 != _SECURITY_TOKEN:
        raise ValueError("not a request with a security token")
    (length,) = struct.unpack_from("<I", feature, 1)
    token, nonce = feature[5 : 5 + length], feature[5 + length :]
    if len(token) != length or len(nonce) not in (0, _NONCE_BYTES):
        raise ValueError("truncated security token")
    return token.decode("utf-16-le"), nonce


def _signature(signed: str, secret: str) -> str:
    key = secret.encode("utf-8", "surrogatepass")
    return _encoded(hmac.digest(key, signed.encode(), hashlib.sha256))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
