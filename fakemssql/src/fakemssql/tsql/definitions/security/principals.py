"""CREATE, ALTER and DROP of users and roles, members of roles, owners."""

from __future__ import annotations

from dataclasses import dataclass

from fakemssql.contract import SqlError
from fakemssql.tsql.definitions.security.logins import Logins
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.security import errors
from fakemssql.tsql.security.context import DATABASE, PRINCIPAL

_SYSTEM = 4
"""Up to this number are public, dbo, guest, INFORMATION_SCHEMA and sys."""

_FIXED_ROLES = range(16384, 16400)
_FIRST_FREE = 5


@dataclass(frozen=True)
class Principal:
    """A user or role of a database."""

    number: int
    name: str
    kind: str  # S or R

    @property
    def fixed(self) -> bool:
        return self.number <= _SYSTEM or self.number in _FIXED_ROLES


class Principals(Logins):
    """Keeps users and roles of the current database."""

    @property
    def database_id(self) -> int:
        entry = self.catalog.database(self.session.database)
        assert entry is not None
        return entry[0]

    def principal(self, name: str) -> Principal | None:
        rows = self.pg.query(
            "SELECT principal_id, name, kind FROM mssql.principals WHERE database_id = $1::int AND folded = $2",
            self.database_id,
            fold(name),
        )
        return Principal(int(rows[0][0] or 0), str(rows[0][1]), str(rows[0][2])) if rows else None

    def _may_change(self, found: Principal, permission: str) -> bool:
        return self.may(permission, DATABASE) or self.may("ALTER", PRINCIPAL, found.number)

    def _owner(self, name: str | None) -> int:
        """The number of an owner that is named, else of the current user."""
        if name is None:
            return self.session.security.identity(self.session.database).user_id
        found = self.principal(name)
        if found is None:
            raise errors.missing("user", name)
        return found.number

    def _check_new_principal(self, name: str) -> None:
        if self.principal(name) is not None:
            raise SqlError(15023, f"User, group, or role '{name}' already exists in the current database.")

    def _insert_principal(self, name: str, kind: str, schema: str | None, login: int | None, owner: int | None) -> None:
        self.pg.query(
            "INSERT INTO mssql.principals (database_id, principal_id, name, folded, kind, default_schema, login_id,"
            " owner_id, sid) SELECT $1::int, (SELECT min(free) FROM generate_series($8::int, 16383) AS free WHERE NOT"
            " EXISTS (SELECT 1 FROM mssql.principals p WHERE p.database_id = $1::int AND p.principal_id = free)), $2,"
            " $3, $4, $5, $6::int, $7::int, COALESCE((SELECT sid FROM mssql.logins WHERE principal_id = $6::int),"
            " uuid_send(gen_random_uuid()))",
            self.database_id,
            name,
            fold(name),
            kind,
            schema,
            login,
            owner,
            _FIRST_FREE,
        )

    # --- users -----------------------------------------------------------------------------------------------------

    def _createuser(self, node: nodes.CreateUser) -> None:
        if not self.may("ALTER ANY USER", DATABASE):
            raise errors.not_allowed()
        login = None
        if node.login is not None:
            login = self._unmapped_login(node.login, node.name)
        self._check_new_principal(node.name)
        self._insert_principal(node.name, "S", node.schema or "dbo", login, None)
        self.pg.query(
            "INSERT INTO mssql.permissions SELECT database_id, 0, 0, principal_id, 1, 'CONNECT', 'G'"
            " FROM mssql.principals WHERE database_id = $1::int AND folded = $2",
            self.database_id,
            fold(node.name),
        )

    def _unmapped_login(self, name: str, user: str) -> int:
        """The number of a login that has no user in the database yet. Errors 15007 and 15063."""
        found = self.login(name)
        if found is None:
            raise SqlError(15007, f"'{name}' is not a valid login or you do not have permission.")
        taken = self.pg.query(
            "SELECT 1 FROM mssql.databases d WHERE database_id = $1::int AND (owner_id = $2::int OR EXISTS (SELECT 1"
            " FROM mssql.principals p WHERE p.database_id = d.database_id AND login_id = $2::int AND folded <> $3))",
            self.database_id,
            found[0],
            fold(user),
        )
        if taken:
            raise SqlError(15063, "The login already has an account under a different user name.")
        return found[0]

    def _alteruser(self, node: nodes.AlterUser) -> None:
        found = self.principal(node.name)
        if found is None or found.kind != "S" or not self._may_change(found, "ALTER ANY USER"):
            raise errors.missing("user", node.name, "alter")
        if found.fixed:
            raise SqlError(15150, f"Cannot alter the user '{found.name}'.")
        login = None
        if node.login is not None:
            login = self._unmapped_login(node.login, node.name)
        if node.new_name is not None:
            self._check_new_principal(node.new_name)
        name = node.new_name or found.name
        self.pg.query(
            "UPDATE mssql.principals SET name = $3, folded = $4, default_schema = COALESCE($5, default_schema),"
            " login_id = COALESCE($6::int, login_id), sid = COALESCE((SELECT sid FROM mssql.logins WHERE principal_id ="
            " $6::int), sid), modified = mssql.utcnow_dt() WHERE database_id = $1::int AND principal_id = $2::int",
            self.database_id,
            found.number,
            name,
            fold(name),
            node.schema,
            login,
        )

    # --- roles -----------------------------------------------------------------------------------------------------

    def _createrole(self, node: nodes.CreateRole) -> None:
        if not self.may("CREATE ROLE", DATABASE):
            raise errors.not_allowed()
        owner = self._owner(node.owner)
        self._check_new_principal(node.name)
        self._insert_principal(node.name, "R", None, None, owner)

    def _alterrole(self, node: nodes.AlterRole) -> None:
        if node.server:
            self.alter_server_role(node)
            return
        role = self.principal(node.name)
        if role is None or role.kind != "R" or not self._may_change_role(role):
            raise errors.missing("role", node.name, "alter")
        if role.number == 0:
            raise SqlError(15081, "Membership of the public role cannot be changed.")
        if node.action == "rename":
            self._rename_role(role, node.member)
            return
        member = self.principal(node.member)
        if member is None:
            raise errors.missing("user", node.member, node.action)
        if member.number <= _SYSTEM or member.number in _FIXED_ROLES:
            raise SqlError(15405, f"Cannot use the special principal '{member.name}'.", severity=11)
        self._change_members(role, member, node.action == "add")

    def _may_change_role(self, role: Principal) -> bool:
        """Members of fixed roles are changed by db_owner alone ("ALTER ROLE", permissions)."""
        if role.number in _FIXED_ROLES:
            return self.may("CONTROL", DATABASE)
        return self._may_change(role, "ALTER ANY ROLE")

    def _rename_role(self, role: Principal, name: str) -> None:
        if role.fixed:
            raise SqlError(15150, f"Cannot alter the role '{role.name}'.")
        self._check_new_principal(name)
        self.pg.query(
            "UPDATE mssql.principals SET name = $3, folded = $4 WHERE database_id = $1::int AND principal_id = $2::int",
            self.database_id,
            role.number,
            name,
            fold(name),
        )

    def _change_members(self, role: Principal, member: Principal, add: bool) -> None:
        if add:
            within = self.pg.query(
                "SELECT $2::int = ANY(mssql.token($1::int, $3::int))", self.database_id, member.number, role.number
            )
            if within[0][0] == "t":
                raise SqlError(15413, "Cannot make a role a member of itself.", severity=11)
        sql = (
            "INSERT INTO mssql.role_members VALUES ($1::int, $2::int, $3::int) ON CONFLICT DO NOTHING"
            if add
            else "DELETE FROM mssql.role_members WHERE database_id = $1::int AND role_id = $2::int"
            " AND member_id = $3::int"
        )
        self.pg.query(sql, self.database_id, role.number, member.number)

    # --- DROP, owners ----------------------------------------------------------------------------------------------

    def _dropprincipal(self, node: nodes.DropPrincipal) -> None:
        if node.kind == "login":
            self.drop_login(node.name)
            return
        found = self.principal(node.name)
        permission = "ALTER ANY USER" if node.kind == "user" else "ALTER ANY ROLE"
        if found is None and node.if_exists:
            return
        of_kind = found is not None and found.kind == ("S" if node.kind == "user" else "R")
        if found is None or not of_kind or not self._may_change(found, permission):
            raise errors.missing(node.kind, node.name, "drop")
        if found.fixed:
            raise SqlError(15150, f"Cannot drop the {node.kind} '{found.name}'.")
        self._check_unused(found)
        self.pg.query(
            "DELETE FROM mssql.principals WHERE database_id = $1::int AND principal_id = $2::int",
            self.database_id,
            found.number,
        )

    def _check_unused(self, found: Principal) -> None:
        """Errors 15138 and 15144 for an owner and for a role with members."""
        key = (self.database_id, found.number)
        if self.pg.query("SELECT 1 FROM mssql.schemas WHERE database_id = $1::int AND principal_id = $2::int", *key):
            raise SqlError(15138, "The database principal owns a schema in the database, and cannot be dropped.")
        if self.pg.query("SELECT 1 FROM mssql.principals WHERE database_id = $1::int AND owner_id = $2::int", *key):
            raise SqlError(15138, "The database principal owns a database role and cannot be dropped.")
        if self.pg.query("SELECT 1 FROM mssql.role_members WHERE database_id = $1::int AND role_id = $2::int", *key):
            raise SqlError(15144, "The role has members. It must be empty before it can be dropped.")
        granted = "SELECT 1 FROM mssql.permissions WHERE database_id = $1::int AND grantor = $2::int AND class <> 100"
        if self.pg.query(granted, *key):
            raise SqlError(
                15284,
                "The database principal has granted or denied permissions to objects in the database"
                " and cannot be dropped.",
            )
