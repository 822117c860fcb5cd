"""Access tokens in place of a password, as clients of Microsoft Entra ID send them.

A client brings its token in LOGIN7 as the feature FEDAUTH with the library "security token" (MS-TDS 2.2.6.4,
FeatureExt), after it has said so in PRELOGIN (FEDAUTHREQUIRED, 2.2.6.5). Entra's tokens are JSON Web Tokens that a
server checks by Entra's public keys; those of this one have the same form and are signed with the administrator's
password (RFC 7519; RFC 7515, HS256). A token says who logs in, and until when.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
import time

FEDAUTH = 0x02
"""The feature's id."""

_SECURITY_TOKEN = 0x01
_HEADER = {"typ": "JWT", "alg": "HS256"}
_NONCE = 32
"""Bytes."""


def issue(login: str, secret: str, lifetime: float) -> str:
    """A token for a login, valid for ``lifetime`` seconds; below zero it has expired already."""
    claims = {"sub": login, "exp": int(time.time() + lifetime)}
    signed = ".".join(_encoded(json.dumps(part).encode()) for part in (_HEADER, claims))
    return f"{signed}.{_signature(signed, secret)}"


def login_of(token: str, secret: str) -> str | None:
    """The login that a token is for; None for one that is not this server's, was changed, or has expired."""
    signed, _, signature = token.rpartition(".")
    if not token.isascii() or not hmac.compare_digest(signature, _signature(signed, secret)):
        return None
    claims = json.loads(_decoded(signed.partition(".")[2]))
    return str(claims["sub"]) if claims["exp"] > time.time() else None


def parse(feature: bytes) -> tuple[str, bytes]:
    """The token and the nonce of a request, which may be empty. Raises :class:`ValueError` for any other request."""
    if len(feature) < 5 or feature[0] >> 1 != _SECURITY_TOKEN:
        raise ValueError("not a request with a security token")
    (length,) = struct.unpack_from("<I", feature, 1)
    token, nonce = feature[5 : 5 + length], feature[5 + length :]
    if len(token) != length or len(nonce) not in (0, _NONCE):
        raise ValueError("truncated security token")
    return token.decode("utf-16-le"), nonce


def _signature(signed: str, secret: str) -> str:
    key = secret.encode("utf-8", "surrogatepass")
    return _encoded(hmac.digest(key, signed.encode(), hashlib.sha256))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
