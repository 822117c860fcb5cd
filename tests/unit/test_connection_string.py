"""Connection strings of .NET, read as SqlClient reads them."""

from __future__ import annotations

import re
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.server.connection_string import ConnectionString, is_connection_string, pairs

parse = ConnectionString.parse


def written(key: str, value: str) -> str:
    """A pair as DbConnectionStringBuilder writes it."""
    if re.fullmatch(r"[^\"'=;\s\x00-\x1f\x7f-\x9f]*", value):
        quoted = value
    elif '"' in value and "'" not in value:
        quoted = f"'{value}'"
    else:
        quoted = '"' + value.replace('"', '""') + '"'
    return f"{key.replace('=', '==')}={quoted}"


KEYS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1).filter(
    lambda key: key == key.strip() and not key.startswith(";")
)
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.text("\"'=;{} a", max_size=8)
BLANKS = st.text(" \t\r\n;", max_size=3)


@given(st.lists(st.tuples(KEYS, VALUES)), BLANKS)
def test_strings_of_the_builder_are_read_back(given_pairs: list[tuple[str, str]], blanks: str) -> None:
    text = blanks.join(written(key, value) + ";" for key, value in given_pairs)
    assert list(pairs(blanks + text + blanks)) == given_pairs


@given(VALUES.filter(bool), VALUES.filter(bool), VALUES.filter(bool))
def test_names_and_passwords_of_any_kind_come_through(user: str, password: str, schema: str) -> None:
    fields = {"PWD": password, "server": "h", "Queue Schema": schema, "DATABASE": "d", "uid": user}
    read = parse(";".join(written(key, value) for key, value in fields.items()))
    assert (read.user, read.password, read.queue_schema) == (user, password, schema)


def test_an_endpoints_connection_string() -> None:
    read = parse("Data Source=sql.example.com;Initial Catalog=nservicebus;Integrated Security=True;Queue Schema=nsb")
    assert read.queue_schema == "nsb"
    settings = read.settings()
    assert (settings.host, settings.port, settings.database) == ("sql.example.com", 1433, "nservicebus")
    assert (settings.user, settings.keywords) == (None, {"Trusted_Connection": "yes"})


@pytest.mark.parametrize("key", ["Data Source", "Server", "ADDRESS", "addr", "Network Address"])
def test_synonyms_of_the_server(key: str) -> None:
    assert parse(f" {key} = h ; Database=d").host == "h"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("User ID=u;Password=p", ("u", "p")),
        ("uid=u;pwd=p", ("u", "p")),
        ("User=u;PWD=p", ("u", "p")),
        ("User ID=a;User ID=u;Password=x;Pwd=p", ("u", "p")),
        ("User ID=a;User ID=", (None, None)),
        ('User ID=u;Password=" p "', ("u", " p ")),
        ("User ID='it''s';Password=\"a\"\"b\"", ("it's", 'a"b')),
        ("User ID=o'b;Password=a=b", ("o'b", "a=b")),
        ("User ID=u;Password=p;Integrated Security=false", ("u", "p")),
        ("User ID=u;Trusted_Connection=SSPI", (None, None)),
    ],
)
def test_logins(text: str, expected: tuple[str | None, str | None]) -> None:
    read = parse(text)
    assert (read.user, read.password) == expected
    assert ("Trusted_Connection" in read.keywords) == ("SSPI" in text)


@pytest.mark.parametrize(
    ("source", "host", "port"),
    [
        ("h", "h", 1433),
        ("h,14330", "h", 14330),
        ("tcp:h , 14330", "h", 14330),
        ("TCP:h", "h", 1433),
        (".", "localhost", 1433),
        ("(local),1500", "localhost", 1500),
        ("127.0.0.1", "127.0.0.1", 1433),
        ("h\\SQLEXPRESS,1500", "h", 1500),
        ("::1", "::1", 1433),
        ("tcp:[fe80::1],1500", "fe80::1", 1500),
        ("db.database.windows.net", "db.database.windows.net", 1433),
    ],
)
def test_servers(source: str, host: str, port: int) -> None:
    read = parse(f"Server={source};Database=d")
    assert (read.host, read.port) == (host, port)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("(localdb)\\MSSQLLocalDB", "LocalDB serves"),
        ("\\\\h\\pipe\\sql\\query", "named pipe"),
        ("np:\\\\h\\pipe\\sql\\query", "named pipe"),
        ("lpc:h", "shared memory"),
        ("admin:h", "give its TCP address"),
        ("h:1433", "behind a comma"),
        ("h,x", "port of Data Source in the connection string is not a whole number"),
        ("h,99999", "not a TCP port"),
        ("", "names no host"),
    ],
)
def test_servers_that_cannot_be_reached_so(source: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        parse(f"Server={source};Database=d").settings()


@pytest.mark.parametrize(
    ("pair", "keywords"),
    [
        ("Encrypt=True", {"Encrypt": "yes"}),
        ("Encrypt=Mandatory", {"Encrypt": "yes"}),
        ("Encrypt=optional", {"Encrypt": "no"}),
        ("Encrypt=Strict", {"Encrypt": "strict"}),
        ("TrustServerCertificate=yes", {"TrustServerCertificate": "yes"}),
        ("Trust Server Certificate=False", {"TrustServerCertificate": "no"}),
        ("Application Intent=READONLY", {"ApplicationIntent": "ReadOnly"}),
        ("ApplicationIntent=ReadWrite", {"ApplicationIntent": "ReadWrite"}),
        ("MultiSubnetFailover=true", {"MultiSubnetFailover": "yes"}),
        ("Multi Subnet Failover=no", {"MultiSubnetFailover": "no"}),
        ("Column Encryption Setting=enabled", {"ColumnEncryption": "Enabled"}),
        ("Authentication=Active Directory Password", {"Authentication": "ActiveDirectoryPassword"}),
        ("Authentication=ActiveDirectoryManagedIdentity", {"Authentication": "ActiveDirectoryMsi"}),
        ("Authentication=Sql Password", {"Authentication": "SqlPassword"}),
        ("App=Sales 1", {"APP": "Sales 1"}),
        ("Application Name=Sales", {"APP": "Sales"}),
        ("Workstation ID=w", {"WSID": "w"}),
        ("Current Language=Deutsch", {"Language": "Deutsch"}),
        ("ConnectRetryCount=3;Connect Retry Interval=5", {"ConnectRetryCount": "3", "ConnectRetryInterval": "5"}),
        ("TransparentNetworkIPResolution=false", {"TransparentNetworkIPResolution": "Disabled"}),
        ("Host Name In Certificate=h", {"HostnameInCertificate": "h"}),
        ("Failover Partner=other", {"Failover_Partner": "other"}),
        ("Max Pool Size=100;Min Pool Size=1;Pooling=true;MultipleActiveResultSets=True", {}),
        ("Persist Security Info=False;Enlist=false;Packet Size=4096;Command Timeout=9;Async=true", {}),
        ("Network Library=DBMSSOCN;User Instance=False;Context Connection=false;AttachDBFilename=", {}),
    ],
)
def test_keys_become_the_odbc_drivers_keywords(pair: str, keywords: dict[str, str]) -> None:
    assert parse(pair).keywords == keywords


@pytest.mark.parametrize("key", ["Connect Timeout", "Connection Timeout", "timeout", "ConnectTimeout"])
def test_the_login_timeout(key: str) -> None:
    assert parse(f"{key}=30").login_timeout == 30
    assert parse("").login_timeout == 15


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Server=h;Colour=s3cret", "The key 'Colour' of the connection string is not known"),
        ("Encrypt=s3cret", "The value of Encrypt .* give one of yes, no, strict"),
        ("Authentication=Active Directory Device Code Flow", "ActiveDirectoryMsi"),
        ("Connect Timeout=s3cret", "Connect Timeout in the connection string is not a whole number"),
        ("Server=h,s3cret", "not a whole number"),
        ("AttachDbFilename=s3cret.mdf", "attach it on the server"),
        ("Initial File Name=s3cret.mdf", "attach it on the server"),
        ("User Instance=true", "name one that runs"),
        ("Context Connection=true", "name the server"),
        ("Network Library=dbnmpntw", "named pipe"),
        ("s3cret", "The connection string is not of the form"),
        ("=s3cret", "is not of the form"),
        ("Server=h;s3cret", "The text after Server in the connection string is not of the form"),
        ("Password=x;s3cret", "The text after Password"),
        ("Password=x;s3cret=1;Server=h", "The text after Password"),
        ("pwd=x;s3cret=1;Server=h", "The text after pwd"),
        ("Server=h;s3c;ret=1", "The text after Server"),
        ('Server=h;Password="s3cret', "The text after Server"),
        ('Password=s3cret"', "is not of the form"),
        ('Password="x"s3cret', "is not of the form"),
        ("Password=s3cret\x01", "is not of the form"),
    ],
)
def test_an_unreadable_string_is_refused_without_its_value(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as raised:
        parse(text)
    assert "s3c" not in "".join(traceback.format_exception(raised.value))


def test_the_password_is_never_shown() -> None:
    read = parse("Server=h;Database=d;User ID=u;Password=s3cret;Application Name=s3cret")
    assert "s3cret" not in repr(read) + repr(read.settings())


def test_a_connection_string_is_distinguished_from_a_url() -> None:
    assert is_connection_string(" ;Server=h;Database=d")
    assert is_connection_string("Trusted_Connection=yes")
    assert not is_connection_string("mssql://u:p=1@h/d?Encrypt=no")
    assert not is_connection_string("http://h")
