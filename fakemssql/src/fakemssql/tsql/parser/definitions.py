"""Parsing of definitions of views, schemas, databases and synonyms, and of DROP."""

from __future__ import annotations

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.indexes import storage_options
from fakemssql.tsql.parser.parser import Parser
from fakemssql.tsql.parser.queries import nested_query, with_clause

_PARTS = {
    **dict.fromkeys(["SCHEMA", "DATABASE"], 1),
    **dict.fromkeys(["VIEW", "PROCEDURE", "TRIGGER", "FUNCTION"], 2),
    **dict.fromkeys(["TABLE", "SYNONYM"], 3),
    "INDEX": 4,
}
"""Kinds of objects that DROP takes, with the greatest number of parts of their names."""

_REFUSED = ("TYPE", "STATISTICS", "CERTIFICATE", "APPLICATION", "ASSEMBLY", "SEQUENCE", "DEFAULT", "RULE")

_DATABASE_WORDS = {
    "DELAYED_DURABILITY": ("DISABLED", "ALLOWED", "FORCED"),
    "RECOVERY": ("FULL", "BULK_LOGGED", "SIMPLE"),
}


def drop(p: Parser) -> nodes.Drop:
    line = p.expect("DROP").line
    kind = p.next().upper
    if kind == "PROC":
        kind = "PROCEDURE"
    if kind in _REFUSED:
        p.unsupported(f"DROP {kind}")
    if kind not in _PARTS:
        p.fail(p.peek(-1))
    dropped = nodes.Drop(kind, [], p.accept("IF", "EXISTS"), line=line)
    while True:
        name = p.name(_PARTS[kind])
        if kind == "INDEX":
            if p.accept("ON"):
                dropped.table = p.name()
                storage_options(p, "DROP INDEX", places=False)
            elif len(name) > 1:
                dropped.table, name = name[:-1], name[-1:]
            else:
                p.fail()
        dropped.names.append(name)
        if kind == "TRIGGER" and p.upper == "ON":
            p.unsupported("A DDL trigger")
        if kind == "SCHEMA" or not p.accept_op(","):
            return dropped


def view(p: Parser, mode: str) -> nodes.CreateView:
    line = p.expect("VIEW").line
    name = p.name(2)
    columns = p.column_list() if p.is_op("(") else []
    if p.accept("WITH"):
        p.list_of(_view_option)
    p.expect("AS")
    ctes = with_clause(p)
    query = nested_query(p)
    query.ctes = ctes
    if p.accept("WITH"):
        p.unsupported("WITH CHECK OPTION")
    _end(p)
    return nodes.CreateView(name, columns, query, mode, line=line)


def _view_option(p: Parser) -> str:
    return p.expect_any("SCHEMABINDING", "VIEW_METADATA", "ENCRYPTION")


def _end(p: Parser) -> None:
    """Require the end of a batch that has one statement."""
    p.skip_semicolons()
    if p.token.kind != lexer.END:
        p.fail()


def schema(p: Parser, _: str) -> nodes.CreateSchema:
    line = p.expect("SCHEMA").line
    name = "" if p.upper == "AUTHORIZATION" else p.identifier()
    owner = None
    if p.accept("AUTHORIZATION"):
        owner = p.identifier()
        name = name or owner
    if p.upper in ("CREATE", "GRANT", "DENY", "REVOKE"):
        p.unsupported("CREATE SCHEMA with definitions of its objects")
    _end(p)
    return nodes.CreateSchema(name, owner, line=line)


def create_database(p: Parser) -> nodes.CreateDatabase:
    line = p.expect("DATABASE").line
    name = p.identifier()
    if p.upper in ("ON", "LOG", "FOR", "AS", "CONTAINMENT", "WITH"):
        p.unsupported("A file, snapshot or containment option of CREATE DATABASE")
    if p.accept("COLLATE"):
        p.identifier()
    return nodes.CreateDatabase(name, line=line)


def alter_database(p: Parser) -> nodes.AlterDatabase:
    line = p.expect("DATABASE").line
    name = "" if p.accept("CURRENT") else p.identifier()
    if p.upper in ("COLLATE", "MODIFY", "ADD", "REMOVE"):
        p.unsupported(f"ALTER DATABASE ... {p.upper}")
    p.expect("SET")
    option = p.next().upper
    words = [option]
    if option in ("READ_COMMITTED_SNAPSHOT", "ALLOW_SNAPSHOT_ISOLATION"):
        words.append("ON" if p.switch() else "OFF")
    elif option in _DATABASE_WORDS:
        if option != "RECOVERY":
            p.expect_op("=")
        words.append(p.expect_any(*_DATABASE_WORDS[option]))
    elif option == "COMPATIBILITY_LEVEL":
        p.expect_op("=")
        words.append(str(p.integer()))
    elif option != "MULTI_USER":
        if not option:
            p.fail(p.peek(-1))
        p.unsupported(f"ALTER DATABASE ... SET {option}", p.peek(-1))
    if p.is_op(","):
        p.unsupported("ALTER DATABASE ... SET of several options")
    if p.accept("WITH"):
        _termination(p)
    return nodes.AlterDatabase(name, words, line=line)


def _termination(p: Parser) -> None:
    if p.accept("NO_WAIT") or p.accept("ROLLBACK", "IMMEDIATE"):
        return
    p.expect("ROLLBACK")
    p.expect("AFTER")
    p.integer()
    p.accept("SECONDS")


def create_synonym(p: Parser) -> nodes.CreateSynonym:
    line = p.expect("SYNONYM").line
    name = p.name(2)
    p.expect("FOR")
    return nodes.CreateSynonym(name, p.name(), line=line)
