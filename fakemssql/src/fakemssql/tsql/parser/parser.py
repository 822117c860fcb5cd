"""Parser: the tokens, the position among them, and the rules that lower rules need.

A rule is a function that takes a parser, reads its part of the text and returns a node. It calls rules of its own
module and of lower modules. The grammar is circular (a query has expressions, an expression has queries): a rule calls
a higher rule through the parser. :class:`~fakemssql.tsql.parser.batches.Batch` sets these rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NoReturn, TypeVar

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer
from fakemssql.tsql.parser.lexer import RESERVED, Token, syntax_error
from fakemssql.tsql.parser.nodes import Expr, Name, Query, Statement

Item = TypeVar("Item")

ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="])


class Parser:
    """Reader of tokens, one by one; it raises error 102 or 156 where SQL Server does."""

    expression: ClassVar[Callable[[Parser], Expr]]
    condition: ClassVar[Callable[[Parser], Expr]]
    predicate: ClassVar[Callable[[Parser], Expr]]
    nested_query: ClassVar[Callable[[Parser], Query]]
    statement: ClassVar[Callable[[Parser], Statement]]
    """Rules that lower rules call."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text, self.tokens = text, tokens
        self.declared: set[str] = set()  # variables of the batch or module
        self.in_module = False
        self.move(0)

    # --- Position -------------------------------------------------------------------------------------------------

    def move(self, index: int) -> None:
        """Go to the token at ``index``, backward or forward."""
        self.index = index
        self.token = self.tokens[index]
        self.upper: str = self.token.upper

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.token
        if token.kind != lexer.END:
            self.index += 1
            self.token = following = self.tokens[self.index]
            self.upper = following.upper
        return token

    def source_text(self, start: int) -> str:
        """Return the text from the token at index ``start`` to the last token taken."""
        return self.text[self.tokens[start].start : self.tokens[self.index - 1].end]

    # --- Refusals --------------------------------------------------------------------------------------------------

    def fail(self, token: Token | None = None) -> NoReturn:
        token = token or self.token
        near = self.text[token.start : token.end] if token.kind == lexer.VARIABLE else token.value
        if token.kind == lexer.END:
            last = self.tokens[max(self.index - 1, 0)]
            near = last.value
        if token.upper in RESERVED:
            raise syntax_error(156, f"Incorrect syntax near the keyword '{token.value}'.", line=token.line)
        if isinstance(near, bytes):
            near = "0x" + near.hex().upper()
        raise syntax_error(102, f"Incorrect syntax near '{near}'.", line=token.line)

    def unsupported(self, what: str, token: Token | None = None) -> NoReturn:
        """Raise error 40517 (not supported) for a feature that SQL Server has and fakemssql does not."""
        line = (token or self.token).line
        raise SqlError(40517, f"{what} is not supported by fakemssql.", line=line)

    @staticmethod
    def refusing(what: str) -> Callable[[Parser], NoReturn]:
        """Return a rule that refuses a feature as not supported."""
        return lambda p: p.unsupported(what)

    # --- Operators and words ---------------------------------------------------------------------------------------

    def is_op(self, op: str) -> bool:
        token = self.token
        return token.kind == lexer.OPERATOR and token.value == op

    def accept_op(self, op: str) -> bool:
        token = self.token
        if token.kind == lexer.OPERATOR and token.value == op:
            self.next()
            return True
        return False

    def skip_semicolons(self) -> None:
        while self.accept_op(";"):
            pass

    def expect_op(self, op: str) -> Token:
        if not self.is_op(op):
            self.fail()
        return self.next()

    def accept(self, *words: str) -> bool:
        """Take the words if all of them come next."""
        if self.upper != words[0]:
            return False
        for offset in range(1, len(words)):
            if self.peek(offset).upper != words[offset]:
                return False
        self.move(self.index + len(words))
        return True

    def accept_any(self, *words: str) -> str:
        word = self.upper
        if word and word in words:
            self.next()
            return word
        return ""

    def expect(self, *words: str) -> Token:
        """Take the words and return the last token. Error 102 or 156 if another word comes next."""
        token = self.token
        for word in words:
            if self.upper != word:
                self.fail()
            token = self.next()
        return token

    def expect_any(self, *words: str) -> str:
        return self.accept_any(*words) or self.fail()

    def word(self) -> str:
        """Take one word, reserved or not."""
        token = self.next()
        if token.kind != lexer.WORD:
            self.fail(token)
        return token.upper

    def switch(self) -> bool:
        """Take ON or OFF; True for ON."""
        return self.expect_any("ON", "OFF") == "ON"

    # --- Names and constants ---------------------------------------------------------------------------------------

    def is_identifier(self, token: Token | None = None) -> bool:
        token = token or self.token
        if token.kind == lexer.WORD:
            return token.upper not in RESERVED and not token.upper.startswith("$")
        return token.kind == lexer.QUOTED

    def identifier(self) -> str:
        token = self.token
        if not self.is_identifier(token):
            self.fail()
        self.next()
        if len(token.value) > 128:
            raise syntax_error(
                103,
                f"The identifier that starts with '{token.value[:128]}' is too long. Maximum length is 128.",
                line=token.line,
            )
        if not token.value.strip(" ") and token.kind == lexer.QUOTED:
            raise syntax_error(1038, "An object or column name is missing or empty.", line=token.line)
        return str(token.value)

    def name(self, most: int = 4) -> Name:
        """Take a name of up to ``most`` parts; every part but the last may be omitted."""
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

    def variable(self) -> str:
        token = self.next()
        if token.kind != lexer.VARIABLE or len(token.value) < 2:
            self.fail(token)
        return str(token.value).lower()

    def is_string(self) -> bool:
        return self.token.kind in (lexer.STRING, lexer.NSTRING)

    def string(self) -> str:
        token = self.next()
        if token.kind not in (lexer.STRING, lexer.NSTRING):
            self.fail(token)
        return str(token.value)

    def integer(self) -> int:
        sign = -1 if self.accept_op("-") else 1
        self.accept_op("+")
        return sign * int(self.digits())

    def digits(self) -> str:
        token = self.next()
        if token.kind != lexer.NUMBER or not token.value.isdigit():
            self.fail(token)
        return str(token.value)

    def assignment(self) -> str:
        """Take ``=``, ``+=`` or another assignment operator."""
        token = self.next()
        if token.kind != lexer.OPERATOR or token.value not in ASSIGNMENTS:
            self.fail(token)
        return str(token.value)

    # --- Lists -----------------------------------------------------------------------------------------------------

    def list_of(self, item: Callable[[Parser], Item]) -> list[Item]:
        """Parse one item, or several with commas between them."""
        items = [item(self)]
        while self.accept_op(","):
            items.append(item(self))
        return items

    def in_parentheses(self, item: Callable[[Parser], Item]) -> Item:
        """Parse one item in parentheses."""
        self.expect_op("(")
        found = item(self)
        self.expect_op(")")
        return found

    def list_in_parentheses(self, item: Callable[[Parser], Item]) -> list[Item]:
        """Parse a list of items in parentheses: ``(a, b)``."""
        return self.in_parentheses(lambda p: p.list_of(item))

    def column_list(self) -> list[str]:
        """Parse a list of names in parentheses: ``(a, b)``."""
        return self.list_in_parentheses(Parser.identifier)

    def query_ahead(self) -> bool:
        """Return whether a query expression starts here, with or without parentheses before it."""
        ahead = 0
        while self.peek(ahead).kind == lexer.OPERATOR and self.peek(ahead).value == "(":
            ahead += 1
        return self.peek(ahead).upper == "SELECT"
