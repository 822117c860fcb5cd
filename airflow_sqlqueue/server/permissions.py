"""Errors about missing permissions, as one sentence each.

The texts are those of ``sys.messages`` in English. They name permissions and securables, never values. For a server
with another language only the error number is used. SQL Server hides objects that a login must not see, so most texts
do not distinguish a missing object from a forbidden one. Microsoft's page on a statement names the permission that the
statement needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_sqlqueue.errors import PermissionDeniedError


@dataclass(frozen=True)
class _Denial:
    """An error of SQL Server: its text, our clause with names from the text, our clause for texts in other languages.

    ``permission`` is the permission that the number alone implies; a group ``permission`` in the text replaces it.
    ``remedy`` is the advice at the end of the sentence.
    """

    text: str
    clause: str
    otherwise: str
    permission: str | None = None
    remedy: str = "have it granted"


_WORDS = {"permission", "verb", "kind"}
"""Groups of a text that are not names."""

_PERMISSION = r"(?P<permission>[A-Z][A-Z ]*) permission"
_NAMELESS = _Denial(
    r"(?!)",
    "",
    "the login is missing a permission, and the server does not say which one",
    remedy="ask those who run the server",
)
_CANNOT = (
    r"Cannot (?P<verb>\w+) the (?P<kind>[\w ]+) '(?P<object>.+)', because it does not exist or you do not have "
    r"permission\."
)
_CHECK = "check the name, or have it granted"
_UNSEEN = _Denial(
    r'Cannot find the object "(?P<object>.+)" because it does not exist or you do not have permissions\.',
    "the object {object} does not exist, or the login has no ALTER permission on it",
    "the table does not exist, or the login has no ALTER permission on it",
    "ALTER",
    _CHECK,
)

_DENIALS = {
    229: _Denial(
        _PERMISSION + r" was denied on the object '(?P<object>.+)', database '(?P<database>.+)', "
        r"schema '(?P<schema>.+)'\.",
        "the login has no {permission} permission on the object {object} (database {database}, schema {schema})",
        "the login has no permission on an object that it uses",
    ),
    # In some versions the closing quote after the object is a double quote.
    230: _Denial(
        _PERMISSION + r" was denied on the column '(?P<column>.+)' of the object '(?P<object>.+)['\"], "
        r"database '(?P<database>.+)', schema '(?P<schema>.+)'\.",
        "the login has no {permission} permission on the column {column} of the object {object} (database {database}, "
        "schema {schema})",
        "the login has no permission on a column that it uses",
    ),
    262: _Denial(
        _PERMISSION + r" denied in database '(?P<database>.+)'\.",
        "the login has no {permission} permission in the database {database}",
        "the login has no permission for it in the database",
    ),
    297: _NAMELESS,
    300: _Denial(
        _PERMISSION + r" was denied on object '(?P<object>.+)', database '(?P<database>.+)'\.",
        "the login has no {permission} permission on {object} (database {database})",
        "the login has no permission on the server or on a database",
    ),
    916: _Denial(
        r'The server principal ".+" is not able to access the database "(?P<database>.+)" under the current security '
        r"context\.",
        "the login has no user in the database {database}, or that has no CONNECT permission",
        "the login has no user in the database, or that has no CONNECT permission",
        "CONNECT",
        "have a user made for it",
    ),
    1088: _UNSEEN,
    2760: _Denial(
        r'The specified schema name "(?P<schema>.+)" either does not exist or you do not have permission to use it\.',
        "the schema {schema} does not exist, or the login has no ALTER permission on it",
        "the schema does not exist, or the login has no ALTER permission on it",
        "ALTER",
        _CHECK,
    ),
    # DROP INDEX needs ALTER on the table; DROP TABLE needs CONTROL on the table or ALTER on its schema.
    3701: _Denial(
        _CANNOT,
        "the {kind} {object} does not exist, or the login has no ALTER permission on its table or schema",
        "what it drops does not exist, or the login has no ALTER permission on its table or schema",
        "ALTER",
        _CHECK,
    ),
    4902: _UNSEEN,
    15151: _Denial(
        _CANNOT,
        "the {kind} {object} does not exist, or the login may not {verb} it",
        "what it names does not exist, or the login has no permission on it",
        remedy=_CHECK,
    ),
    15247: _NAMELESS,
}


def permission_denied(purpose: str, number: int | None, text: str) -> PermissionDeniedError | None:
    """Return our error for an error number and text of SQL Server; None for a number that is not about permissions."""
    if number is None or (denial := _DENIALS.get(number)) is None:
        return None
    clause, permission = denial.otherwise, denial.permission
    if found := re.search(denial.text, text, re.DOTALL):
        groups = found.groupdict()
        words = {key: value if key in _WORDS else f"'{value}'" for key, value in groups.items()}
        clause, permission = denial.clause.format(**words), groups.get("permission", permission)
    return PermissionDeniedError(
        f"Could not {purpose}: {clause}; {denial.remedy} (SQL Server error {number}).", permission
    )
