"""Mutations: single wrong changes of a module or of a file of statements, for ``scripts/mutants.py``.

A mutation replaces one piece of a text. Left alone is what no test should hold: sentences of errors and logs,
annotations, docstrings, and ``__repr__``.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGS = ("log", "_log", "logger", "warnings")
_LARGE = 100
"""Numbers from here on are doubled, and smaller ones increased by one: a limit of 255 is not 510."""

_HINT = "(?:UPDLOCK|READPAST|ROWLOCK|XLOCK|HOLDLOCK|TABLOCKX|READCOMMITTEDLOCK|REPEATABLEREAD)"
_STATEMENTS = (
    # Hints: alone, and before or after another one, whose text stays. ROWLOCK alone only keeps others from waiting.
    (rf" WITH \((?!ROWLOCK\))({_HINT})\)", ""),
    (rf"\b{_HINT}, ", ""),
    (rf"(?<=[A-Z]), {_HINT}\b(?!,)", ""),
    (r"<=", "<"),
    (r">=", ">"),
    (r"(?<![<>])<(?![<>=])", "<="),
    (r"(?<![<>])>(?![<>=])", ">="),
    (r"<>", "="),
    (r" ORDER BY [^();\n]+", ""),
    (r"(?<!\?) AND ", " OR "),
    (r" OR ", " AND "),
    (r"\bMIN\(", "MAX("),
    (r"\bMAX\(", "MIN("),
    (r"\bNOT EXISTS\b", "EXISTS"),
    (r"\bIS NOT NULL\b", "IS NULL"),
    (r"\bIS NULL\b", "IS NOT NULL"),
    # Guards and settings, a line each.
    (r"(?m)^IF [^\n]*\bTHROW\b[^\n]*;$", ""),
    (r"(?m)^SET [^\n]*;$", ""),
)


@dataclass(frozen=True)
class Mutant:
    """A file with one piece of its text replaced."""

    path: str
    line: int
    start: int
    end: int
    replacement: str
    before: str
    whole: str
    """The line of the file where the piece begins."""

    @property
    def change(self) -> str:
        """The change in one line, without the number of the line, which moves."""
        before, after = (" ".join(text.split()) for text in (self.before, self.replacement))
        return f"{before} -> {after or '(nothing)'}" + ("" if self.before == self.whole else f" in: {self.whole}")

    def apply(self, text: str) -> str:
        """Return the text of the file with the change."""
        return text[: self.start] + self.replacement + text[self.end :]


def mutants_of(root: Path, path: str) -> list[Mutant]:
    """Return the mutants of a module, or of a file of statements, in the order of their places."""
    text = (root / path).read_text("utf-8")
    found = _of_statements(path, text) if path.endswith(".sql") else _Module(path, text).mutants()
    return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.replacement))


def _of_statements(path: str, text: str) -> Iterator[Mutant]:
    code = re.sub(r"--[^\n]*", lambda comment: " " * len(comment[0]), text)
    # The name of a statement and its braces stay.
    for pattern, replacement in _STATEMENTS:
        for match in re.finditer(pattern, code):
            if "OVER (" in code[max(0, match.start() - 60) : match.start()].rpartition(")")[2]:
                continue
            line = text.count("\n", 0, match.start()) + 1
            whole = text.splitlines()[line - 1].strip()
            yield Mutant(path, line, match.start(), match.end(), replacement, match[0].strip(), whole)


class _Module(ast.NodeVisitor):
    """Finds the mutants of one module."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._text = path, text
        self._lines = [0]
        for line in text.encode().splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._found: list[Mutant] = []

    def mutants(self) -> list[Mutant]:
        self.visit(ast.parse(self._text))
        return self._found

    def _offset(self, line: int, column: int) -> int:
        return len(self._text.encode()[: self._lines[line - 1] + column].decode())

    def _add(self, node: ast.expr | ast.stmt, new: ast.AST | str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._offset(node.lineno, node.col_offset)
        end = self._offset(node.end_lineno, node.end_col_offset)
        replacement = new if isinstance(new, str) else ast.unparse(new)
        if isinstance(node, ast.expr):
            # The text around it binds as it did.
            replacement = f"({replacement})"
        whole = self._text.splitlines()[node.lineno - 1].strip()
        self._found.append(Mutant(self._path, node.lineno, start, end, replacement, self._text[start:end], whole))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name != "__repr__":
            for child in (*node.args.defaults, *node.args.kw_defaults, *node.body):
                if child is not None:
                    self.visit(child)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for child in node.body:
            self.visit(child)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave it: an assertion is for the type checker."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave it: the pieces of a text have no places of their own before Python 3.12."""

    def visit_Raise(self, node: ast.Raise) -> None:
        if node.exc is not None:
            self._add(node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            name = ast.unparse(node.value.func)
            if name.split(".")[0] in _LOGS or ".log." in name or "._log." in name:
                return
            self._add(node, "pass")
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _NAMES:
            self._add(node.func, _NAMES[node.func.id])
        # An error that is made and not raised here holds sentences as well.
        if not (isinstance(node.func, ast.Name) and node.func.id.endswith(("Error", "Warning", "TypeVar"))):
            self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        """Leave the size that a parameter is declared with: it is a maximum, which no test can see."""
        if not ast.unparse(node).startswith("(pyodbc.SQL_"):
            self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        """``zip(strict=...)`` is an assertion."""
        if node.arg != "strict":
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self._condition(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def _condition(self, test: ast.expr) -> None:
        if isinstance(test, ast.Name | ast.Attribute | ast.Call):
            self._add(test, f"not {ast.unparse(test)}")

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, operator in enumerate(node.ops):
            new = copy.deepcopy(node)
            new.ops[place] = _COMPARISONS[type(operator)]()
            self._add(node, new)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        new = copy.deepcopy(node)
        new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add(node, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = any(
            isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
            for side in (node.left, node.right)
        )
        if type(node.op) in _OPERATORS and not texts:
            new = copy.deepcopy(node)
            new.op = _OPERATORS[type(node.op)]()
            self._add(node, new)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, str(not node.value))
        elif isinstance(node.value, int):
            self._add(node, str(node.value * 2 if node.value >= _LARGE else node.value + 1))
