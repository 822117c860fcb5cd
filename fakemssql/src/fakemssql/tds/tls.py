"""Certificate of the server, and the TLS handshake inside PRELOGIN packets."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from fakemssql.contract import ClientGone
from fakemssql.tds.packets import PacketType
from fakemssql.tds.stream import Stream

_TEN_YEARS = datetime.timedelta(days=3650)


@dataclass(frozen=True)
class TlsContexts:
    """Contexts: ``login`` for TLS inside TDS (at most 1.2), ``strict`` for TDS 8.0, where TLS comes first."""

    login: ssl.SSLContext
    strict: ssl.SSLContext


def contexts(directory: Path) -> TlsContexts:
    """Return the contexts with the certificate of ``directory``, which is made if it is missing."""
    certificate, key = ensure_certificate(directory)

    def context() -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(certificate, key)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        return made

    login, strict = context(), context()
    # TLS 1.3 sends session tickets after the handshake, where TDS no longer wraps the data of TLS.
    login.maximum_version = ssl.TLSVersion.TLSv1_2
    login.options |= ssl.OP_NO_TICKET
    strict.set_alpn_protocols(["tds/8.0"])
    return TlsContexts(login, strict)


def certificate_path(directory: Path) -> Path:
    """Return the path of the certificate in a server's data directory, for clients that pin it."""
    return directory / "certificate.pem"


def ensure_certificate(directory: Path) -> tuple[Path, Path]:
    """Return the paths of a self-signed certificate for this machine and of its key, which are made if they are
    missing.
    """
    certificate, key = certificate_path(directory), directory / "certificate.key"
    if certificate.exists() and key.exists():
        return certificate, key
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    now = datetime.datetime.now(datetime.timezone.utc)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _TEN_YEARS)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, hashes.SHA256())
    )
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(pem)
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def handshake_in_prelogin(stream: Stream, context: ssl.SSLContext) -> ssl.SSLObject:
    """Do the handshake inside PRELOGIN messages. The caller switches to the returned TLS object."""
    tls = stream.transport.begin_handshake(context)
    complete = False
    while not complete:
        message = stream.read_message()
        if message.type != PacketType.PRELOGIN or message.withdrawn:
            raise ClientGone
        complete, answer = stream.transport.handshake_step(tls, message.data)
        if answer:
            stream.send_raw_packet(PacketType.PRELOGIN, answer)
    return tls
