"""Connection strings of .NET (SqlClient), as in the configuration of endpoints.

The grammar is the one that Microsoft documents for ``DbConnectionStringBuilder``. The keys and their synonyms are those
of ``SqlConnectionStringBuilder``, and each is mapped to its keyword in the ODBC Driver 18 for SQL Server.
``Queue Schema`` is a key of the transport's versions 1 and 2 (docs/transport/addresses.md, "Resolution").

No error quotes a value, or a key after a password: it may be the rest of a password with an unquoted semicolon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.server.settings import (
    DEFAULT_LOGIN_TIMEOUT,
    DEFAULT_PORT,
    ConnectionSettings,
    named_instance,
    split_host,
)

_BOOLEAN = {"true": "yes", "yes": "yes", "false": "no", "no": "no"}
_ANY: Mapping[str, str] = {}

_ODBC: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "Application Intent": ("ApplicationIntent", {"readonly": "ReadOnly", "readwrite": "ReadWrite"}),
    "Application Name": ("APP", _ANY),
    "Authentication": (
        "Authentication",
        {
            "sqlpassword": "SqlPassword",
            "activedirectorypassword": "ActiveDirectoryPassword",
            "activedirectoryintegrated": "ActiveDirectoryIntegrated",
            "activedirectoryinteractive": "ActiveDirectoryInteractive",
            "activedirectorydefault": "ActiveDirectoryDefault",
            "activedirectoryserviceprincipal": "ActiveDirectoryServicePrincipal",
            "activedirectorymanagedidentity": "ActiveDirectoryMsi",
            "activedirectorymsi": "ActiveDirectoryMsi",
        },
    ),
    "Column Encryption Setting": ("ColumnEncryption", {"enabled": "Enabled", "disabled": "Disabled"}),
    "Connect Retry Count": ("ConnectRetryCount", _ANY),
    "Connect Retry Interval": ("ConnectRetryInterval", _ANY),
    "Current Language": ("Language", _ANY),
    "Encrypt": ("Encrypt", {**_BOOLEAN, "mandatory": "yes", "optional": "no", "strict": "strict"}),
    "Failover Partner": ("Failover_Partner", _ANY),
    "Failover Partner SPN": ("FailoverPartnerSPN", _ANY),
    "Host Name In Certificate": ("HostnameInCertificate", _ANY),
    "Integrated Security": ("Trusted_Connection", {**_BOOLEAN, "sspi": "yes"}),
    "IP Address Preference": ("IpAddressPreference", _ANY),
    "Multi Subnet Failover": ("MultiSubnetFailover", _BOOLEAN),
    "Replication": ("Replication", _BOOLEAN),
    "Server Certificate": ("ServerCertificate", _ANY),
    "Server SPN": ("ServerSPN", _ANY),
    "Transparent Network IP Resolution": (
        "TransparentNetworkIPResolution",
        {"true": "Enabled", "yes": "Enabled", "false": "Disabled", "no": "Disabled"},
    ),
    "Trust Server Certificate": ("TrustServerCertificate", _BOOLEAN),
    "Workstation ID": ("WSID", _ANY),
}
"""ODBC keywords by key, with their values for those of .NET (in lower case, without blanks); empty: any value."""

_OURS = ("Data Source", "Initial Catalog", "User ID", "Password", "Connect Timeout", "Queue Schema")

_IGNORED = (
    *("Asynchronous Processing", "Attestation Protocol", "Command Timeout", "Connection Lifetime", "Connection Reset"),
    *("Enclave Attestation Url", "Enlist", "Load Balance Timeout", "Max Pool Size", "Min Pool Size"),
    *("Multiple Active Result Sets", "Packet Size", "Persist Security Info", "Pool Blocking Period", "Pooling"),
    *("Transaction Binding", "Type System Version"),
)
"""Keys that concern only .NET's client, its pool and its transactions."""

_NOT_BY_TCP = "reaches the server by a named pipe or shared memory: give its TCP address, as Server=host,port."
_REFUSED = {
    "AttachDbFilename": "attaches a file: attach it on the server, and name the database with Initial Catalog.",
    "Context Connection": "works inside SQL Server only: name the server with Data Source.",
    "Network Library": _NOT_BY_TCP,
    "User Instance": "starts a server on the user's Windows machine: name one that runs with Data Source.",
}
_HARMLESS = {"false", "no", "dbmssocn"}
"""Values with which a refused key has no effect: dbmssocn is the network library for TCP."""

_SYNONYMS = {
    "Addr": "Data Source",
    "Address": "Data Source",
    "App": "Application Name",
    "Async": "Asynchronous Processing",
    "Connection Timeout": "Connect Timeout",
    "Database": "Initial Catalog",
    "Extended Properties": "AttachDbFilename",
    "Initial File Name": "AttachDbFilename",
    "Language": "Current Language",
    "Net": "Network Library",
    "Network": "Network Library",
    "Network Address": "Data Source",
    "PWD": "Password",
    "Server": "Data Source",
    "Timeout": "Connect Timeout",
    "Trusted_Connection": "Integrated Security",
    "UID": "User ID",
    "User": "User ID",
    "WSID": "Workstation ID",
}


def _folded(text: str) -> str:
    """Return a key or a value in lower case without blanks: newer versions write both with or without blanks."""
    return re.sub(r"\s", "", text).lower()


_KEYS = {_folded(name): name for name in (*_ODBC, *_OURS, *_IGNORED, *_REFUSED)}
_KEYS |= {_folded(synonym): name for synonym, name in _SYNONYMS.items()}

_CONTROL = r"\0-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"
_PAIR = re.compile(
    rf"""[\s;]*
    (?P<key>(?:==|[^=\s;{_CONTROL}])(?:==|[^={_CONTROL}])*)=(?!=)\s*
    (?:
        "(?P<double>(?:[^"\0]|"")*)"\s*
      | '(?P<single>(?:[^'\0]|'')*)'\s*
      | (?P<bare>(?:[^"'\s;{_CONTROL}][^;{_CONTROL}]*)?)
    )(?:;|\Z)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class ConnectionString:
    """The parts of a connection string; a missing part is empty or has its default.

    ``queue_schema`` is the schema of queues whose address does not give one. ``keywords`` are ODBC keywords, as in
    :class:`~airflow_sqlqueue.server.settings.ConnectionSettings`. With ``Integrated Security`` there is no user:
    SqlClient ignores a user in the string.
    """

    host: str = ""
    port: int = DEFAULT_PORT
    database: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    keywords: Mapping[str, str] = field(default_factory=dict, repr=False)
    login_timeout: int = DEFAULT_LOGIN_TIMEOUT
    queue_schema: str | None = None
    instance: str | None = None

    @classmethod
    def parse(cls, text: str) -> ConnectionString:
        """Read a connection string. Raises :class:`ConfigurationError` for malformed text and for unsupported keys."""
        values = _values(text)
        for name, advice in _REFUSED.items():
            if _folded(values.get(name, "no")) not in _HARMLESS:
                raise ConfigurationError(f"{name} in the connection string {advice}")
        host, instance, port = _server(values.get("Data Source", ""))
        keywords = {_ODBC[name][0]: _odbc_value(name, value) for name, value in values.items() if name in _ODBC}
        if keywords.get("Trusted_Connection") == "no":
            del keywords["Trusted_Connection"]
        return cls(
            host=host,
            port=DEFAULT_PORT if port is None else port,
            instance=named_instance(instance, port),
            database=values.get("Initial Catalog", ""),
            user=None if "Trusted_Connection" in keywords else values.get("User ID"),
            password=values.get("Password"),
            keywords=keywords,
            login_timeout=_whole_number("Connect Timeout", values.get("Connect Timeout", str(DEFAULT_LOGIN_TIMEOUT))),
            queue_schema=values.get("Queue Schema"),
        )

    def settings(self) -> ConnectionSettings:
        """Return the settings. Raises :class:`ConfigurationError` if the string names no server or database."""
        return ConnectionSettings(**{name: value for name, value in vars(self).items() if name != "queue_schema"})


def is_connection_string(text: str) -> bool:
    """Return whether a text has the form ``key=value``, which no URL has."""
    return re.match(r"[\s;]*\w[\w\s]*=", text) is not None


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the keys, as written, and their values. Raises :class:`ConfigurationError` for malformed text."""
    position, previous = 0, None
    while text[position:].strip("; \t\r\n"):
        found = _PAIR.match(text, position)
        if found is None or (found["bare"] or "").rstrip().endswith(('"', "'")):
            raise _malformed(previous)
        if found["double"] is not None:
            value = found["double"].replace('""', '"')
        elif found["single"] is not None:
            value = found["single"].replace("''", "'")
        else:
            value = found["bare"].rstrip()
        previous = found["key"].rstrip().replace("==", "=")
        yield previous, value
        position = found.end()


def _values(text: str) -> dict[str, str]:
    """Return the values by the keys' standard names; the last value of a key counts, and an empty one is not given."""
    values: dict[str, str] = {}
    previous = None
    for key, value in pairs(text):
        name = _KEYS.get(_folded(key))
        if name is None:
            if _KEYS.get(_folded(previous or "")) == "Password" or not re.fullmatch(r"[\w ]+", key):
                raise _malformed(previous)
            raise ConfigurationError(f"The key {key!r} of the connection string is not known: correct or remove it.")
        values[name] = value
        previous = key
    return {name: value for name, value in values.items() if value and name not in _IGNORED}


def _malformed(previous: str | None) -> ConfigurationError:
    """Return the error for malformed text; ``previous`` is the key before it."""
    where = "The connection string" if previous is None else f"The text after {previous} in the connection string"
    return ConfigurationError(
        f"{where} is not of the form key=value;key=value: put a value with a semicolon or quotes in double quotes, "
        "and double those inside."
    )


def _odbc_value(name: str, value: str) -> str:
    _, choices = _ODBC[name]
    if not choices:
        return value
    if chosen := choices.get(_folded(value)):
        return chosen
    raise ConfigurationError(
        f"The value of {name} in the connection string is not known to the ODBC driver: "
        f"give one of {', '.join(dict.fromkeys(choices.values()))}."
    )


def _server(source: str) -> tuple[str, str | None, int | None]:
    """Return the host, the instance and the port of ``[tcp:]host[\\instance][,port]``."""
    protocol, colon, rest = (part.strip() for part in source.partition(":"))
    if source.strip().startswith("\\\\") or (colon and protocol.lower() in {"np", "lpc", "admin"}):
        raise ConfigurationError(f"Data Source in the connection string {_NOT_BY_TCP}")
    address = rest if colon and protocol.lower() == "tcp" else source
    name, comma, number = (part.strip() for part in address.partition(","))
    host, instance = split_host(name)
    if host.lower() == "(localdb)":
        raise ConfigurationError(
            "LocalDB serves programs of one Windows user only: give a server's TCP address, as Server=host,port."
        )
    port = _whole_number("The port of Data Source", number) if comma else None
    host = host.removeprefix("[").removesuffix("]")
    if ":" in host and not _is_ipv6(host):
        raise ConfigurationError(
            "Data Source in the connection string is not a server's name: write a port behind a comma, as "
            "Server=host,port."
        )
    return host, instance, port


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def _whole_number(what: str, text: str) -> int:
    if re.fullmatch(r"\s*[0-9]{1,9}\s*", text) is None:
        raise ConfigurationError(f"{what} in the connection string is not a whole number: give one.")
    return int(text)
