"""Mutants of statements, and whether fakemssql's parser and Microsoft's grammar judge them alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import batches, lexer
from fakemssql.tsql.parser.nodes import Statement
from support.grammar import refusals

_COMMON = [
    *("ON", "OFF", "WITH", "AS", "SELECT", "FROM", "WHERE", "SET", "TOP", "ORDER", "BY", "INTO", "OUTPUT", "TABLE"),
    *("INDEX", "BEGIN", "END", "NOT", "NULL", "DEFAULT", "AND", "UPDLOCK", "(", ")", ",", ".", ";", "=", "*", "-"),
    *("1", "N'x'", "0x1", "@a", "@@ROWCOUNT", "x", "[x]"),
]
_LONGEST = 2_000
_DIGITS = re.compile(r"\d+")
_parse = batches.parse

LATER = {
    103: "the length of names",
    131: "the sizes of types",
    134: "a variable that is declared twice",
    137: "a variable that is not declared",
    142: "a foreign key of a table without columns",
    178: "RETURN with a value outside of a module",
    243: "types that are not there",
    1001: "the sizes of types",
    1002: "the scales of types",
    1038: "names without a character",
    2715: "types that are not there",
    2716: "types that have no size",
    2750: "the precision of types",
    7729: "partitions that an index does not have",
    8110: "two primary keys",
    40517: "what fakemssql knows of and does not support",
}
"""What SQL Server finds after parsing and fakemssql finds with it, by error number: the grammar takes it."""

STRICTER = {
    319: "WITH after a statement without a semicolon: the documentation and the server want one",
    1018: "FROM t (NOLOCK, ROWLOCK), FROM t (FORCESEEK): calls of a function to the grammar, hints to the server",
}
"""What SQL Server refuses by this number, and its grammar takes."""


@dataclass(frozen=True)
class Exempt:
    """Texts on which the two may differ: by what fakemssql says, empty where it takes them, and by their pattern."""

    reason: str
    error: str
    text: str

    def covers(self, error: SqlError | None, text: str) -> bool:
        said = "" if error is None else error.message
        return bool(said) == bool(self.error) and all(
            re.search(pattern, where, re.DOTALL | re.IGNORECASE)
            for pattern, where in ((self.error, said), (self.text, text))
        )


EXEMPT = [
    Exempt("THROW after a statement without a semicolon: the documentation wants one, as for WITH", "near 'THROW'", ""),
    Exempt("MAXDOP of UPDATE STATISTICS is documented and missing in the grammar", "", r"UPDATE\s+STATISTICS.*MAXDOP"),
    Exempt("f(SELECT 1): a subquery without parentheses", "keyword 'SELECT'", r"[\w\]]\s*\(\s*SELECT"),
    Exempt("OUTPUT deleted.a OUTPUT: the grammar takes a name, fakemssql a second clause", "near 'OUTPUT'", "OUTPUT"),
    Exempt("GRANT ... TO NULL: the grammar takes NULL for a principal", "keyword 'NULL'", r"(TO|FROM)\s+NULL"),
    Exempt("INSERT t (a, .b): the grammar takes a dot before some names of columns", "near '.'", r"[,(]\s*\."),
    Exempt(
        "INSERT ... SELECT @a = 1: the server's error is 199, after parsing",
        "near '.?='",
        r"INSERT\b.*SELECT\b.*@\w+\s*=",
    ),
    Exempt("INDEX = (i) is documented and missing in the grammar", "", r"INDEX\s*=\s*\("),
    Exempt("DROP INDEX .i: the grammar takes an empty name for the table's", "near", r"DROP\s+INDEX\b[^;]*\."),
]


def judgement(text: str) -> SqlError | None:
    """Why fakemssql's parser refuses a text, None where it takes it."""
    try:
        _parse(text)
    except SqlError as error:
        return error
    return None


def disagreements(texts: Sequence[str]) -> list[str]:
    """The texts that one of the two takes and the other does not, with what that one says."""
    refused = refusals(texts)
    found = []
    for place, text in enumerate(texts):
        error = judgement(text)
        if (error is None) == (place not in refused) or _explained(error, text):
            continue
        who, why = ("fakemssql", refused[place]) if error is None else ("the grammar", error)
        found.append(f"only {who} takes: {text}\n{why}")
    return found


def _explained(error: SqlError | None, text: str) -> bool:
    if error is not None and (error.number in LATER or error.number in STRICTER):
        return True
    return any(exempt.covers(error, text) for exempt in EXEMPT)


class Noted:
    """The texts that fakemssql's parser has taken in this process, each once; numbers in them are one number."""

    def __init__(self) -> None:
        self._seen, self._new = set[str](), list[str]()

    def parse(self, text: str, quoted_identifier: bool = True) -> list[Statement]:
        """In the place of ``batches.parse``. The grammar is asked with QUOTED_IDENTIFIER ON."""
        statements = _parse(text, quoted_identifier)
        shape = _DIGITS.sub("0", text)
        if quoted_identifier and shape not in self._seen:
            self._seen.add(shape)
            self._new.append(text)
        return statements

    def take(self) -> list[str]:
        """The texts that are new since the last call."""
        new, self._new = self._new, []
        return new


def mutants(texts: Sequence[str], count: int, seed: int) -> list[str]:
    """``count`` texts, each one of ``texts`` with a token left out, doubled, exchanged, replaced or put in."""
    random = Random(seed)
    sources = [tokens for text in texts if len(text) <= _LONGEST and (tokens := _tokens(text))]
    pool = [token for tokens in sources for token, _ in tokens if len(token) < 30]
    return [_mutant(random, random.choice(sources), random.choice([pool, _COMMON])) for _ in range(count)]


def _tokens(text: str) -> list[tuple[str, str]]:
    """The tokens of a text, each with what stands between it and the next one."""
    tokens = lexer.tokenize(text)
    return [(text[token.start : token.end], text[token.end : following.start]) for token, following in pairwise(tokens)]


def _mutant(random: Random, tokens: list[tuple[str, str]], pool: Sequence[str]) -> str:
    place, change = random.randrange(len(tokens)), random.randrange(5)
    token, space = tokens[place]
    other = (f" {random.choice(pool)} ", " ")
    rest = tokens[place + 1 :]
    made = {
        0: [],
        1: [(token, " "), (token, space)],
        2: [(rest[0][0], " "), (token, rest[0][1])] if rest else [],
        3: [other],
        4: [other, (token, space)],
    }[change]
    following = rest[1:] if change == 2 else rest
    return "".join(token + space for token, space in [*tokens[:place], *made, *following])
