"""SQL Server's texts for missing permissions (sys.messages), translated to one sentence of ours."""

from __future__ import annotations

import pickle

import pytest

from airflow_sqlqueue.server.permissions import permission_denied

PREFIX = "[42000] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]"

ENGLISH = [
    (
        229,
        "The SELECT permission was denied on the object 'audit', database 'nservicebus', schema 'dbo'.",
        "SELECT",
        "no SELECT permission on the object 'audit' (database 'nservicebus', schema 'dbo'); have it granted",
    ),
    (
        230,
        "The UPDATE permission was denied on the column 'Body' of the object 'audit', database 'd', schema 's'.",
        "UPDATE",
        "no UPDATE permission on the column 'Body' of the object 'audit' (database 'd', schema 's')",
    ),
    (
        230,
        "The SELECT permission was denied on the column 'Id' of the object 'audit\", database 'd', schema 's'.",
        "SELECT",
        "on the column 'Id' of the object 'audit' (",
    ),
    (
        262,
        "CREATE TABLE permission denied in database 'shop'.",
        "CREATE TABLE",
        "CREATE TABLE permission in the database",
    ),
    (297, "The user does not have permission to perform this action.", None, "does not say which one"),
    (
        300,
        "VIEW SERVER STATE permission was denied on object 'server', database 'master'.",
        "VIEW SERVER STATE",
        "no VIEW SERVER STATE permission on 'server' (database 'master')",
    ),
    (
        916,
        'The server principal "airflow" is not able to access the database "shop" under the current security context.',
        "CONNECT",
        "no user in the database 'shop'",
    ),
    (
        1088,
        'Cannot find the object "dbo.audit" because it does not exist or you do not have permissions.',
        "ALTER",
        "the object 'dbo.audit' does not exist, or the login has no ALTER permission on it; check the name",
    ),
    (
        2760,
        'The specified schema name "nsb" either does not exist or you do not have permission to use it.',
        "ALTER",
        "the schema 'nsb' does not exist, or the login has no ALTER permission on it",
    ),
    (
        3701,
        "Cannot drop the table 'dbo.audit', because it does not exist or you do not have permission.",
        "ALTER",
        "the table 'dbo.audit' does not exist, or the login has no ALTER permission on its table or schema",
    ),
    (
        4902,
        'Cannot find the object "dbo.audit" because it does not exist or you do not have permissions.',
        "ALTER",
        "the object 'dbo.audit' does not exist",
    ),
    (
        15151,
        "Cannot find the user 'airflow', because it does not exist or you do not have permission.",
        None,
        "the user 'airflow' does not exist, or the login may not find it",
    ),
    (15247, "User does not have permission to perform this action.", None, "does not say which one"),
]


@pytest.mark.parametrize(("number", "text", "permission", "says"), ENGLISH)
def test_the_missing_permission_and_its_object_are_named(
    number: int, text: str, permission: str | None, says: str
) -> None:
    error = permission_denied("drain the queue q", number, PREFIX + text)
    assert error is not None
    assert error.permission == permission
    assert str(error).startswith("Could not drain the queue q: the ")
    assert says in str(error)
    assert str(error).endswith(f" (SQL Server error {number}).")


@pytest.mark.parametrize("number", sorted({number for number, *_ in ENGLISH}))
def test_an_error_in_another_language_is_recognised_by_its_number(number: int) -> None:
    error = permission_denied(
        "send", number, PREFIX + "Die SELECT-Berechtigung wurde für das 'audit'-Objekt verweigert."
    )
    assert error is not None
    assert error.permission == {916: "CONNECT", 1088: "ALTER", 2760: "ALTER", 3701: "ALTER", 4902: "ALTER"}.get(number)
    assert "permission" in str(error)
    assert "audit" not in str(error)
    assert "{" not in str(error)


def test_names_with_quotes_and_of_any_length_are_shown_in_one_line() -> None:
    text = "The DELETE permission was denied on the object 'o'', {x}\nb', database 'it's', schema 's'."
    error = permission_denied("receive", 229, PREFIX + text)
    assert "on the object 'o'', {x}\\x0ab' (database 'it's', schema 's')" in str(error)
    unseen = f'Cannot find the object "{"x" * 400}" because it does not exist or you do not have permissions.'
    assert "x" * 400 in str(permission_denied("send", 1088, unseen))


@pytest.mark.parametrize("number", [None, 0, 208, 371, 1205])
def test_other_errors_are_left_to_others(number: int | None) -> None:
    assert permission_denied("send", number, "The SELECT permission was denied on the object 'a'.") is None


def test_the_error_travels_between_processes() -> None:
    error = permission_denied("send", 262, "CREATE TABLE permission denied in database 'shop'.")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.permission) == (str(error), "CREATE TABLE")
