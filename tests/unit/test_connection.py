"""Connection strings and URLs."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import pickle
import platform
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyodbc
import pytest

from airflow_sqlqueue.errors import ConfigurationError, DriverNotFoundError
from airflow_sqlqueue.server.connection_policy import MICROSOFT_DRIVERS
from airflow_sqlqueue.server.settings import LEDGER_SCHEMA, ConnectionSettings, find_driver, packaged_driver


def test_every_value_is_escaped() -> None:
    settings = ConnectionSettings("h", "d;b", user="u{}", password="p};PWD=x", driver="ODBC Driver 18 for SQL Server")
    text = settings.odbc_connection_string()
    assert "SERVER={h,1433};DATABASE={d;b};" in text
    assert "UID={u{}}};PWD={p}};PWD=x};" in text


def test_a_url_is_read_whole() -> None:
    settings = ConnectionSettings.from_url("mssql://u%40x:p%3A%2F@host:14330/my%20db?Encrypt=no&driver=/msodbcsql.so")
    assert (settings.user, settings.password, settings.host, settings.port) == ("u@x", "p:/", "host", 14330)
    assert (settings.database, settings.driver, settings.keywords) == ("my db", "/msodbcsql.so", {"Encrypt": "no"})


@pytest.mark.parametrize("driver", MICROSOFT_DRIVERS)
def test_microsofts_drivers_encrypt_and_check_the_certificate_by_default(driver: str) -> None:
    assert "Encrypt={yes};" in ConnectionSettings("h", "d", driver=driver).odbc_connection_string()
    text = ConnectionSettings("h", "d", driver=driver, keywords={"encrypt": "no"}).odbc_connection_string()
    assert text.lower().count("encrypt=") == 1


@pytest.mark.parametrize("driver", MICROSOFT_DRIVERS)
@pytest.mark.parametrize(
    ("word", "fields"),
    [
        ("SERVER", {"host": "{}"}),
        ("DATABASE", {"database": "{}"}),
        ("UID", {"user": "{}"}),
        ("PWD", {"user": "u", "password": "{}"}),
        ("APP", {"keywords": {"APP": "{}"}}),
        ("Language", {"keywords": {"Language": "{}"}}),
    ],
)
def test_no_value_ends_early(driver: str, word: str, fields: Any) -> None:
    """The driver would read a keyword behind it."""
    evil = "x};Trace={yes"

    def filled(value: Any) -> Any:
        return {k: filled(v) for k, v in value.items()} if isinstance(value, dict) else value.replace("{}", evil)

    text = ConnectionSettings(**{"host": "h", "database": "d", "driver": driver, **filled(fields)})
    port = ",1433" if word == "SERVER" else ""
    assert f"{word}={{x}}}};Trace={{yes{port}}};" in text.odbc_connection_string()


@pytest.mark.parametrize(
    "driver",
    [
        *("FreeTDS", "freetds", "/usr/lib/x86_64-linux-gnu/odbc/libtdsodbc.so", "SQLite3", "SQL Server", ""),
        *("ODBC Driver 18 for SQL Server;", "/opt/msodbcsql/libtdsodbc.so", "another"),
    ],
)
def test_a_driver_that_is_not_microsofts_is_refused(driver: str) -> None:
    """FreeTDS checks no certificates, and its keyword DumpFile writes a file."""
    with pytest.raises(ConfigurationError, match=r"is not Microsoft's, .*: leave .* out, or name 'ODBC Driver 18"):
        ConnectionSettings("h", "d", driver=driver)


@pytest.mark.parametrize(
    "driver", ["ODBC Driver 19 for SQL Server", r"C:\odbc\msodbcsql18.dll", "libmsodbcsql.18.dylib"]
)
def test_a_driver_of_microsofts_may_be_named(driver: str) -> None:
    assert f"DRIVER={{{driver}}};" in ConnectionSettings("h", "d", driver=driver).odbc_connection_string()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("postgres://h/d", "must have the form"),
        ("mssql:///d", "must have the form"),
        ("mssql://h:0/d", "0 is not a TCP port"),
        ("mssql://sa:p@ss/word@h:14330/d", "percent-encoded"),
        *((f"mssql://h:{port}/d", "port is not a number up to 65535") for port in ("x", "65536")),
        ("mssql://h/", "names no database"),
        ("mssql://h/d?PWD=x", "'PWD' cannot be set"),
        ("mssql://h/d?a;b=x", "'a;b' cannot be set"),
        ("mssql://h/d?driver=/opt/libmsodbcsql.so&DumpFile=/tmp/x", "'DumpFile' cannot be set"),
        ("mssql://h/d?Trace=yes", "'Trace' cannot be set"),
        ("mssql://h/d?MARS_Connection=yes", "'MARS_Connection' cannot be set"),
        ("mssql://h/d?Encrypt=yes&encrypt=no", "'encrypt' is set twice"),
        ("mssql://h/d?Encryption=off", "'Encryption' cannot be set"),
        ("mssql://h/d?ColumnEncryption=VBS-HGS,http://x", "'ColumnEncryption' has a value that cannot be set"),
        ("mssql://h/d?TrustServerCertificate=maybe", "'TrustServerCertificate' has a value .* give one of no, yes"),
        *((f"mssql://h/d?KeepAlive={value}", "'KeepAlive' takes a number of seconds") for value in ("x", "0", "32768")),
        ("mssql://h/d?Encrypt=perhaps", "'Encrypt' has a value that cannot be set"),
    ],
)
def test_bad_urls(url: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        ConnectionSettings.from_url(url)


def test_a_url_may_name_the_file_of_a_certificate() -> None:
    settings = ConnectionSettings.from_url("mssql://h/d?ServerCertificate=/etc/ssl/sql.pem&columnEncryption=Enabled")
    assert settings.keywords == {"ServerCertificate": "/etc/ssl/sql.pem", "columnEncryption": "Enabled"}


def test_a_password_that_looks_like_a_port_is_not_shown() -> None:
    url = "mssql://sa:s3cret#x@h/d"
    with pytest.raises(ConfigurationError, match="percent-encode") as raised:
        ConnectionSettings.from_url(url)
    assert "s3cret" not in "".join(traceback.format_exception(raised.value))


def test_the_password_is_not_shown() -> None:
    assert "s3cret" not in repr(ConnectionSettings("h", "d", user="u", password="s3cret"))


def test_settings_are_those_of_one_server_by_whichever_connection() -> None:
    one, other = (ConnectionSettings("h", "d", conn_id=each) for each in ("one", "other"))
    assert (one == other, "other" in repr(other)) == (True, False)


def test_settings_carry_the_ledger_schema_to_sparks_executors() -> None:
    settings = ConnectionSettings("h", "d", ledger_schema="own")
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert settings != ConnectionSettings("h", "d")
    assert ConnectionSettings("h", "d").ledger_schema == LEDGER_SCHEMA


def test_a_driver_is_found() -> None:
    assert find_driver()


@pytest.fixture
def unfound() -> Iterator[None]:
    """The driver is found anew in the test, and after it."""
    find_driver.cache_clear()
    yield
    find_driver.cache_clear()


@pytest.mark.usefixtures("unfound")
def test_microsofts_installed_driver_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = ["FreeTDS", "ODBC Driver 17 for SQL Server", "ODBC Driver 18 for SQL Server"]
    monkeypatch.setattr(pyodbc, "drivers", lambda: installed)
    assert find_driver() == "ODBC Driver 18 for SQL Server"
    find_driver.cache_clear()
    del installed[1:]
    assert "msodbcsql" in find_driver()
    find_driver.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        DriverNotFoundError,
        match=r"pip install 'airflow-sqlqueue(-core)?\[driver\]'.* mssql-python, .* package msodbcsql18",
    ):
        find_driver()


@pytest.mark.parametrize(
    ("release", "folder"),
    [
        ({"ID": "alpine"}, "alpine"),
        ({"ID": "opensuse-leap", "ID_LIKE": "suse opensuse"}, "suse"),
        ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "rhel"),
        ({"ID": "ubuntu", "ID_LIKE": "debian"}, "debian_ubuntu"),
        (None, "debian_ubuntu"),
    ],
)
def test_the_packaged_driver_is_that_of_the_distribution(
    release: dict[str, str] | None, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def os_release() -> dict[str, str]:
        if release is None:
            raise OSError
        return release

    package = tmp_path / "mssql_python_odbc"
    for name in ("alpine", "suse", "rhel", "debian_ubuntu"):
        library = package / "libs" / "linux" / name / "x86_64" / "lib" / "libmsodbcsql-18.6.so.1.1"
        library.parent.mkdir(parents=True)
        library.touch()
    spec = importlib.machinery.ModuleSpec("mssql_python_odbc", None, origin=str(package / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(platform, "freedesktop_os_release", os_release)
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    found = packaged_driver()
    assert found is not None
    assert found.parts[-4] == folder
