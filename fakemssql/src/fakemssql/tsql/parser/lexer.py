"""Lexer: the tokens and the reserved keywords of Transact-SQL.

The lexical rules are those of Microsoft's "Transact-SQL syntax conventions", "Constants" and "Database identifiers":
``[a]]b]`` and ``"a""b"`` are identifiers, comments of the ``/* */`` kind nest, ``0x`` starts a binary constant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fakemssql.contract import SqlError

WORD, QUOTED, STRING, NSTRING, NUMBER, BINARY, MONEY, VARIABLE, OPERATOR, END = range(10)

_CURRENCIES = "$£¤¥€৲৳฿₡₢₣₤₦₧₨₩₪₫"
"""Currency signs of money literals, those of Microsoft's grammar."""

_PATTERN = re.compile(
    r"""(?P<word>(?![nN]')[^\W\d][\w@\#$]*|\#\#?[\w@\#$]*|\$[A-Za-z][\w]*)
    |(?P<space>[\s\x00\ufeff]+|--[^\n]*)
    |(?P<comment>/\*)
    |(?P<binary>0[xX][0-9A-Fa-f]*)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d*)?)
    |(?P<nstring>[nN]')
    |(?P<string>')
    |(?P<bracket>\[)
    |(?P<double>")
    |(?P<money>[{signs}](?=[\d.])[\d.]+)
    |(?P<variable>@@?[\w@\#$]*)
    |(?P<operator>[<!]\s*>|[<>!]\s*=|!\s*<|\+=|-=|\*=|/=|%=|&=|\|=|\^=|::|[-+*/%&|^~<>=(),.;:{}?!])
    """.replace("{signs}", _CURRENCIES),
    re.VERBOSE,
)


def syntax_error(number: int, message: str, *, state: int = 1, line: int = 1) -> SqlError:
    """Return the error of severity 15, as SQL Server has for text that is not valid T-SQL in its place."""
    return SqlError(number, message, severity=15, state=state, line=line)


@dataclass(slots=True)
class Token:
    """Token: ``value`` is the unescaped text, ``upper`` the word in capitals, empty for every other kind of token."""

    kind: int
    value: Any
    upper: str
    line: int
    start: int
    end: int


def _closing(text: str, start: int, quote: str) -> int:
    """Return the position after the closing ``quote``, or -1. A doubled quote does not close."""
    position = start
    while True:
        position = text.find(quote, position)
        if position < 0:
            return -1
        if text.startswith(quote, position + 1):
            position += 2
            continue
        return position + 1


def _comment_end(text: str, start: int, line: int) -> int:
    depth, position = 1, start
    while depth:
        opening, closing = text.find("/*", position), text.find("*/", position)
        if closing < 0:
            raise syntax_error(113, "Missing end comment mark '*/'.", line=line)
        if 0 <= opening < closing:
            depth, position = depth + 1, opening + 2
        else:
            depth, position = depth - 1, closing + 2
    return position


def tokenize(text: str, quoted_identifier: bool = True) -> list[Token]:
    """Return all tokens of ``text``, with an END token last. Raises :class:`SqlError` 102, 105 or 113."""
    tokens: list[Token] = []
    position, line, size = 0, 1, len(text)
    while position < size:
        match = _PATTERN.match(text, position)
        if match is None:
            if text[position] in _CURRENCIES:
                said = "A currency sign that is not directly before digits is not supported by fakemssql."
                raise SqlError(40517, said, line=line)
            raise syntax_error(102, f"Incorrect syntax near '{text[position]}'.", line=line)
        group, start, end = match.lastgroup, position, match.end()
        if group == "word":
            word = match.group()
            tokens.append(Token(WORD, word, word.upper(), line, start, end))
        elif group == "operator":
            tokens.append(Token(OPERATOR, "".join(match.group().split()), "", line, start, end))
        elif group == "comment":
            end = _comment_end(text, end, line)
        elif group in ("string", "nstring", "bracket", "double"):
            closing = {"bracket": "]", "double": '"'}.get(group, "'")
            body = end
            end = _closing(text, body, closing)
            if end < 0:
                rest = text[body:]
                raise syntax_error(
                    105, f"Unclosed quotation mark after the character string '{rest[:128]}'.", line=line
                )
            value = text[body : end - 1].replace(closing * 2, closing)
            if group == "bracket" or (group == "double" and quoted_identifier):
                kind = QUOTED
            else:
                kind = NSTRING if group == "nstring" else STRING
            tokens.append(Token(kind, value, "", line, start, end))
        elif group == "binary":
            digits = match.group()[2:]
            tokens.append(Token(BINARY, bytes.fromhex("0" * (len(digits) % 2) + digits), "", line, start, end))
        elif group == "money":
            tokens.append(Token(MONEY, match.group()[1:], "", line, start, end))
        elif group in ("number", "variable"):
            kind = NUMBER if group == "number" else VARIABLE
            tokens.append(Token(kind, match.group(), "", line, start, end))
        line += text.count("\n", start, end)
        position = end
    tokens.append(Token(END, "", "", line, size, size))
    return tokens


RESERVED = frozenset(
    [
        *("ADD", "ALL", "ALTER", "AND", "ANY", "AS", "ASC", "AUTHORIZATION", "BACKUP", "BEGIN", "BETWEEN", "BREAK"),
        *("BROWSE", "BULK", "BY", "CASCADE", "CASE", "CHECK", "CHECKPOINT", "CLOSE", "CLUSTERED", "COALESCE"),
        *("COLLATE", "COLUMN", "COMMIT", "COMPUTE", "CONSTRAINT", "CONTAINS", "CONTAINSTABLE", "CONTINUE", "CONVERT"),
        *("CREATE", "CROSS", "CURRENT", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER"),
        *("CURSOR", "DATABASE", "DBCC", "DEALLOCATE", "DECLARE", "DEFAULT", "DELETE", "DENY", "DESC", "DISTINCT"),
        *("DISTRIBUTED", "DOUBLE", "DROP", "ELSE", "END", "ERRLVL", "ESCAPE", "EXCEPT", "EXEC", "EXECUTE", "EXISTS"),
        *("EXIT", "EXTERNAL", "FETCH", "FILE", "FILLFACTOR", "FOR", "FOREIGN", "FREETEXT", "FREETEXTTABLE", "FROM"),
        *("FULL", "FUNCTION", "GOTO", "GRANT", "GROUP", "HAVING", "HOLDLOCK", "IDENTITY", "IDENTITY_INSERT"),
        *("IDENTITYCOL", "IF", "IN", "INDEX", "INNER", "INSERT", "INTERSECT", "INTO", "IS", "JOIN", "KEY", "KILL"),
        *("LEFT", "LIKE", "LINENO", "LOAD", "MERGE", "NATIONAL", "NOCHECK", "NONCLUSTERED", "NOT", "NULL", "NULLIF"),
        *("OF", "OFF", "OFFSETS", "ON", "OPEN", "OPENDATASOURCE", "OPENQUERY", "OPENROWSET", "OPENXML", "OPTION"),
        *("OR", "ORDER", "OUTER", "OVER", "PERCENT", "PIVOT", "PLAN", "PRIMARY", "PRINT", "PROC", "PROCEDURE"),
        *("PUBLIC", "RAISERROR", "READ", "READTEXT", "RECONFIGURE", "REFERENCES", "REPLICATION", "RESTORE"),
        *("RESTRICT", "RETURN", "REVERT", "REVOKE", "RIGHT", "ROLLBACK", "ROWCOUNT", "ROWGUIDCOL", "RULE", "SAVE"),
        *("SCHEMA", "SELECT", "SESSION_USER", "SET", "SETUSER", "SHUTDOWN", "SOME", "STATISTICS", "SYSTEM_USER"),
        *("TABLE", "TABLESAMPLE", "TEXTSIZE", "THEN", "TO", "TOP", "TRAN", "TRANSACTION", "TRIGGER", "TRUNCATE"),
        *("TRY_CONVERT", "TSEQUAL", "UNION", "UNIQUE", "UNPIVOT", "UPDATE", "UPDATETEXT", "USE", "USER", "VALUES"),
        *("VARYING", "VIEW", "WAITFOR", "WHEN", "WHERE", "WHILE", "WITH", "WITHIN", "WRITETEXT"),
    ]
)
