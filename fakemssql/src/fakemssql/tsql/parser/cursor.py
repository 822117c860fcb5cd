"""A cursor over tokens: what every part of the parser needs."""

from __future__ import annotations

from typing import NoReturn

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer
from fakemssql.tsql.parser.keywords import RESERVED
from fakemssql.tsql.parser.lexer import Token
from fakemssql.tsql.parser.nodes import Name
from fakemssql.tsql.parser.types import TYPE_NAMES, make_type
from fakemssql.types import MAX, SqlType


class Cursor:
    """Reads tokens one by one; raises 102 or 156 where SQL Server would."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text, self.tokens, self.index = text, tokens, 0
        self.declared: set[str] = set()  # variables of the batch or module
        self.in_module = False
        self.adding = False  # in ALTER TABLE ... ADD

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    @property
    def upper(self) -> str:
        return self.tokens[self.index].upper

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.tokens[self.index]
        if token.kind != lexer.END:
            self.index += 1
        return token

    def fail(self, token: Token | None = None) -> NoReturn:
        token = token or self.token
        near = self.text[token.start : token.end] if token.kind == lexer.VARIABLE else token.value
        if token.kind == lexer.END:
            last = self.tokens[max(self.index - 1, 0)]
            near = last.value
        if token.upper in RESERVED:
            raise SqlError(156, f"Incorrect syntax near the keyword '{token.value}'.", severity=15, line=token.line)
        if isinstance(near, bytes):
            near = "0x" + near.hex().upper()
        raise SqlError(102, f"Incorrect syntax near '{near}'.", severity=15, line=token.line)

    def unsupported(self, what: str, token: Token | None = None) -> NoReturn:
        """What SQL Server knows and fakemssql does not: error 40517 (a feature is not supported)."""
        line = (token or self.token).line
        raise SqlError(40517, f"{what} is not supported by fakemssql.", line=line)

    def is_op(self, op: str) -> bool:
        token = self.tokens[self.index]
        return token.kind == lexer.OPERATOR and token.value == op

    def accept_op(self, op: str) -> bool:
        if self.is_op(op):
            self.index += 1
            return True
        return False

    def expect_op(self, op: str) -> Token:
        if not self.is_op(op):
            self.fail()
        return self.next()

    def accept(self, *words: str) -> bool:
        """Take the words if they all come next."""
        for offset, word in enumerate(words):
            if self.peek(offset).upper != word:
                return False
        self.index += len(words)
        return True

    def accept_any(self, *words: str) -> str:
        word = self.upper
        if word and word in words:
            self.index += 1
            return word
        return ""

    def expect(self, *words: str) -> Token:
        token = self.token
        for word in words:
            token = self.token
            if token.upper != word:
                self.fail()
            self.index += 1
        return token

    def is_identifier(self, token: Token | None = None) -> bool:
        token = token or self.token
        if token.kind == lexer.WORD:
            return token.upper not in RESERVED and not token.upper.startswith("$")
        return token.kind == lexer.QUOTED

    def identifier(self) -> str:
        token = self.token
        if not self.is_identifier(token):
            self.fail()
        self.index += 1
        if len(token.value) > 128:
            raise SqlError(
                103,
                f"The identifier that starts with '{token.value[:128]}' is too long. Maximum length is 128.",
                severity=15,
                line=token.line,
            )
        if not token.value.strip(" ") and token.kind == lexer.QUOTED:
            raise SqlError(1038, "An object or column name is missing or empty.", severity=15, line=token.line)
        return str(token.value)

    def name(self, most: int = 4) -> Name:
        """A name of up to ``most`` parts, of which any but the last may be left out."""
        left_out = 0
        while self.accept_op("."):
            left_out += 1
        parts = [self.identifier()]
        while self.accept_op("."):
            while self.accept_op("."):
                parts.append("")
            parts.append(self.identifier())
        if left_out + len(parts) > most:
            self.fail(self.peek(-1))
        return tuple(parts)

    def switch(self) -> bool:
        """ON or OFF."""
        word = self.accept_any("ON", "OFF")
        if not word:
            self.fail()
        return word == "ON"

    def integer(self) -> int:
        sign = -1 if self.accept_op("-") else 1
        self.accept_op("+")
        token = self.next()
        if token.kind != lexer.NUMBER or not token.value.isdigit():
            self.fail(token)
        return sign * int(token.value)

    def variable(self) -> str:
        token = self.next()
        if token.kind != lexer.VARIABLE or len(token.value) < 2:
            self.fail(token)
        return str(token.value).lower()

    def type(self, declared: bool = True) -> SqlType:
        """A data type as in a declaration (``declared``) or in CAST."""
        token = self.token
        if not self.is_identifier(token) and token.upper not in ("NATIONAL", "DOUBLE", "CURSOR"):
            self.fail()
        self.index += 1
        name = str(token.value)
        if self.is_op(".") and name.lower() in ("sys", "dbo"):
            self.next()
            name = str(self.next().value)
        lowered = name.lower()
        if lowered == "national":
            lowered += str(self.next().value).lower()
        if lowered in ("character", "char", "binary", "nationalchar", "nationalcharacter") and self.accept("VARYING"):
            lowered += "varying"
        if lowered == "double" and self.accept("PRECISION"):
            lowered = "float"
        sizes: list[int] = []
        if self.is_op("(") and (self.peek().kind == lexer.NUMBER or self.peek().upper == "MAX"):
            self.next()
            if self.accept("MAX"):
                varying = ("varchar", "nvarchar", "varbinary", "charvarying", "charactervarying")
                if lowered in TYPE_NAMES and lowered not in varying:
                    self.fail(self.peek(-1))
                sizes.append(MAX)
            else:
                sizes.append(self.integer())
                if self.accept_op(","):
                    sizes.append(self.integer())
            self.expect_op(")")
        if lowered in ("rowversion", "timestamp", "hierarchyid", "geography", "geometry", "json", "vector", "cursor"):
            self.unsupported(f"The data type {lowered}", token)
        return make_type(lowered, sizes, declared=declared, line=token.line)

    def source_text(self, start: int) -> str:
        """The text from the token at index ``start`` to the last token taken."""
        return self.text[self.tokens[start].start : self.tokens[self.index - 1].end]
