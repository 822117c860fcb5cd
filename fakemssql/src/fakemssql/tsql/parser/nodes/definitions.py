"""Nodes of definitions: CREATE, ALTER, DROP; logins, users, roles and permissions."""

from __future__ import annotations

from dataclasses import dataclass, field

from fakemssql.tsql.parser.nodes.queries import Expr, Name, Query
from fakemssql.tsql.parser.nodes.statements import Declare, Statement
from fakemssql.types import SqlType


@dataclass
class ColumnDefinition:
    name: str
    type: SqlType | None
    nullable: bool | None = None
    identity: tuple[int, int] | None = None
    default: tuple[str, Expr, str] | None = None  # constraint name, expression, text
    computed: tuple[Expr, str] | None = None
    persisted: bool = False
    collation: str = ""
    rowguid: bool = False


@dataclass
class KeyColumn:
    name: str
    descending: bool = False


@dataclass
class Constraint:
    kind: str  # primary, unique, foreign, check, default
    name: str
    columns: list[KeyColumn] = field(default_factory=list)
    clustered: bool | None = None
    expression: Expr | None = None
    text: str = ""
    reference: Name = ()
    reference_columns: list[str] = field(default_factory=list)
    on_delete: str = ""
    on_update: str = ""
    options: dict[str, str] = field(default_factory=dict)


@dataclass
class IndexDefinition(Statement):
    name: str
    table: Name
    columns: list[KeyColumn]
    unique: bool = False
    clustered: bool = False
    include: list[str] = field(default_factory=list)
    where: Expr | None = None
    where_text: str = ""
    options: dict[str, str] = field(default_factory=dict)


@dataclass
class CreateTable(Statement):
    name: Name
    columns: list[ColumnDefinition]
    constraints: list[Constraint]
    indexes: list[IndexDefinition]
    options: dict[str, str] = field(default_factory=dict)


@dataclass
class DeclareTable(Statement):
    name: str
    table: CreateTable


@dataclass
class AlterTable(Statement):
    name: Name
    action: str
    columns: list[ColumnDefinition] = field(default_factory=list)
    constraints: list[Constraint] = field(default_factory=list)
    names: list[tuple[str, str, bool]] = field(default_factory=list)  # kind, name, IF EXISTS
    indexes: list[IndexDefinition] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    rebuilds: bool = False


@dataclass
class AlterIndex(Statement):
    name: str | None  # None: ALL
    table: Name
    action: str
    options: dict[str, str] = field(default_factory=dict)


@dataclass
class Drop(Statement):
    kind: str
    names: list[Name]
    if_exists: bool
    table: Name = ()


@dataclass
class CreateSchema(Statement):
    name: str
    owner: str | None = None


@dataclass
class CreateDatabase(Statement):
    name: str


@dataclass
class AlterDatabase(Statement):
    name: str
    options: list[str]


@dataclass
class CreateSynonym(Statement):
    name: Name
    target: Name


@dataclass
class CreateView(Statement):
    name: Name
    columns: list[str]
    query: Query
    mode: str  # create, alter, create or alter


@dataclass
class CreateModule(Statement):
    """CREATE PROCEDURE or CREATE TRIGGER."""

    kind: str
    name: Name
    mode: str
    parameters: list[Declare] = field(default_factory=list)
    body: list[Statement] | None = None
    table: Name = ()
    events: list[str] = field(default_factory=list)
    instead: bool = False


@dataclass
class TriggerState(Statement):
    name: str
    table: Name
    enabled: bool


@dataclass
class UpdateStatistics(Statement):
    """UPDATE STATISTICS of a table or of the named indexes.

    ``row_count`` is the number of rows that the catalog will show, whatever the table holds.
    """

    table: Name
    names: list[str]
    row_count: int | None = None


@dataclass
class SecurityDefinition(Statement):
    """Statement on logins, users, roles or permissions; it runs in a transaction, as other definitions do."""


@dataclass
class CreateLogin(SecurityDefinition):
    name: str
    password: str = field(repr=False)
    database: str
    policy: bool


@dataclass
class AlterLogin(SecurityDefinition):
    """ALTER LOGIN; a field that is None stays unchanged."""

    name: str
    password: str | None = field(default=None, repr=False)
    old_password: str | None = field(default=None, repr=False)
    database: str | None = None
    policy: bool | None = None
    new_name: str | None = None
    enabled: bool | None = None


@dataclass
class CreateUser(SecurityDefinition):
    name: str
    login: str | None  # None: WITHOUT LOGIN
    schema: str | None


@dataclass
class AlterUser(SecurityDefinition):
    name: str
    new_name: str | None = None
    schema: str | None = None
    login: str | None = None


@dataclass
class CreateRole(SecurityDefinition):
    name: str
    owner: str | None


@dataclass
class AlterRole(SecurityDefinition):
    """ALTER ROLE or ALTER SERVER ROLE; ``action`` is add or drop (a member), or rename."""

    name: str
    action: str
    member: str
    server: bool = False


@dataclass
class DropPrincipal(SecurityDefinition):
    kind: str  # login, user, role
    name: str
    if_exists: bool


@dataclass
class Permission(SecurityDefinition):
    """GRANT, DENY or REVOKE. ``kind`` is the class of the securable, empty for the database or the server."""

    action: str
    permissions: list[str]
    kind: str
    securable: Name
    principals: list[str]
    grant_option: bool = False  # WITH GRANT OPTION, or GRANT OPTION FOR
