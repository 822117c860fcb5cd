"""Rules for prose: the first words of docstrings, and phrases that a reader has to solve.

A docstring's first sentence names the thing by the word that one would search for. Sentences are plain technical
English.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

RIDDLE = r"what|who|whom|whose|whoever|whatever|which|how"
FIRST_WORD = re.compile(rf"(?:{RIDDLE}|where|one|ones|nobody|nothing|everything|those|that)\b", re.IGNORECASE)
"""A docstring does not begin with these: they name nothing that could be searched for."""

SENTENCE = re.compile(rf"(?:^|[.;:] |[.;:]\n\s*)(?:{RIDDLE})\b[^.?!]*(?=[.!]|$)", re.IGNORECASE)
"""A sentence, other than a question, that begins with such a word."""

NOUN_FIRST = re.compile(r"(?:The|A|An|Whether|True (?:if|where))\b")
"""The docstring of a function begins with a verb, and so with none of these; that of a property may."""

PHRASES = (
    r"told",
    r"lost (?:or|nor|and) doubled",
    r"(?:loses|loss) and doubles?",
    r"doubles (?:a|no) message",
    r"whoever",
    r"nobody",
    r"(?:is|are|was|were|be) none",
    r"nor of",
    r"so many",
    r"of which",
    r"stands? (?:in|at|on)",
    r"(?:a|an|the|last|each|one|every) looks?(?! at\b)",
    r"(?:for|to|of|by|from) who",
    r"who asks",
    r"there (?:is|are|was|were) not(?! )",
    r"(?:that|which) there (?:is|are|was|were) not",
    r"(?:is|are|was|were) begun",
    r"gone on with",
)
"""Phrases of a private dialect; each has a plain word (reported, anyone, is not one, as many, is in, for callers)."""

PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b")
NAME = re.compile(rf"test_(?:{RIDDLE}|where|one|nobody|nothing|everything)_")
NAME_LENGTH = 80
DEFINED = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)


def faults_of_code(source: str) -> list[str]:
    """Line and words of each docstring, comment and text in a module that breaks a rule."""
    found, tree = [], ast.parse(source)
    for line, text in _docstrings(tree):
        if begun := FIRST_WORD.match(text.strip()):
            found.append(f"{line}: a docstring begins with {begun[0]!r}")
        found += [f"{line}: {' '.join(match[0].split())!r}" for match in SENTENCE.finditer(text.strip(), 1)]
    for line, text in _docstrings_of_functions(tree):
        if begun := NOUN_FIRST.match(text.strip()):
            found.append(f"{line}: the docstring of a function begins with {begun[0]!r}")
    for line, text in _prose(source) if PHRASE.search(source) else ():
        found += [f"{line}: {match[0]!r}" for match in PHRASE.finditer(text)]
    return found


def faults_of_page(text: str) -> list[str]:
    """Line and words of each phrase on a Markdown page that breaks a rule; what is between backticks is code."""
    text = re.sub(r"```.*?```|`[^`\n]*`", lambda code: re.sub(r"[^\n]", " ", code[0]), text, flags=re.DOTALL)
    return [f"{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}" for match in PHRASE.finditer(text)]


def faults_of_names(source: str) -> list[str]:
    """Names of tests that begin with a riddle, hold one of the phrases, or are longer than a reader takes in."""
    return [
        name
        for name in DEFINED.findall(source)
        if NAME.match(name) or PHRASE.search(name.replace("_", " ")) or len(name) > NAME_LENGTH
    ]


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The module and all below it that is no expression: a tree has many more of these."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for below in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, below, ())


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Docstrings, those below attributes too, with their lines."""
    for node in _statements(tree):
        for statement in getattr(node, "body", ()):
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield statement.lineno, value.value


def _docstrings_of_functions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Docstrings of functions that are no properties, with their lines."""
    for node in _statements(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
        if not is_property and (text := ast.get_docstring(node)):
            yield node.lineno, text


def _prose(source: str) -> Iterator[tuple[int, str]]:
    """Comments and the texts of strings, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            yield token.start[0], token.string
