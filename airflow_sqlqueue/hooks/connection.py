"""Reader of Airflow connections: settings of the server, routing and ledger.

Accepted connection types and the meaning of their extra (docs/concepts/connections.md, "Connection types"):

- ``sqlqueue``: the fields below; any other key is an error.
- ``odbc``: the fields below; any other key is an ODBC keyword.
- ``mssql``: the fields below; pymssql's own keys are ignored (``login_timeout`` means the same to both).

``access_token_conn_id`` names a connection that gives access tokens (:mod:`.access_token`). ``connection_string`` is
one of .NET; all other fields of the connection win over it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from airflow.sdk.log import mask_secret

from airflow_sqlqueue.errors import AddressError, ConfigurationError
from airflow_sqlqueue.hooks.access_token import ConnectionToken
from airflow_sqlqueue.hooks.connection_extra import extra_of
from airflow_sqlqueue.messages.routing import DELAYED_SUFFIX, SUBSCRIPTION_TABLE, AddressResolver
from airflow_sqlqueue.options import whole_number
from airflow_sqlqueue.server import entra
from airflow_sqlqueue.server.connection_policy import ONLY_LISTED, Allowed, check_keywords
from airflow_sqlqueue.server.connection_string import ConnectionString
from airflow_sqlqueue.server.session import DEFAULT_LOCK_TIMEOUT
from airflow_sqlqueue.server.settings import (
    LEDGER_SCHEMA,
    MOST_LOCK_TIMEOUT,
    ConnectionSettings,
    load_pyodbc,
    named_instance,
    split_host,
)

if TYPE_CHECKING:
    from airflow.sdk import Connection

CONNECTION_TYPES = ("sqlqueue", "mssql", "odbc")
ROUTING_NAMES = ("default_schema", "default_catalog")
ROUTING_MAPPINGS = ("queue_schemas", "queue_catalogs", "endpoint_schemas", "endpoint_catalogs")
ROUTING_LISTS = ("allowed_catalogs", "allowed_schemas")

_KEYWORDS = {
    "authentication": "Authentication",
    "encrypt": "Encrypt",
    "trust_server_certificate": "TrustServerCertificate",
    "application_intent": "ApplicationIntent",
    "multi_subnet_failover": "MultiSubnetFailover",
}
FIELDS = {
    *("connection_string", "driver", "login_timeout", "lock_timeout", "keywords", "ledger_schema"),
    *("transport_version", "delayed_suffix", "subscription_table", "access_token_conn_id"),
    *(*_KEYWORDS, *ROUTING_NAMES, *ROUTING_MAPPINGS, *ROUTING_LISTS),
}
"""Keys of the extra; a hook takes some of them as arguments too."""

_NOT_OURS = {
    *("connect_kwargs", "escape_column_names", "escape_word_format", "insert_statement_format", "placeholder"),
    *("replace_statement_format", "sqlalchemy_scheme"),
}
"""Keys that common-sql and OdbcHook read from an extra."""

_ARRAY = re.compile(r'\s*\[\s*["\]]')
"""Beginning of a JSON array of texts, which a name in brackets does not have."""

_SHORTEST = 5
"""Characters of the shortest value that Airflow masks; it warns about a shorter one."""


@dataclass(frozen=True)
class QueueConnection:
    """Values of an Airflow connection; the arguments of a hook override them. ``lock_timeout`` is in seconds.

    ``secrets`` must not appear in a log: the connection string and all passwords, also one that another overrides.
    """

    settings: ConnectionSettings
    resolver: AddressResolver
    lock_timeout: float
    secrets: frozenset[str] = field(repr=False)

    def mask_secrets(self) -> None:
        """Mask the ODBC keywords, and the passwords in every written form, in Airflow's logs and rendered fields."""
        mask_secret({name: value for name, value in self.settings.keywords.items() if len(value) >= _SHORTEST})
        for form in {form for secret in self.secrets for form in _written_forms(secret)}:
            mask_secret(form)


def _written_forms(secret: str) -> set[str]:
    """Return a password as it is, as in a connection string of ODBC or .NET, and as in a URL."""
    braced = secret.replace("}", "}}")
    doubled = (secret.replace('"', '""'), secret.replace("'", "''"))
    return {secret, braced, quote_plus(braced), quote_plus(secret), *doubled}


def read_connection(
    connection: Connection,
    *,
    database: str | None = None,
    allowed: Allowed = ONLY_LISTED,
    arguments: Mapping[str, Any] | None = None,
) -> QueueConnection:
    """Read a connection; ``database`` and ``arguments`` (driver, routing, ledger, lock timeout) win over it.

    A mapping in ``arguments`` wins key by key. An argument that the extra has too is the extra's, and is trusted no
    more than that: Airflow's SQL operators pass each key of an extra to the hook. ``allowed`` adds permissions to the
    lists of :mod:`airflow_sqlqueue.server.connection_policy`. Raises :class:`ConfigurationError` for an unusable
    connection and :class:`AddressError` for routing that is, each with the connection's id.
    """
    name, written = connection.conn_id, extra_of(connection)
    try:
        extra = _extra(connection, written)
        own = {key: value for key, value in (arguments or {}).items() if value not in (None, extra.get(key))}
        given = _over(extra, own)
        text = _text(extra, "connection_string") or ""
        string = ConnectionString.parse(text)
        token_from = _text(extra, "access_token_conn_id")
        others = dict(string.keywords)
        if connection.login:
            # The connection's own login wins over integrated security.
            others.pop("Trusted_Connection", None)
        # A secrets backend such as Vault may have it as a text.
        port = whole_number("port", connection.port)
        host, instance = split_host(connection.host) if connection.host else (string.host, string.instance)
        settings = ConnectionSettings(
            host=host,
            instance=named_instance(instance, port),
            port=string.port if port is None else port,
            database=_text({"database": database}, "database") or connection.schema or string.database,
            user=connection.login or string.user or None,
            password=connection.password or string.password or None,
            driver=_text(own, "driver") or _driver(_text(extra, "driver"), allowed),
            keywords=_keywords(extra, others),
            login_timeout=math.ceil(_number(extra, "login_timeout", string.login_timeout)),
            access_token=None if token_from is None else ConnectionToken(token_from, entra.scope_of(host)),
            conn_id=name,
            ledger_schema=_text(given, "ledger_schema") or LEDGER_SCHEMA,
        )
        _check_hosts(settings, allowed)
        names = {key: _text(given, key) for key in ROUTING_NAMES}
        names["default_schema"] = names["default_schema"] or string.queue_schema
        names["default_catalog"] = names["default_catalog"] or settings.database
        mappings = {key: _names(given, key) for key in ROUTING_MAPPINGS}
        names["transport_version"] = str(given.get("transport_version") or "") or None
        names["delayed_suffix"] = _text(given, "delayed_suffix") or DELAYED_SUFFIX
        names["subscription_table"] = _text(given, "subscription_table") or SUBSCRIPTION_TABLE
        lists = {key: _list(given, key) for key in ROUTING_LISTS}
        return QueueConnection(
            settings=settings,
            resolver=AddressResolver(**names, **mappings, **lists),  # type: ignore[arg-type]
            lock_timeout=_number(given, "lock_timeout", DEFAULT_LOCK_TIMEOUT),
            secrets=frozenset(filter(None, (connection.password, string.password, text))),
        )
    except (AddressError, ConfigurationError) as error:
        raise type(error)(f"Connection {name!r}: {error}") from error


def _extra(connection: Connection, written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extra as it is written, under this provider's names only, without empty values."""
    kind = connection.conn_type
    if kind not in CONNECTION_TYPES:
        raise ConfigurationError(f"its type is {kind!r}: use one of type {', '.join(CONNECTION_TYPES)}.")
    values = {key: value for key, value in written.items() if value not in (None, "")}
    ours = {key: value for key, value in values.items() if key in FIELDS}
    others = {key: value for key, value in values.items() if key not in FIELDS and key not in _NOT_OURS}
    if kind == "odbc":
        for key in [key for key in others if key.lower() == "driver"]:
            ours.setdefault("driver", others.pop(key))
        ours["keywords"] = {**others, **_mapping(ours, "keywords")}
    elif kind == "sqlqueue" and others:
        raise ConfigurationError(
            f"the extra {', '.join(sorted(others))} is not known: put ODBC keywords under 'keywords', and see "
            f"'airflow providers get airflow-sqlqueue' for the fields."
        )
    return ours


def _over(extra: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**extra, **arguments}
    for key in ROUTING_MAPPINGS:
        merged[key] = {**_mapping(extra, key), **_mapping(arguments, key)}
    return merged


def _driver(name: str | None, allowed: Allowed) -> str | None:
    """Return the connection's driver. Raises for a driver that is not allowed."""
    if name is not None:
        allowed.check_driver(name, load_pyodbc().drivers())
    return name


def _check_hosts(settings: ConnectionSettings, allowed: Allowed) -> None:
    """Check the hosts to which the driver may send a token of Entra ID: the server and its mirror."""
    if not entra.is_login(settings.keywords, has_token=settings.access_token is not None):
        return
    partners = [value for name, value in settings.keywords.items() if name.strip().lower() == "failover_partner"]
    for host in (settings.host, *partners):
        allowed.check_token_host(host)


def _keywords(extra: Mapping[str, Any], others: Mapping[str, str]) -> dict[str, str]:
    """Return the ODBC keywords of the extra: first ``keywords``, then the fields of the form, then ``others``."""
    keywords = {key: _keyword(value) for key, value in _mapping(extra, "keywords").items()}
    fields = {keyword: _keyword(extra[name]) for name, keyword in _KEYWORDS.items() if name in extra}
    for more in (fields, others):
        given = {key.lower() for key in keywords}
        keywords |= {key: value for key, value in more.items() if key.lower() not in given}
    check_keywords(keywords, in_connection=True)
    return keywords


def _keyword(value: Any) -> str:
    """Return the text of an ODBC keyword's value: ``yes`` and ``no`` for true and false of JSON."""
    text = str(value)
    return {"true": "yes", "false": "no"}.get(text.lower(), text)


def _text(values: Mapping[str, Any], key: str) -> str | None:
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{key} has to be text, not {type(value).__name__}.")
    return value or None


def _number(values: Mapping[str, Any], key: str, default: float) -> float:
    try:
        value = float(values.get(key, default))
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(f"{key} has to be a number of seconds.") from error
    if not 0 <= value <= MOST_LOCK_TIMEOUT:  # Not a number is not in the range either.
        raise ConfigurationError(f"{key} has to be a number of seconds from 0 to {MOST_LOCK_TIMEOUT}.")
    return value


def _list(values: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    """Return the names of a JSON array, of its text, or of a text with commas; None for no value."""
    value = values.get(key)
    if isinstance(value, str):
        try:
            value = json.loads(value) if _ARRAY.match(value) else value.split(",")
        except ValueError as error:
            raise ConfigurationError(f"{key} is not JSON: write an array of names.") from error
    if value is None:
        return None
    if (
        isinstance(value, Mapping)
        or not isinstance(value, Collection)
        or not all(isinstance(name, str) for name in value)
    ):
        raise ConfigurationError(f"{key} has to be an array of names.")
    return tuple(name.strip() for name in value if name.strip())


def _names(values: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return a JSON object whose values are names; that of None would be a schema ``None``."""
    found = _mapping(values, key)
    for name, value in found.items():
        if not isinstance(value, str):
            raise ConfigurationError(
                f"{key} has a value of type {type(value).__name__} for {name!r}: give text, or leave it out."
            )
    return found


def _mapping(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a JSON object, also from its text, as connection forms and URIs have it."""
    value = values.get(key) or {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ConfigurationError(f"{key} is not JSON: write an object of names.") from error
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{key} has to be an object of names, not {type(value).__name__}.")
    return dict(value)
