# ruff: noqa: S608 - names are the catalog's own, values are numbers of principals and databases
"""Visibility of the catalog: the rows of system views that a login sees.

Source: "Metadata visibility configuration", and the section "Permissions" of each view's page.
"""

from __future__ import annotations

from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.names import quoted
from fakemssql.tsql.security.context import DATABASE, SERVER, Identity, SecurityContext

_PUBLIC = frozenset(["partitions", "allocation_units", "schemas", "data_spaces", "filegroups", "configurations"])
"""Views whose rows every user of a database sees, though they have ids of objects."""

_KEYS = ("object_id", "parent_object_id", "referencing_id", "id")
_NAMED = (
    ("table_schema", "table_name"),
    ("view_schema", "view_name"),
    ("routine_schema", "routine_name"),
    ("constraint_schema", "constraint_name"),
    ("specific_schema", "specific_name"),
)
_TEXTS = frozenset(
    ["definition", "routine_definition", "view_definition", "column_default", "check_clause", "filter_definition"]
)
"""Columns that are NULL for users who may not see the definition."""

_OWN_SESSION = {"dm_exec_sessions": "session_id", "dm_exec_requests": "session_id"}
_OF_SERVER = ("dm_db_index_usage_stats", "dm_db_missing_index")
_SECURITY_STATE = frozenset(["dm_exec_connections"])


def system_rows(security: SecurityContext, table: TableInfo) -> str:
    """Return the text of a system view as the user sees it, in parentheses. Errors 300 and 262 without the permission
    for it.
    """
    conditions = [f"_db = {table.extra['database_id']}"] if table.database_filter else []
    columns = "*"
    if not security.powerful:
        identity = security.identity(table.database)
        if identity.user_id != 1 or table.schema == "sys":
            conditions += _conditions(security, table, identity)
        if identity.user_id != 1:
            columns = ", ".join(_column(table, column.pg, identity) for column in table.columns)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"(SELECT {columns} FROM {table.pg}{where})"


def _conditions(security: SecurityContext, table: TableInfo, identity: Identity) -> list[str]:
    name = table.name.lower()
    if table.schema == "sys":
        if name in _OWN_SESSION:
            seen = security.allowed(table.database, SERVER, 0, "VIEW SERVER PERFORMANCE STATE")
            return [] if seen else [f"{_OWN_SESSION[name]} = pg_backend_pid() % 32768"]
        if name.startswith("dm_"):
            require_state(security, table.database, name)
        special = _principals(security, table.database, name, identity)
        if special is not None:
            return special
        if name in _PUBLIC:
            return []
    if identity.user_id == 1:
        return []
    rows = _own_rows(table, identity, False)
    return [rows] if rows else []


def require_state(security: SecurityContext, database: str, name: str) -> None:
    """Raise error 300 or 262 without the permission for a dynamic management view or function."""
    server = not name.startswith("dm_db_") or name.startswith(_OF_SERVER)
    kind = "SECURITY" if name in _SECURITY_STATE else "PERFORMANCE"
    security.require_state(database, f"VIEW {'SERVER' if server else 'DATABASE'} {kind} STATE", server)


def _own_rows(table: TableInfo, identity: Identity, source: bool) -> str:
    """Return the condition that the user sees the object of a row (with ``source``, its definition)."""
    found = f"SELECT mssql.visible({identity.arguments}, {'true' if source else 'false'})"
    names = {column.pg for column in table.columns}
    key = next((key for key in _KEYS if key in names), None)
    if key is not None:
        return f"{quoted(key)} IN ({found})"
    pair = next((pair for pair in _NAMED if names.issuperset(pair)), None)
    if pair is None:
        return ""
    listed = (
        "SELECT s.name, o.name FROM mssql.objects o JOIN mssql.schemas s USING (database_id, schema_id)"
        f" WHERE o.object_id IN ({found})"
    )
    return f"({pair[0]}, {pair[1]}) IN ({listed})"


def _column(table: TableInfo, name: str, identity: Identity) -> str:
    if name in _TEXTS:
        rows = _own_rows(table, identity, True)
        if rows:
            return f"CASE WHEN {rows} THEN {quoted(name)} END AS {quoted(name)}"
    return quoted(name)


def _principals(security: SecurityContext, database: str, name: str, identity: Identity) -> list[str] | None:
    """Return the conditions for a view of databases, principals or permissions; None for other views."""
    token, logins = f"ANY('{identity.token}'::int[])", f"ANY('{identity.logins}'::int[])"

    def may(kind: int, permission: str) -> bool:
        return security.allowed(database, kind, 0, permission)

    if name == "databases":
        login = security.account.login_id
        if may(SERVER, "VIEW ANY DATABASE") or may(SERVER, "ALTER ANY DATABASE"):
            return []
        owned = f"database_id IN (SELECT d.database_id FROM mssql.databases d WHERE d.owner_id = {login})"
        return [f"(database_id IN (1, 2, {identity.database_id}) OR {owned})"]
    everyone = may(DATABASE, "VIEW DEFINITION")
    if name in ("database_principals", "sysusers"):
        if everyone or may(DATABASE, "ALTER ANY USER"):
            return []
        granted = (
            f"SELECT p.major_id FROM mssql.permissions p WHERE p.database_id = {identity.database_id} AND p.class = 4"
            f" AND p.state <> 'D' AND p.grantee = {token}"
        )
        number = "principal_id" if name == "database_principals" else "uid"
        return [f"({number} <= 4 OR {number} BETWEEN 16384 AND 16399 OR {number} = {token} OR {number} IN ({granted}))"]
    if name == "database_role_members":
        return [] if everyone else [f"(member_principal_id = {token} OR role_principal_id = {token})"]
    if name == "database_permissions":
        return [] if everyone else [f"grantee_principal_id = {token}"]
    if name in ("server_principals", "sql_logins"):
        return [] if may(SERVER, "ALTER ANY LOGIN") else [f"(principal_id <= 10 OR principal_id = {logins})"]
    if name == "server_permissions":
        return [] if may(SERVER, "VIEW ANY DEFINITION") else [f"grantee_principal_id = {logins}"]
    if name == "server_role_members":
        return [] if may(SERVER, "VIEW ANY DEFINITION") else [f"member_principal_id = {logins}"]
    return None


def own_objects(security: SecurityContext, database: str, column: str) -> str:
    """Condition, beginning with AND, that the user sees the object; for queries of the engine itself."""
    if security.powerful:
        return ""
    identity = security.identity(database)
    if identity.user_id == 1:
        return ""
    return f" AND {column} IN (SELECT mssql.visible({identity.arguments}))"


def sees(security: SecurityContext, table: TableInfo, source: bool = False) -> bool:
    """Return whether the user sees the object or, with ``source``, its definition."""
    if security.powerful or table.local or table.object_id <= 0:
        return True
    identity = security.identity(table.database)
    flag = "true" if source else "false"
    rows = security.pg.query(f"SELECT mssql.seen({identity.arguments}, $1::int, {flag})", table.object_id)
    return rows[0][0] is not None
