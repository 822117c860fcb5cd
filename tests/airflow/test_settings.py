from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_sqlqueue.errors import AddressError, ConfigurationError
from airflow_sqlqueue.hooks.access_token import ConnectionToken
from airflow_sqlqueue.hooks.connection import read_connection
from airflow_sqlqueue.hooks.spark_target import SparkTarget
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.operators import SqlQueueSubscribeOperator
from airflow_sqlqueue.server.connection_policy import Allowed
from airflow_sqlqueue.server.settings import load_pyodbc, packaged_driver


def parts(text: str) -> dict[str, str]:
    """An ODBC connection string, read as a driver manager reads it."""
    found: dict[str, str] = {}
    while text:
        key, _, text = text.partition("={")
        value = ""
        while True:
            piece, _, text = text.partition("}")
            value += piece
            if not text.startswith("}"):
                break
            value, text = value + "}", text[1:]
        found[key], text = value, text.removeprefix(";")
    return found


def odbc(conn_id: str, **arguments: Any) -> dict[str, str]:
    return parts(SqlQueueHook(conn_id, **arguments).queue_connection.settings.odbc_connection_string())


def test_a_connection_becomes_a_connection_string(connection: Any) -> None:
    found = odbc(connection(login="sa", password="p;w}d{", port=14330, host="sql;x"))
    assert (found["SERVER"], found["DATABASE"], found["UID"], found["PWD"]) == ("sql;x,14330", "shop", "sa", "p;w}d{")


def test_the_port_is_1433_unless_given(connection: Any) -> None:
    assert odbc(connection())["SERVER"] == "sql.example.com,1433"


def test_the_fields_of_the_form_become_keywords(connection: Any) -> None:
    extra = {
        "encrypt": "strict",
        "trust_server_certificate": True,
        "application_intent": "ReadOnly",
        "multi_subnet_failover": "false",
        "login_timeout": "7",
        "keywords": '{"KeepAlive": 30}',
        "driver": "",
    }
    found = odbc(connection(extra=extra))
    assert found["Encrypt"] == "strict"
    assert found["TrustServerCertificate"] == "yes"
    assert found["ApplicationIntent"] == "ReadOnly"
    assert found["MultiSubnetFailover"] == "no"
    assert found["KeepAlive"] == "30"
    assert SqlQueueHook().queue_connection.settings.login_timeout == 7


def test_an_mssql_connection_serves_and_pymssqls_own_keys_are_passed_over(connection: Any) -> None:
    extra = {"tds_version": "7.0", "charset": "UTF-8", "login_timeout": 5, "default_schema": "nsb"}
    hook = SqlQueueHook(connection("mssql", extra, "my_mssql"))
    found = odbc("my_mssql")
    assert not {"tds_version", "charset", "login_timeout"} & found.keys()
    assert hook.queue_connection.settings.login_timeout == 5
    assert hook.client.resolve("audit").schema == "nsb"


def test_a_part_of_a_second_is_time_for_a_login(connection: Any) -> None:
    assert SqlQueueHook(connection(extra={"login_timeout": 0.5})).queue_connection.settings.login_timeout == 1


def test_routing_that_cannot_be_used_is_said_with_its_connection(connection: Any) -> None:
    with pytest.raises(AddressError, match=r"^Connection 'my_sqlqueue': "):
        odbc(connection(extra={"delayed_suffix": " "}, conn_id="my_sqlqueue"))


def test_the_extra_of_an_odbc_connection_is_odbc_keywords(connection: Any) -> None:
    extra = {"Encrypt": "no", "Trusted_Connection": "yes", "placeholder": "?", "connect_kwargs": {"timeout": 3}}
    found = odbc(connection("odbc", extra, "my_odbc"))
    assert (found["Encrypt"], found["Trusted_Connection"]) == ("no", "yes")
    assert not {"placeholder", "connect_kwargs"} & found.keys()


@pytest.mark.parametrize("key", ["PWD", "server", "DSN", "Key;Driver", "Port"])
def test_no_keyword_replaces_a_field_of_the_connection(connection: Any, key: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be set"):
        odbc(connection("odbc", {key: "x"}))


@pytest.mark.parametrize("kind", ["sqlqueue", "odbc"])
@pytest.mark.parametrize(
    "key",
    [
        *("DumpFile", "dumpfile ", "QueryLogFile", "KeystoreLocation", "ServerCertificate", "New"),
        *("ServerSPN", "FailoverPartnerSPN", "MARS_Connection"),
    ],
)
def test_a_connection_sets_no_keyword_that_is_not_known_to_be_safe(connection: Any, kind: str, key: str) -> None:
    path = "/opt/airflow/airflow.cfg"
    with pytest.raises(ConfigurationError, match=f"'{key}' cannot be set") as raised:
        odbc(connection(kind, {key: path} if kind == "odbc" else {"keywords": {key: path}}))
    assert path not in str(raised.value)


def test_a_connection_string_in_a_connection_names_no_file(connection: Any) -> None:
    text = "Server=h;Database=d;Server Certificate=/etc/passwd"
    with pytest.raises(ConfigurationError, match="'ServerCertificate' cannot be set"):
        odbc(connection(extra={"connection_string": text}))


@pytest.mark.parametrize("key", ["driver", "Driver"])
def test_a_connection_must_not_name_a_library_to_load(connection: Any, key: str, monkeypatch: Any) -> None:
    path = "/tmp/libmsodbcsql-evil.so"
    conn_id = connection("odbc", {key: path})
    with pytest.raises(ConfigurationError, match="allow_driver_in_extra"):
        odbc(conn_id)
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__ALLOW_DRIVER_IN_EXTRA", "True")
    assert odbc(conn_id)["DRIVER"] == path


def test_a_connection_may_name_an_installed_driver_of_microsofts_alone(connection: Any, monkeypatch: Any) -> None:
    names = ["FreeTDS", "SQLite3", "ODBC Driver 17 for SQL Server"]
    monkeypatch.setattr(load_pyodbc(), "drivers", lambda: names)
    assert odbc(connection(extra={"driver": names[2]}))["DRIVER"] == names[2]
    for name in (*names[:2], "ODBC Driver 18 for SQL Server"):
        with pytest.raises(ConfigurationError, match="allow_driver_in_extra"):
            odbc(connection(extra={"driver": name}))


def test_other_drivers_are_allowed_by_the_configuration_alone() -> None:
    with pytest.raises(ConfigurationError, match="allow_driver_in_extra"):
        Allowed().check_driver("Other", ["Other"])
    Allowed(any_driver=True).check_driver("Other", ["Other"])


def test_the_hook_may_name_any_driver(connection: Any) -> None:
    path = str(packaged_driver())
    assert odbc(connection(), driver=path)["DRIVER"] == path


def test_routing_comes_from_the_extra_and_arguments_win(connection: Any) -> None:
    extra = {
        "default_schema": "nsb",
        "queue_schemas": '{"audit": "ops", "error": "ops"}',
        "queue_catalogs": {"audit": "monitoring"},
        "endpoint_schemas": {"Sales": "sales"},
        "ledger_schema": "ledger",
    }
    conn_id = connection(extra=extra)
    plain = SqlQueueHook(conn_id)
    assert plain.client.resolve("audit").canonical == "audit@[ops]@[monitoring]"
    assert plain.client.resolve("orders").canonical == "orders@[nsb]@[shop]"
    assert plain.client.resolver.resolve_endpoint("Sales").schema == "sales"
    assert plain.client.settings.ledger_schema == "ledger"
    other = SqlQueueHook(conn_id, default_schema="dbo", queue_schemas={"error": "err"}, ledger_schema="mine")
    assert other.client.resolve("orders").schema == "dbo"
    assert (other.client.resolve("error").schema, other.client.resolve("audit").schema) == ("err", "ops")
    assert other.client.settings.ledger_schema == "mine"


def test_a_queue_is_named_by_its_endpoint(connection: Any) -> None:
    conn_id = connection(extra={"endpoint_schemas": {"Sales": "sales"}, "transport_version": "2"})
    assert SqlQueueHook(conn_id).queue(endpoint="Sales").address.canonical == "Sales@[sales]@[shop]"
    assert SqlQueueHook(conn_id).queue("Sales@WEB01").address.canonical == "Sales@[sales]@[shop]"
    assert SqlQueueHook(conn_id, transport_version="3.0").client.resolve("Sales@WEB").schema == "WEB"
    delayed = SqlQueueHook(conn_id).client.delayed(endpoint="Sales").address
    assert delayed.canonical == "Sales.Delayed@[sales]@[shop]", "where it is created, and where a consumer looks for it"
    with pytest.raises(AddressError, match="give queue_name or endpoint"):
        SqlQueueHook(conn_id).queue("Sales", endpoint="Sales")


def test_the_suffix_of_delayed_tables_is_a_setting(connection: Any) -> None:
    conn_id = connection(extra={"delayed_suffix": "Later", "queue_schemas": {"Sales.Later": "nsb"}})
    assert SqlQueueHook(conn_id).client.delayed("Sales").address.canonical == "Sales.Later@[nsb]@[shop]"
    assert SqlQueueHook(conn_id, delayed_suffix="D").client.delayed("Sales").address.table == "Sales.D"
    for wrong in ("  ", "a@b"):
        with pytest.raises(AddressError, match="delayed_suffix"):
            SqlQueueHook(conn_id, delayed_suffix=wrong).client.delayed("Sales")


def test_the_subscription_table_is_a_setting(connection: Any) -> None:
    conn_id = connection(extra={"subscription_table": "Routes@[nsb]"})
    assert SqlQueueHook(conn_id).client.subscriptions.address.canonical == "Routes@[nsb]@[shop]"
    assert SqlQueueHook(conn_id, subscription_table="R").client.subscriptions.address.canonical == "R@[dbo]@[shop]"
    task = SqlQueueSubscribeOperator(
        task_id="subscribe", sqlqueue_conn_id=conn_id, endpoint="Billing", message_types=["Shop.OrderPlaced"]
    )
    assert task.subscriptions.address.canonical == "Routes@[nsb]@[shop]"
    task.subscription_table = "Others"
    assert task.subscriptions.address.table == "Others"
    task.subscription_table = ""
    with pytest.raises(AddressError, match="no table name"):
        _ = task.subscriptions.address


def test_port_0_is_not_the_default_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_ZERO", "sqlqueue://sql.example.com:0/shop")
    with pytest.raises(ConfigurationError, match="0 is not a TCP port"):
        _ = SqlQueueHook("zero").queue_connection


def test_a_port_may_be_a_text() -> None:
    """A secrets backend such as Vault hands on what it has."""
    fields = {"conn_id": "x", "conn_type": "sqlqueue", "host": "db\\SQL", "schema": "shop"}
    assert read_connection(Connection(**fields, port="1444")).settings.server == "db:1444"
    with pytest.raises(ConfigurationError, match="Connection 'x': port is 'high': give a whole number"):
        read_connection(Connection(**fields, port="high"))


@pytest.mark.parametrize("key", ["lock_timeout", "login_timeout"])
@pytest.mark.parametrize("value", ["inf", "nan", -1, "-0.5", "1e400", 10**400, float("nan"), 2**31])
def test_a_timeout_is_a_number_that_a_server_takes(connection: Any, key: str, value: Any) -> None:
    conn_id = connection(extra={key: value})
    with pytest.raises(ConfigurationError, match=f"{key} has to be a number of seconds"):
        _ = SqlQueueHook(conn_id).queue_connection
    assert SqlQueueHook(connection(extra={key: 0})).queue_connection is not None


def test_an_argument_names_another_database(connection: Any) -> None:
    hook = SqlQueueHook(connection(), database="archive")
    assert hook.queue_connection.settings.database == "archive"
    assert hook.client.resolve("audit").catalog == "archive"


ENDPOINT = 'Server=tcp:old,1500;Database=nsb;User ID=u;Password="p;w";Encrypt=True;Connect Timeout=7;Queue Schema=sales'


@pytest.mark.parametrize("kind", ["sqlqueue", "mssql", "odbc"])
def test_a_connection_string_of_net_is_enough(connection: Any, kind: str) -> None:
    conn_id = connection(kind, {"connection_string": ENDPOINT}, host=None, schema=None)
    found = odbc(conn_id)
    assert (found["SERVER"], found["DATABASE"], found["UID"], found["PWD"]) == ("old,1500", "nsb", "u", "p;w")
    assert found["Encrypt"] == "yes"
    hook = SqlQueueHook(conn_id)
    assert hook.queue_connection.settings.login_timeout == 7
    assert hook.client.resolve("audit").canonical == "audit@[sales]@[nsb]"


def test_the_connections_fields_win_over_a_connection_string(connection: Any) -> None:
    extra = {"connection_string": ENDPOINT, "encrypt": "strict", "login_timeout": 9, "default_schema": "mine"}
    conn_id = connection(extra=extra, host="new", port=1, schema="shop", login="me", password="mine")
    found = odbc(conn_id)
    assert (found["SERVER"], found["DATABASE"], found["UID"], found["PWD"]) == ("new,1", "shop", "me", "mine")
    assert (found["Encrypt"], len(found)) == ("strict", 8)
    assert SqlQueueHook(conn_id).queue_connection.settings.login_timeout == 9
    assert SqlQueueHook(conn_id).client.resolve("audit").schema == "mine"
    assert odbc(connection(extra={"connection_string": ENDPOINT, "keywords": {"encrypt": "no"}}))["encrypt"] == "no"
    assert SqlQueueHook(conn_id, default_schema="hook").client.resolve("audit").schema == "hook"


def test_a_login_wins_over_integrated_security(connection: Any) -> None:
    extra = {"connection_string": "Server=h;Database=d;Integrated Security=SSPI"}
    assert odbc(connection(extra=extra))["Trusted_Connection"] == "yes"
    found = odbc(connection(extra=extra, login="me", password="mine"))
    assert "Trusted_Connection" not in found
    assert found["UID"] == "me"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"conn_type": "postgres"}, "its type is 'postgres'"),
        ({"extra": {"encrpyt": "yes"}}, "encrpyt is not known"),
        ({"extra": {"lock_timeout": "soon"}}, "lock_timeout has to be a number"),
        ({"extra": {"queue_schemas": "[]"}}, "queue_schemas has to be an object"),
        ({"extra": {"queue_schemas": "{"}}, "queue_schemas is not JSON"),
        ({"extra": {"queue_schemas": {"q": None}}}, "queue_schemas has a value of type NoneType for 'q': give text"),
        ({"extra": {"endpoint_catalogs": '{"q": []}'}}, "endpoint_catalogs has a value of type list for 'q'"),
        ({"extra": {"default_schema": 5}}, "default_schema has to be text"),
        ({"extra": {"connection_string": "Server=h;Colour=red"}}, "key 'Colour' of the connection string"),
        ({"extra": {"connection_string": 5}}, "connection_string has to be text"),
        ({"host": ""}, "names no host"),
        ({"schema": ""}, "names no database"),
    ],
)
def test_invalid_fields_are_refused_with_the_connections_id(connection: Any, fields: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'sqlqueue_default': .*{says}"):
        _ = SqlQueueHook(connection(**fields)).queue_connection


@pytest.mark.parametrize(
    "host", ["sql,1433", "sql:1433", "tcp:sql", "mssql://sa:hidden@sql", "sa:hidden@sql", "sql/shop"]
)
def test_a_host_with_more_than_a_name_is_refused_without_its_text(connection: Any, host: str) -> None:
    with pytest.raises(ConfigurationError, match="The host is more than a server's name or address") as caught:
        _ = SqlQueueHook(connection(host=host)).queue_connection
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("host", ["sql.example.com", "10.0.0.1", "fe80::1", "::1"])
def test_a_name_and_an_address_are_hosts(connection: Any, host: str) -> None:
    assert SqlQueueHook(connection(host=host)).client.settings.host == host


@pytest.mark.parametrize("extra", ['{"encrypt": "strict"', "encrypt=strict", "[1]", '"strict"', "5", "null"])
def test_an_extra_that_is_no_json_object_is_refused_and_not_taken_for_an_empty_one(connection: Any, extra: str) -> None:
    for conn_type, read in (
        ("sqlqueue", lambda name: SqlQueueHook(name).queue_connection),
        ("http", lambda name: ConnectionToken(name, "scope", None)()),
        ("spark", SparkTarget.of),
    ):
        name = connection(conn_type, extra, "other")
        with pytest.raises(ConfigurationError, match="'other': its extra is not a JSON object"):
            read(name)


@pytest.mark.parametrize("value", [["shop", "ops"], '["shop", "ops"]', '[\n  "shop",\n  "ops"\n]', "shop, ops"])
def test_allowed_catalogs_come_from_the_extra_unless_arguments_give_them(connection: Any, value: Any) -> None:
    conn_id = connection(extra={"allowed_catalogs": value})
    assert SqlQueueHook(conn_id).client.resolver.allowed_catalogs == ("shop", "ops")
    assert SqlQueueHook(conn_id).client.resolver.allowed_schemas is None
    named = SqlQueueHook(conn_id, allowed_catalogs=["x"], allowed_schemas=["nsb"]).client.resolver
    assert (named.allowed_catalogs, named.allowed_schemas) == (("x",), ("nsb",))


@pytest.mark.parametrize("field", ["login", "password", "schema", "host"])
def test_no_field_of_a_connection_sets_a_further_keyword(connection: Any, field: str) -> None:
    fields = {"login": "sa", "password": "p", "extra": {"trust_server_certificate": True}}
    words = odbc(connection(**{**fields, field: "x};Trace={yes"}))
    word = {"login": "UID", "password": "PWD", "schema": "DATABASE", "host": "SERVER"}[field]
    assert words[word].partition(",")[0] == "x};Trace={yes"
