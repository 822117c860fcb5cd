"""Parsing of statements on logins, users, roles and permissions."""

from __future__ import annotations

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.parser import Parser

_CLASSES = ("OBJECT", "SCHEMA", "DATABASE", "USER", "ROLE")
_NO_PERMISSION = ("FROM", "GRANT", "ON", "TO", "TRY_CONVERT", "WHERE")
"""Words that the name of a permission does not contain."""

_SHORT = {"EXEC": "EXECUTE", "CREATE PROC": "CREATE PROCEDURE"}


def _principal(p: Parser) -> str:
    """Parse the name of a login, user or role; ``public`` needs no brackets, although it is a reserved word."""
    return "public" if p.accept("PUBLIC") else p.identifier()


def _option(p: Parser) -> str:
    """Parse the name of an option and the equals sign behind it."""
    option = p.word()
    p.expect_op("=")
    return option


def _password(p: Parser) -> str:
    if p.token.kind == lexer.BINARY:
        p.unsupported("A HASHED password")
    password = p.string()
    if p.upper in ("HASHED", "MUST_CHANGE", "UNLOCK"):
        p.unsupported(f"PASSWORD ... {p.upper}")
    return password


# --- CREATE ----------------------------------------------------------------------------------------------------------


def create_role(p: Parser) -> nodes.CreateRole:
    line = p.expect("ROLE").line
    name = p.identifier()
    return nodes.CreateRole(name, _principal(p) if p.accept("AUTHORIZATION") else None, line=line)


def create_user(p: Parser) -> nodes.CreateUser:
    line = p.expect("USER").line
    user = nodes.CreateUser(p.identifier(), None, None, line=line)
    user.login = user.name
    if p.accept_any("FOR", "FROM"):
        if not p.accept("LOGIN"):
            p.unsupported("A user for a certificate or key")
        user.login = p.identifier()
    elif p.accept("WITHOUT"):
        p.expect("LOGIN")
        user.login = None
    more = p.accept("WITH")
    while more:
        option = _option(p)
        if option == "DEFAULT_SCHEMA":
            user.schema = p.identifier()
        elif option == "ALLOW_ENCRYPTED_VALUE_MODIFICATIONS":
            p.switch()
        else:
            p.unsupported(f"CREATE USER ... WITH {option}")
        more = p.accept_op(",")
    return user


def create_login(p: Parser) -> nodes.CreateLogin:
    line = p.expect("LOGIN").line
    login = nodes.CreateLogin(p.identifier(), "", "master", True, line=line)
    if not p.accept("WITH"):
        p.unsupported("A login from Windows, a certificate or a key")
    p.expect("PASSWORD")
    p.expect_op("=")
    login.password = _password(p)
    while p.accept_op(","):
        option = _option(p)
        if option == "DEFAULT_DATABASE":
            login.database = p.identifier()
        elif option == "CHECK_POLICY":
            login.policy = p.switch()
        elif option == "CHECK_EXPIRATION":
            if p.switch():
                p.unsupported("CHECK_EXPIRATION = ON")
        elif option == "DEFAULT_LANGUAGE":
            if p.identifier().lower() not in ("us_english", "english"):
                p.unsupported("Another language", p.peek(-1))
        else:
            p.unsupported(f"CREATE LOGIN ... WITH {option}")
    return login


# --- ALTER -----------------------------------------------------------------------------------------------------------


def alter_role(p: Parser) -> nodes.AlterRole:
    token = p.next()
    server = token.upper == "SERVER"
    if server:
        p.expect("ROLE")
    name, action = p.identifier(), p.word()
    if action == "WITH":
        p.expect("NAME")
        p.expect_op("=")
        return nodes.AlterRole(name, "rename", p.identifier(), server, line=token.line)
    if action not in ("ADD", "DROP"):
        p.fail(p.peek(-1))
    p.expect("MEMBER")
    return nodes.AlterRole(name, action.lower(), p.identifier(), server, line=token.line)


def alter_user(p: Parser) -> nodes.AlterUser:
    line = p.expect("USER").line
    user = nodes.AlterUser(p.identifier(), line=line)
    p.expect("WITH")
    while True:
        option = _option(p)
        if option == "NAME":
            user.new_name = p.identifier()
        elif option == "DEFAULT_SCHEMA":
            user.schema = "dbo" if p.accept("NULL") else p.identifier()
        elif option == "LOGIN":
            user.login = p.identifier()
        else:
            p.unsupported(f"ALTER USER ... WITH {option}")
        if not p.accept_op(","):
            return user


def alter_login(p: Parser) -> nodes.AlterLogin:
    line = p.expect("LOGIN").line
    login = nodes.AlterLogin(p.identifier(), line=line)
    word = p.accept_any("ENABLE", "DISABLE")
    if word:
        login.enabled = word == "ENABLE"
        return login
    if not p.accept("WITH"):
        p.unsupported("Credentials of logins")
    while True:
        option = _option(p)
        if option == "PASSWORD":
            login.password = _password(p)
            if p.accept("OLD_PASSWORD"):
                p.expect_op("=")
                login.old_password = _password(p)
        elif option == "DEFAULT_DATABASE":
            login.database = p.identifier()
        elif option == "NAME":
            login.new_name = p.identifier()
        elif option == "CHECK_POLICY":
            login.policy = p.switch()
        elif option != "CHECK_EXPIRATION" or p.switch():
            p.unsupported(f"ALTER LOGIN ... WITH {option}")
        if not p.accept_op(","):
            return login


# --- DROP ------------------------------------------------------------------------------------------------------------


def drop_principal(p: Parser) -> nodes.DropPrincipal:
    line = p.expect("DROP").line
    kind = p.word().lower()
    exists = kind != "login" and p.accept("IF", "EXISTS")
    return nodes.DropPrincipal(kind, p.identifier(), exists, line=line)


# --- GRANT, DENY, REVOKE ---------------------------------------------------------------------------------------------


def permission(p: Parser) -> nodes.Permission:
    token = p.next()
    action = token.upper.lower()
    option = action == "revoke" and p.accept("GRANT", "OPTION", "FOR")
    statement = nodes.Permission(action, p.list_of(_permission), "", (), [], option, line=token.line)
    if p.accept("ON"):
        statement.kind, statement.securable = _securable(p)
    if not (p.accept("TO") or (action == "revoke" and p.accept("FROM"))):
        p.fail()
    statement.principals = p.list_of(_principal)
    if action == "grant" and p.accept("WITH", "GRANT", "OPTION"):
        statement.grant_option = True
    if action != "grant":
        p.accept("CASCADE")
    if p.upper == "AS":
        p.unsupported(f"{token.upper} ... AS")
    return statement


def _permission(p: Parser) -> str:
    words = []
    while p.token.kind == lexer.WORD and p.upper not in _NO_PERMISSION:
        words.append(p.word())
    if not words:
        p.fail()
    if p.is_op("("):
        p.unsupported("A permission on columns")
    name = " ".join(words)
    return _SHORT.get(name, name)


def _securable(p: Parser) -> tuple[str, nodes.Name]:
    """``[class::]name``; an object if the class is omitted."""
    kind = "OBJECT"
    if p.peek().value == "::":
        kind = p.word()
        if kind not in _CLASSES:
            p.unsupported(f"A permission on a {kind.lower()}", p.peek(-1))
        p.expect_op("::")
    elif p.peek(2).value == "::":
        p.unsupported("A permission on a securable of this class")
    return kind.lower(), (p.identifier(),) if kind == "ROLE" else p.name()
