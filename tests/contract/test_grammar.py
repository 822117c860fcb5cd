"""Every T-SQL text of the product parses with Microsoft's grammar, and the check can fail.

What is sent is checked after each test of this folder, by a fixture in ``conftest.py``; here is what is printed for
administrators, and what no test of this folder sends.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_sqlqueue.drain.ledger import ledger_definitions
from airflow_sqlqueue.drain.streams import StreamTable
from airflow_sqlqueue.errors import StatementError
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue.copies import copy_definitions
from airflow_sqlqueue.queue.errors.archive import Archive
from airflow_sqlqueue.queue.inbox import Inbox
from airflow_sqlqueue.queue.inspection.findings import (
    BLOATED_PAGES,
    ESCALATING_ROWS,
    IndexPages,
    InspectedTable,
    ServerFacts,
)
from airflow_sqlqueue.queue.inspection.inspect import findings_of
from airflow_sqlqueue.queue.outgoing import OutgoingTable
from airflow_sqlqueue.queue.send_ledger import SendLedger
from airflow_sqlqueue.queue.tables.create import create, create_queue, definitions_for, delayed_definition, script
from airflow_sqlqueue.queue.tables.layout import SHAPES, Layout, Trigger
from airflow_sqlqueue.queue.tables.reading import read_layout
from airflow_sqlqueue.server import sql
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query
from support.mutants import disagreements, mutants
from tests.contract.conftest import run_sql
from tests.grammar import MAXDOP, WHY_NOT, Recorder, problems, with_parameters

pytestmark = pytest.mark.skipif(MAXDOP is None, reason=WHY_NOT)

PERMISSIONS = Path(__file__).parents[2] / "docs" / "permissions.sql"
ODD = "a]b'c?--d"
"""A name with everything that a name has to be quoted for."""

STAND_INS = {
    "addressed": "[y] int NULL",
    "changes": "[x] = 1",
    "declare": "",
    "definition": "[x] int NULL",
    "limit": "1",
    "may_match": "[x] LIKE ?",
    "milliseconds": "1",
    "options": " WITH (ONLINE = ON)",
    "output": "deleted.[x]",
    "passing": " WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)",
    "readpast": "READPAST, ",
    "seek": ", FORCESEEK, INDEX ([x])",
    "window": "[x] > ?",
    "staged": "[x] int NULL",
    "statement": "N'x'",
    "suspect": "[x] = 1",
    "where": "[x] = 1",
}
"""Texts for places of a named query that take no name."""


def filled_in(query: Query) -> str:
    stand_ins = {name: STAND_INS.get(name, "[x]") for name in re.findall(r"{(\w+)}", query.text)}
    if "CREATE TABLE" in query.text or query.name == "fix.legacy_columns":
        stand_ins["columns"] = "[x] int NULL"
    if "VALUES {rows}" in query.text:
        stand_ins["rows"] = "([x])"
    return query.text.format(**stand_ins)


def test_every_named_query_parses() -> None:
    """Every named query parses, even if no test of this folder sends it."""
    texts = [filled_in(query) for query in sql._queries().values()]
    assert len(texts) > 100
    assert problems(texts) == []


def test_fakemssql_judges_every_named_query_and_mutants_of_them_as_the_grammar_does() -> None:
    """More mutants where FAKEMSSQL_MUTANTS says how many, and with FAKEMSSQL_MUTANTS_SEED others."""
    texts = [with_parameters(filled_in(query)) for query in sql._queries().values()]
    assert disagreements(texts) == []
    count = int(os.environ.get("FAKEMSSQL_MUTANTS", "500"))
    seed = int(os.environ.get("FAKEMSSQL_MUTANTS_SEED", "16"))
    assert "\n\n".join(disagreements(mutants(texts, count, seed))) == ""


@pytest.mark.parametrize("layout", SHAPES)
@pytest.mark.parametrize("name", ["Sales", f"[{ODD.replace(']', ']]')}]"])
def test_the_script_that_creates_tables_parses(layout: str, name: str) -> None:
    resolver = AddressResolver(default_catalog="a catalog]", default_schema="its schema's")
    definitions = definitions_for(resolver, name, layout=layout, body_string=True, delayed=True, subscriptions=True)
    others = (SendLedger, OutgoingTable, StreamTable, Inbox, Archive)
    own = (*ledger_definitions("nsb", "a schema"), *copy_definitions("nsb", "a schema"))
    ledgers = [*own, *(each.definition("nsb", "a schema") for each in others)]
    texts = [script([*definitions, *ledgers], create_schema=with_schema) for with_schema in (False, True)]
    assert "\nGO\n" in texts[0] != texts[1]
    assert problems(texts) == []


def test_the_script_of_the_roles_parses() -> None:
    text = PERMISSIONS.read_text("utf-8")
    assert "CREATE ROLE" in text
    assert problems([text]) == []


@pytest.mark.parametrize("online", [False, True])
def test_the_fix_of_every_finding_parses(session: Session, table: ResolvedAddress, schema: str, online: bool) -> None:
    table = replace(table, schema=schema, table=ODD)
    create(session, delayed_definition(replace(table, table=f"{ODD}.Delayed")))
    create_queue(session, table, legacy_columns=False)
    sound = read_layout(session, table)
    indexes = sound.indexes
    layouts = [
        replace(sound, triggers=(Trigger(ODD, "DELETE"),), system_versioned=True, indexes=()),
        replace(sound, columns={**sound.columns, "Headers": replace(sound.columns["Headers"], type="varchar")}),
        replace(sound, indexes=tuple(replace(index, disabled=True) for index in indexes)),
        replace(sound, indexes=tuple(replace(index, clustered=True, disabled=True) for index in indexes)),
        replace(sound, indexes=tuple(replace(index, filter=None) for index in indexes)),
    ]
    fixes = {code: text for layout in layouts for code, text in fixes_of(session, layout, online).items()}
    assert sorted(fixes) == [
        "delayed-needs-legacy-columns",
        "expires-index-disabled",
        "expires-index-missing",
        "expires-index-not-filtered",
        "forwarded-rows",
        f"fragmented-{ODD}",
        "ghost-records",
        "headers-not-unicode",
        "heap-bloat",
        "lock-escalation",
        "row-version-index-disabled",
        "row-version-index-missing",
        "system-versioned",
        f"trigger-{ODD}",
    ]
    assert problems(fixes.values()) == []


def fixes_of(session: Session, layout: Layout, online: bool) -> dict[str, str]:
    rows = ESCALATING_ROWS + 1
    inspected = InspectedTable(WornFacts(session), layout, rows, rows + BLOATED_PAGES, online)
    return {finding.code: finding.fix.text for finding in findings_of(inspected) if finding.fix is not None}


class WornFacts(ServerFacts):
    """Facts of a table that has been in use for long."""

    def pages(self, table: ResolvedAddress) -> list[IndexPages]:
        worn = IndexPages(ODD, 5_000, fragmentation=50.0)
        heap = replace(worn, index=None, forwarded=5_000)
        return [heap, worn, replace(worn, index="Index_RowVersion", ghosts=5_000, fragmentation=0.0)]


def test_placeholders_become_parameters_and_nothing_else_does() -> None:
    text = "SELECT ?, 'it''s ?', N'?', [?]]?], \"?\" /* ? */ -- ?\nFROM t WHERE a = ?"
    expected = "SELECT @p1, 'it''s ?', N'?', [?]]?], \"?\" /* ? */ -- ?\nFROM t WHERE a = @p2"
    assert with_parameters(text) == expected
    assert problems([text]) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT TOP 5 FROM [t] WHERE = ?", "Incorrect syntax near"),
        ("SELECT 'never closed", "closing quotation mark"),
        ("SELECT 1 LIMIT 5 OFFSET 3", "Incorrect syntax near"),
    ],
)
def test_a_broken_text_fails_the_check(text: str, said: str) -> None:
    found = problems(["SELECT 1", text])
    assert [problem.splitlines()[0].partition(":")[0] for problem in found] == ["SQL Server 2016", "SQL Server 2022"]
    assert all(said in problem and problem.endswith(text) for problem in found)


def test_a_text_that_only_a_newer_server_knows_fails_for_the_older() -> None:
    (problem,) = problems(["SELECT 1 AS [n] FROM [t] WINDOW w AS (ORDER BY [a])"])
    assert problem.startswith("SQL Server 2016:")


def test_the_recorder_has_every_statement_of_a_session(session: Session, sent_texts: Recorder) -> None:
    with pytest.raises(StatementError):
        run_sql(session, "SELECT * FORM [nothing] x")
    assert len(problems(sent_texts.take())) == 2
    with session.transaction():
        session.enlisted_connection().execute("SELECT 1 AS [enlisted]")
    assert "SELECT 1 AS [enlisted]" in sent_texts.take()
