"""Statements on logins, users, roles and permissions."""

from __future__ import annotations

from dataclasses import dataclass, field

from fakemssql.tsql.parser.nodes.queries import Name
from fakemssql.tsql.parser.nodes.statements import Statement


@dataclass
class SecurityDefinition(Statement):
    """What is run as a definition is, in a transaction."""


@dataclass
class CreateLogin(SecurityDefinition):
    name: str
    password: str = field(repr=False)
    database: str
    policy: bool


@dataclass
class AlterLogin(SecurityDefinition):
    """What is None stays as it is."""

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
    """``action`` is add, drop (a member) or rename."""

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
    cascade: bool = False
