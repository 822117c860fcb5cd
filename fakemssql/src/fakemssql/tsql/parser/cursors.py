"""Parsing of DECLARE CURSOR, OPEN, FETCH, CLOSE and DEALLOCATE."""

from __future__ import annotations

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.definitions import Definitions
from fakemssql.tsql.parser.nodes import Statement

_CURSOR_OPTIONS = (
    *("LOCAL", "GLOBAL", "FORWARD_ONLY", "SCROLL", "STATIC", "KEYSET", "DYNAMIC", "FAST_FORWARD"),
    *("READ_ONLY", "SCROLL_LOCKS", "OPTIMISTIC", "TYPE_WARNING"),
)


class CursorStatements(Definitions):
    """Adds cursors."""

    def _declare_cursor(self, variable: str = "") -> nodes.DeclareCursor:
        """``name CURSOR [options] FOR query``, or from CURSOR on what ``SET @c =`` gives a variable."""
        line = self.token.line
        name = variable or self.identifier()
        options = []
        while self.upper in ("INSENSITIVE", "SCROLL"):
            options.append(self.next().upper)
        self.expect("CURSOR")
        while self.upper in _CURSOR_OPTIONS:
            options.append(self.next().upper)
        self.expect("FOR")
        start = self.index
        query = nodes.SelectStatement(self.query(self.with_clause() if self.upper == "WITH" else []))
        query.line, query.text = self.tokens[start].line, self.source_text(start)
        if self.accept("FOR"):
            if self.accept("READ"):
                self.next()
            else:
                self.expect("UPDATE")
                if self.accept("OF"):
                    self.identifier()
                    while self.accept_op(","):
                        self.identifier()
        static = {"SCROLL", "STATIC", "KEYSET", "DYNAMIC"}.intersection(options)
        return nodes.DeclareCursor(
            name, query, "LOCAL" in options, bool(static) and "FORWARD_ONLY" not in options, line=line
        )

    def _cursor_name(self) -> str:
        self.accept("GLOBAL")
        return self.variable() if self.token.kind == lexer.VARIABLE else self.identifier()

    def _cursor_action(self) -> Statement:
        return nodes.CursorAction(self.next().upper.lower(), self._cursor_name())

    _on_open = _on_close = _on_deallocate = _cursor_action

    def _on_fetch(self) -> Statement:
        self.next()
        direction = self.accept_any("NEXT", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE")
        number = self.expression() if direction in ("ABSOLUTE", "RELATIVE") else None
        if direction:
            self.expect("FROM")
        else:
            self.accept("FROM")
        name, into = self._cursor_name(), []
        if self.accept("INTO"):
            into.append(self.variable())
            while self.accept_op(","):
                into.append(self.variable())
        return nodes.Fetch(direction or "NEXT", number, name, into)
