"""The rules of the ODBC driver for logins of Microsoft Entra ID."""

from __future__ import annotations

import struct
import sys
from typing import Any

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.server import entra
from airflow_sqlqueue.server.settings import ConnectionSettings

TOKEN = "eyJ0eXAiOiJKV1QifQ." + "x" * 32


def settings(authentication: str | None = None, **fields: Any) -> ConnectionSettings:
    keywords = {} if authentication is None else {"Authentication": authentication}
    keywords |= fields.pop("keywords", {})
    return ConnectionSettings("h", "d", keywords=keywords, driver="msodbcsql", **fields)


def test_a_token_goes_to_the_driver_as_utf_16_with_its_length() -> None:
    ((attribute, data),) = settings(access_token=lambda: TOKEN).attributes().items()
    assert attribute == 1256
    assert struct.unpack_from("<I", data) == (len(TOKEN) * 2,)
    assert data[4:] == TOKEN.encode("utf-16-le")
    assert settings(user="u", password="p").attributes() == {}
    assert settings(access_token=lambda: "x" * 32).attributes()
    with pytest.raises(ConfigurationError, match="at least 32 characters"):
        settings(access_token=lambda: "x" * 31).attributes()


@pytest.mark.parametrize(
    ("authentication", "user", "password", "written"),
    [
        ("ActiveDirectoryMsi", None, None, "Authentication={ActiveDirectoryMsi};"),
        ("ActiveDirectoryMsi", "id", None, "Authentication={ActiveDirectoryMsi};UID={id};"),
        ("ActiveDirectoryIntegrated", None, None, "Authentication={ActiveDirectoryIntegrated};"),
        (
            "ActiveDirectoryServicePrincipal",
            "id",
            "s",
            "Authentication={ActiveDirectoryServicePrincipal};UID={id};PWD={s};",
        ),
        ("ActiveDirectoryDefault", "id", None, ""),
        (None, "u", None, "UID={u};PWD={};"),
    ],
)
def test_the_drivers_connection_string(authentication: Any, user: Any, password: Any, written: str) -> None:
    text = settings(authentication, user=user, password=password).odbc_connection_string()
    common = "DRIVER={msodbcsql};SERVER={h,1433};DATABASE={d};APP={airflow-sqlqueue};Encrypt={yes};LongAsMax={yes};"
    assert text == common + written


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"authentication": "ActiveDirectoryMsi", "password": "hush"}, "ActiveDirectoryMsi takes no password"),
        ({"authentication": "ActiveDirectoryIntegrated", "user": "u"}, "ActiveDirectoryIntegrated takes no login"),
        ({"authentication": "ActiveDirectoryDefault", "password": "hush"}, "ActiveDirectoryDefault takes no password"),
        ({"authentication": "activedirectoryserviceprincipal", "user": "u"}, "ServicePrincipal needs a password"),
        ({"authentication": "ActiveDirectoryPassword", "password": "hush"}, "ActiveDirectoryPassword needs a login"),
        ({"authentication": "ActiveDirectoryInteractive"}, "asks a person in a browser"),
        ({"authentication": "hush"}, "The value of Authentication is not known: give one of SqlPassword"),
        ({"authentication": "ActiveDirectoryMsi", "keywords": {"Trusted_Connection": "yes"}}, "two ways to log in"),
        ({"access_token": lambda: TOKEN, "user": "u"}, "An access token is enough for a login"),
        ({"access_token": lambda: TOKEN, "keywords": {"trusted_connection": "Yes"}}, "enough for a login"),
        ({"access_token": lambda: TOKEN, "authentication": "ActiveDirectoryMsi"}, "enough for a login"),
    ],
)
def test_contradicting_settings_are_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence) as raised:
        settings(**fields)
    assert "hush" not in str(raised.value)


def test_a_token_is_for_the_cloud_of_the_server() -> None:
    assert entra.scope_of("shop.database.windows.net") == "https://database.windows.net/.default"
    assert entra.scope_of("shop.database.usgovcloudapi.net") == "https://database.usgovcloudapi.net/.default"
    assert entra.scope_of("shop.DATABASE.chinacloudapi.cn") == "https://database.chinacloudapi.cn/.default"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    entra._default_credential.cache_clear()
    with pytest.raises(ConfigurationError, match=r"pip install 'airflow-sqlqueue(-core)?\[entra\]'"):
        settings("ActiveDirectoryDefault").attributes()
