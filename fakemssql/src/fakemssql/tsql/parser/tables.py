"""Parsing of tables: columns and constraints ("CREATE TABLE", "ALTER TABLE", "table_constraint")."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from fakemssql.contract import SqlError
from fakemssql.tsql.parser.expressions import condition, expression
from fakemssql.tsql.parser.indexes import index_tail, key_columns, storage_options
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import (
    AlterTable,
    ColumnDefinition,
    Constraint,
    CreateTable,
    IndexDefinition,
    KeyColumn,
    Name,
)
from fakemssql.tsql.parser.parser import Parser
from fakemssql.tsql.parser.types import data_type


def create_table(p: Parser) -> CreateTable:
    line = p.expect("TABLE").line
    name = p.name(3)
    if p.accept("AS"):
        p.unsupported("CREATE TABLE AS")
    table = CreateTable(name, [], [], [], line=line)
    table_elements(p, table)
    table.options = storage_options(p, "CREATE TABLE")
    return table


def table_elements(p: Parser, table: CreateTable, *, variable: bool = False) -> None:
    """``(column, constraint, ...)``; in a table ``variable`` constraints have no names and no REFERENCES."""
    p.expect_op("(")
    while True:
        start = p.index
        _element(p, table)
        if variable:
            for token in p.tokens[start : p.index]:
                if token.upper in ("CONSTRAINT", "REFERENCES"):
                    p.fail(token)
        if not p.accept_op(",") or (not variable and p.is_op(")")):
            p.expect_op(")")
            return


def _element(p: Parser, table: CreateTable | AlterTable, *, adding: bool = False) -> None:
    """Parse a column, a constraint or an index of a table; ``adding``: in ALTER TABLE ... ADD."""
    if p.upper == "PERIOD":
        p.unsupported("PERIOD FOR SYSTEM_TIME")
    if p.upper == "INDEX":
        table.indexes.append(_inline_index(p, table.name, []))
        return
    found = constraint(p, None, adding=adding)
    if found is not None:
        table.constraints.append(found)
    else:
        try:
            table.columns.append(_column(p, table, adding))
        except SqlError as error:
            if error.number == 2715:
                error.message = error.message.replace("#1", f"#{len(table.columns) + 1}")
            raise
    if sum(each.kind == "primary" for each in table.constraints) > 1:
        raise SqlError(8110, f"Cannot add multiple PRIMARY KEY constraints to table '{table.name[-1]}'.", state=0)


def _inline_index(p: Parser, table: Name, columns: list[KeyColumn]) -> IndexDefinition:
    line = p.expect("INDEX").line
    index = IndexDefinition(p.identifier(), table, columns, line=line)
    index.unique = p.accept("UNIQUE")
    index.clustered = p.accept_any("CLUSTERED", "NONCLUSTERED") == "CLUSTERED"
    if p.upper == "COLUMNSTORE":
        p.unsupported("A columnstore index")
    if p.is_op("("):
        index.columns = key_columns(p)
    index_tail(p, index)
    return index


# --- Columns ---------------------------------------------------------------------------------------------------------


def _column(p: Parser, table: CreateTable | AlterTable, adding: bool) -> ColumnDefinition:
    """Parse a column; its constraints and indexes are added to the table."""
    column = ColumnDefinition(p.identifier(), None)
    if p.accept("AS"):
        mark = p.index
        value = expression(p)
        column.computed = (value, p.source_text(mark))
        column.persisted = p.accept("PERSISTED")
    else:
        column.type = data_type(p)
    seen: set[str] = set()
    while True:
        if p.upper == "CONSTRAINT" and p.peek(2).upper in ("NULL", "NOT"):
            p.next()
            p.identifier()
        word = p.upper
        if word in ("IDENTITY", "COLLATE", "ROWGUIDCOL", "SPARSE", "DEFAULT"):
            if word in seen or column.computed is not None:
                p.fail()
            seen.add(word)
        option = _COLUMN_OPTIONS.get(word)
        if word == "INDEX":
            table.indexes.append(_inline_index(p, table.name, [KeyColumn(column.name)]))
        elif option is not None and _may_have(column, word):
            option(p, column)
        elif not _column_constraint(p, table, column, adding):
            return column


def _may_have(column: ColumnDefinition, word: str) -> bool:
    """Return whether a column may have NULL or NOT NULL; a computed one may have only NOT NULL, and only if
    persisted.
    """
    return column.computed is None or word not in ("NULL", "NOT") or (word == "NOT" and column.persisted)


def _column_constraint(p: Parser, table: CreateTable | AlterTable, column: ColumnDefinition, adding: bool) -> bool:
    """Parse a constraint of a column if one starts here; True if so."""
    found = constraint(p, column, adding=adding)
    if found is None:
        return False
    if found.kind == "default":
        if column.default is not None or column.computed is not None:
            p.fail(p.peek(-1))
        assert found.expression is not None
        column.default = (found.name, found.expression, found.text)
        return True
    if found.kind in ("foreign", "check") and column.computed is not None and not column.persisted:
        p.fail(p.peek(-1))
    table.constraints.append(found)
    return True


def _null(p: Parser, column: ColumnDefinition) -> None:
    column.nullable = not p.accept("NOT")
    p.expect("NULL")


def _identity(p: Parser, column: ColumnDefinition) -> None:
    p.expect("IDENTITY")
    column.identity = (1, 1)
    if p.accept_op("("):
        seed = p.integer()
        p.expect_op(",")
        column.identity = (seed, p.integer())
        p.expect_op(")")
    if p.accept("NOT", "FOR"):
        p.expect("REPLICATION")


def _collate(p: Parser, column: ColumnDefinition) -> None:
    p.expect("COLLATE")
    column.collation = p.identifier()


def _rowguid(p: Parser, column: ColumnDefinition) -> None:
    p.expect("ROWGUIDCOL")
    column.rowguid = True


def _sparse(p: Parser, _: ColumnDefinition) -> None:
    p.expect("SPARSE")


def _refused_option(p: Parser, _: ColumnDefinition) -> None:
    p.unsupported(f"The column option {p.upper}")


_COLUMN_OPTIONS: dict[str, Callable[[Parser, ColumnDefinition], None]] = {
    **dict.fromkeys(["NULL", "NOT"], _null),
    **dict.fromkeys(["FILESTREAM", "GENERATED", "MASKED", "ENCRYPTED", "HIDDEN"], _refused_option),
    "IDENTITY": _identity,
    "COLLATE": _collate,
    "ROWGUIDCOL": _rowguid,
    "SPARSE": _sparse,
}

# --- ALTER TABLE -----------------------------------------------------------------------------------------------------


def alter_table(p: Parser) -> AlterTable:
    line = p.expect("TABLE").line
    alter = AlterTable(p.name(3), "", line=line)
    if p.accept("WITH"):
        p.expect_any("CHECK", "NOCHECK")
        if p.upper not in ("ADD", "CHECK", "NOCHECK"):
            p.fail()
    _ACTIONS.get(p.upper, _refused_action)(p, alter)
    return alter


def _add(p: Parser, alter: AlterTable) -> None:
    p.expect("ADD")
    alter.action = "add"
    p.list_of(lambda p: _element(p, alter, adding=True))


def _alter_column(p: Parser, alter: AlterTable) -> None:
    p.expect("ALTER", "COLUMN")
    alter.action = "alter"
    if p.peek().upper in ("ADD", "DROP"):
        p.unsupported("ALTER COLUMN ... ADD and DROP")
    column = ColumnDefinition(p.identifier(), data_type(p))
    if p.accept("COLLATE"):
        column.collation = p.identifier()
    if p.upper in ("NULL", "NOT"):
        _null(p, column)
    if p.upper in ("SPARSE", "MASKED", "ENCRYPTED"):
        p.unsupported(f"The column option {p.upper}")
    alter.columns.append(column)
    storage_options(p, "ALTER COLUMN", places=False)


def _drop(p: Parser, alter: AlterTable) -> None:
    p.expect("DROP")
    alter.action = "drop"
    kind, more = "CONSTRAINT", True
    while more:
        if p.upper in ("COLUMN", "CONSTRAINT"):
            kind = p.next().upper
        exists = p.peek(-1).upper == kind and p.accept("IF", "EXISTS")
        alter.names.append((kind, p.identifier(), exists))
        if kind == "CONSTRAINT":
            storage_options(p, "DROP INDEX", places=False)
        more = p.accept_op(",")


def _check(p: Parser, alter: AlterTable) -> None:
    if p.peek().upper == "CONSTRAINT":
        p.unsupported("ALTER TABLE ... CHECK and NOCHECK CONSTRAINT")
    _refused_action(p, alter)


def _switch_trigger(p: Parser, alter: AlterTable) -> None:
    if p.peek().upper != "TRIGGER":
        _refused_action(p, alter)
    alter.action = p.word().lower() + "_trigger"
    p.expect("TRIGGER")
    alter.names.append(("TRIGGER", "" if p.accept("ALL") else p.identifier(), False))


def _set(p: Parser, alter: AlterTable) -> None:
    p.expect("SET")
    alter.action = "options"
    p.expect_op("(")
    option = p.next()
    if option.upper != "LOCK_ESCALATION":
        p.unsupported(f"ALTER TABLE ... SET ({option.value})", option)
    p.expect_op("=")
    alter.options[option.upper] = p.expect_any("AUTO", "TABLE", "DISABLE")
    p.expect_op(")")


def _rebuild(p: Parser, alter: AlterTable) -> None:
    p.expect("REBUILD")
    alter.action, alter.rebuilds = "options", True
    if p.accept("PARTITION"):
        p.expect_op("=")
        if not p.accept("ALL"):
            p.unsupported("Partitioning")
    alter.options = storage_options(p, "REBUILD", places=False)


def _refused_action(p: Parser, _: AlterTable) -> NoReturn:
    p.unsupported(f"ALTER TABLE ... {p.token.value}")


_ACTIONS: dict[str, Callable[[Parser, AlterTable], None]] = {
    **dict.fromkeys(["CHECK", "NOCHECK"], _check),
    **dict.fromkeys(["ENABLE", "DISABLE"], _switch_trigger),
    "ADD": _add,
    "ALTER": _alter_column,
    "DROP": _drop,
    "SET": _set,
    "REBUILD": _rebuild,
}


def constraint(p: Parser, column: ColumnDefinition | None, *, adding: bool = False) -> Constraint | None:
    """Parse a constraint of a column or table; None if there is no constraint. ``adding``: in ALTER TABLE ... ADD."""
    name = p.identifier() if p.accept("CONSTRAINT") else ""
    own = [KeyColumn(column.name)] if column else []
    rule = _RULES.get(p.upper)
    if rule is not None and (rule is not _default or own or adding):
        return rule(p, name, own, adding)
    if name:
        p.fail()
    return None


def _default(p: Parser, name: str, own: list[KeyColumn], adding: bool) -> Constraint:
    p.expect("DEFAULT")
    mark = p.index
    value = expression(p)
    found = Constraint("default", name, own, expression=value, text=p.source_text(mark))
    if not own:
        p.expect("FOR")
        found.columns = [KeyColumn(p.identifier())]
    if adding and p.accept("WITH"):
        p.expect("VALUES")
    return found


def _key(p: Parser, name: str, own: list[KeyColumn], adding: bool) -> Constraint:
    word = p.word()
    if word == "PRIMARY":
        p.expect("KEY")
    found = Constraint(word.lower(), name, own)
    clustering = p.accept_any("CLUSTERED", "NONCLUSTERED")
    found.clustered = None if not clustering else clustering == "CLUSTERED"
    if p.upper == "HASH":
        p.unsupported("A hash index")
    if p.is_op("("):
        found.columns = key_columns(p)
    elif not own:
        p.fail()
    found.options = storage_options(p, "ALTER TABLE key" if adding else "CREATE TABLE key")
    return found


def _check_constraint(p: Parser, name: str, own: list[KeyColumn], _: bool) -> Constraint:
    p.expect("CHECK")
    if p.accept("NOT"):
        p.expect("FOR", "REPLICATION")
    p.expect_op("(")
    mark = p.index
    checked = condition(p)
    text = p.source_text(mark)
    p.expect_op(")")
    return Constraint("check", name, own, expression=checked, text=text)


def _foreign(p: Parser, name: str, own: list[KeyColumn], _: bool) -> Constraint:
    found = Constraint("foreign", name, own)
    if p.accept("FOREIGN"):
        p.expect("KEY")
        if p.is_op("("):
            found.columns = key_columns(p)
    p.expect("REFERENCES")
    if not found.columns:
        raise syntax_error(142, "Incorrect syntax for definition of the 'TABLE' constraint.", state=2)
    found.reference = p.name()
    if p.is_op("("):
        found.reference_columns = p.column_list()
    seen: set[str] = set()
    while p.upper in ("ON", "NOT"):
        if p.accept("NOT"):
            p.expect("FOR", "REPLICATION")
            break
        event = p.peek().upper
        if event not in ("DELETE", "UPDATE"):
            break
        p.next()
        if event in seen:
            p.fail()
        seen.add(p.next().upper)
        if event == "DELETE":
            found.on_delete = _referential_action(p)
        else:
            found.on_update = _referential_action(p)
    return found


def _referential_action(p: Parser) -> str:
    if p.accept("SET"):
        return "SET " + ("NULL" if p.accept("NULL") else p.expect("DEFAULT").upper)
    if p.accept("CASCADE"):
        return "CASCADE"
    p.expect("NO")
    if p.next().upper != "ACTION":
        p.fail(p.peek(-1))
    return "NO ACTION"


_RULES: dict[str, Callable[[Parser, str, list[KeyColumn], bool], Constraint]] = {
    **dict.fromkeys(["PRIMARY", "UNIQUE"], _key),
    **dict.fromkeys(["FOREIGN", "REFERENCES"], _foreign),
    "CHECK": _check_constraint,
    "DEFAULT": _default,
}
"""Rules of constraints by their first word; each takes the name, the constraint's own column, and ``adding``."""
