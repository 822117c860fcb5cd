"""Parsing of statements on logins, users, roles and permissions."""

from __future__ import annotations

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.control import Control
from fakemssql.tsql.parser.nodes import Statement

_CLASSES = ("OBJECT", "SCHEMA", "DATABASE", "USER", "ROLE")
_NO_PERMISSION = ("FROM", "GRANT", "ON", "TO", "TRY_CONVERT", "WHERE")
"""Words that no permission has in its name."""

_PRINCIPALS = ("LOGIN", "USER", "ROLE")


class Security(Control):
    """Adds security statements."""

    def principal(self) -> str:
        """A login, user or role; ``public`` needs no brackets though it is a reserved word."""
        return "public" if self.accept("PUBLIC") else self.identifier()

    def _password(self) -> str:
        token = self.next()
        if token.kind == lexer.BINARY:
            self.unsupported("A HASHED password", token)
        if token.kind not in (lexer.STRING, lexer.NSTRING):
            self.fail(token)
        if self.upper in ("HASHED", "MUST_CHANGE", "UNLOCK"):
            self.unsupported(f"PASSWORD ... {self.upper}")
        return str(token.value)

    # --- CREATE ----------------------------------------------------------------------------------------------------

    def create_principal(self) -> Statement:
        kind, line = self.upper, self.next().line
        if kind == "LOGIN":
            return self._create_login(line)
        if kind == "ROLE":
            name = self.identifier()
            return nodes.CreateRole(name, self.principal() if self.accept("AUTHORIZATION") else None, line=line)
        user = nodes.CreateUser(self.identifier(), None, None, line=line)
        user.login = user.name
        if self.accept_any("FOR", "FROM"):
            if not self.accept("LOGIN"):
                self.unsupported("A user for a certificate or key")
            user.login = self.identifier()
        elif self.accept("WITHOUT"):
            self.expect("LOGIN")
            user.login = None
        if self.accept("WITH"):
            while True:
                option = self._word()
                self.expect_op("=")
                if option == "DEFAULT_SCHEMA":
                    user.schema = self.identifier()
                elif option == "ALLOW_ENCRYPTED_VALUE_MODIFICATIONS":
                    self.switch()
                else:
                    self.unsupported(f"CREATE USER ... WITH {option}")
                if not self.accept_op(","):
                    break
        return user

    def _create_login(self, line: int) -> Statement:
        login = nodes.CreateLogin(self.identifier(), "", "master", True, line=line)
        if not self.accept("WITH"):
            self.unsupported("A login from Windows, a certificate or a key")
        self.expect("PASSWORD")
        self.expect_op("=")
        login.password = self._password()
        while self.accept_op(","):
            option = self._word()
            self.expect_op("=")
            if option == "DEFAULT_DATABASE":
                login.database = self.identifier()
            elif option == "CHECK_POLICY":
                login.policy = self.switch()
            elif option == "CHECK_EXPIRATION":
                if self.switch():
                    self.unsupported("CHECK_EXPIRATION = ON")
            elif option == "DEFAULT_LANGUAGE":
                if self.identifier().lower() not in ("us_english", "english"):
                    self.unsupported("Another language", self.peek(-1))
            else:
                self.unsupported(f"CREATE LOGIN ... WITH {option}")
        return login

    # --- ALTER -----------------------------------------------------------------------------------------------------

    def alter_principal(self) -> Statement:
        kind, line = self.upper, self.next().line
        if kind == "LOGIN":
            return self._alter_login(line)
        if kind == "USER":
            return self._alter_user(line)
        server = kind == "SERVER"
        if server:
            self.expect("ROLE")
        name, action = self.identifier(), self._word()
        if action == "WITH":
            self.expect("NAME")
            self.expect_op("=")
            return nodes.AlterRole(name, "rename", self.identifier(), server, line=line)
        if action not in ("ADD", "DROP"):
            self.fail(self.peek(-1))
        self.expect("MEMBER")
        return nodes.AlterRole(name, action.lower(), self.identifier(), server, line=line)

    def _alter_login(self, line: int) -> Statement:
        login = nodes.AlterLogin(self.identifier(), line=line)
        word = self.accept_any("ENABLE", "DISABLE")
        if word:
            login.enabled = word == "ENABLE"
            return login
        if not self.accept("WITH"):
            self.unsupported("Credentials of logins")
        while True:
            option = self._word()
            self.expect_op("=")
            if option == "PASSWORD":
                login.password = self._password()
                if self.accept("OLD_PASSWORD"):
                    self.expect_op("=")
                    login.old_password = self._password()
            elif option == "DEFAULT_DATABASE":
                login.database = self.identifier()
            elif option == "NAME":
                login.new_name = self.identifier()
            elif option == "CHECK_POLICY":
                login.policy = self.switch()
            elif option == "CHECK_EXPIRATION" and not self.switch():
                pass
            else:
                self.unsupported(f"ALTER LOGIN ... WITH {option}")
            if not self.accept_op(","):
                return login

    def _alter_user(self, line: int) -> Statement:
        user = nodes.AlterUser(self.identifier(), line=line)
        self.expect("WITH")
        while True:
            option = self._word()
            self.expect_op("=")
            if option == "NAME":
                user.new_name = self.identifier()
            elif option == "DEFAULT_SCHEMA":
                user.schema = "dbo" if self.accept("NULL") else self.identifier()
            elif option == "LOGIN":
                user.login = self.identifier()
            else:
                self.unsupported(f"ALTER USER ... WITH {option}")
            if not self.accept_op(","):
                return user

    # --- DROP ------------------------------------------------------------------------------------------------------

    def drops_principal(self) -> bool:
        return self.peek().upper in _PRINCIPALS

    def drop_principal(self) -> Statement:
        line = self.expect("DROP").line
        kind = self._word().lower()
        exists = kind != "login" and self.accept("IF", "EXISTS")
        return nodes.DropPrincipal(kind, self.identifier(), exists, line=line)

    # --- GRANT, DENY, REVOKE ---------------------------------------------------------------------------------------

    def _on_grant(self) -> Statement:
        token = self.next()
        action = token.upper.lower()
        option = action == "revoke" and self.accept("GRANT", "OPTION", "FOR")
        statement = nodes.Permission(action, self._permissions(), "", (), [], option, line=token.line)
        if self.accept("ON"):
            statement.kind, statement.securable = self._securable()
        if not (self.accept("TO") or (action == "revoke" and self.accept("FROM"))):
            self.fail()
        statement.principals = [self.principal()]
        while self.accept_op(","):
            statement.principals.append(self.principal())
        if action == "grant" and self.accept("WITH", "GRANT", "OPTION"):
            statement.grant_option = True
        statement.cascade = action != "grant" and self.accept("CASCADE")
        if self.upper == "AS":
            self.unsupported(f"{token.upper} ... AS")
        return statement

    _on_deny = _on_grant

    _on_revoke = _on_grant

    def _permissions(self) -> list[str]:
        found = []
        while True:
            words = []
            while self.token.kind == lexer.WORD and self.upper not in _NO_PERMISSION:
                words.append(self._word())
            if not words:
                self.fail()
            if self.is_op("("):
                self.unsupported("A permission on columns")
            name = " ".join(words)
            found.append({"EXEC": "EXECUTE", "CREATE PROC": "CREATE PROCEDURE"}.get(name, name))
            if not self.accept_op(","):
                return found

    def _securable(self) -> tuple[str, nodes.Name]:
        """``[class::]name``; an object where no class is named."""
        kind = "OBJECT"
        if self.peek().value == "::":
            kind = self._word()
            if kind not in _CLASSES:
                self.unsupported(f"A permission on a {kind.lower()}", self.peek(-1))
            self.expect_op("::")
        elif self.peek(2).value == "::":
            self.unsupported("A permission on a securable of this class")
        return kind.lower(), (self.identifier(),) if kind == "ROLE" else self.name()
