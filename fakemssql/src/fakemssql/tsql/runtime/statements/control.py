"""Statements for control of flow, transactions, variables and USE."""

from __future__ import annotations

import time

from fakemssql.contract import SqlError
from fakemssql.tsql.datatypes.codec import decode
from fakemssql.tsql.definitions.temporary import create
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.pg import Request
from fakemssql.tsql.runtime.errors import is_compile
from fakemssql.tsql.runtime.execution.interpreter import integer_of, quiet, report, run_all, step, text_of
from fakemssql.tsql.runtime.execution.plans import condition, evaluate
from fakemssql.tsql.runtime.frames import BatchEnd, Break, Continue, Frame, Returned, ScopeEnd
from fakemssql.tsql.runtime.session.session import Session
from fakemssql.tsql.security import errors


def block(session: Session, node: nodes.Block, frame: Frame) -> None:
    run_all(session, node.body, frame)


def branch(session: Session, node: nodes.If, frame: Frame) -> None:
    holds = condition(session, node.condition, frame)
    quiet(session)  # IF resets @@ERROR and @@ROWCOUNT ("Using @@ERROR")
    if holds:
        step(session, node.then, frame)
    elif node.otherwise is not None:
        step(session, node.otherwise, frame)


def loop(session: Session, node: nodes.While, frame: Frame) -> None:
    while condition(session, node.condition, frame):
        quiet(session)
        session.pg.check()  # else nothing could cancel a loop that does not use PostgreSQL
        try:
            step(session, node.body, frame)
        except Break:
            return
        except Continue:
            continue


def simple(session: Session, node: nodes.Simple, frame: Frame) -> None:
    if node.kind == "break":
        raise Break
    if node.kind == "continue":
        raise Continue
    quiet(session)


def try_catch(session: Session, node: nodes.TryCatch, frame: Frame) -> None:
    session.trying += 1
    try:
        try:
            run_all(session, node.body, frame)
        finally:
            session.trying -= 1
    except SqlError as error:
        if error.severity >= 20 or (is_compile(error) and error.seen is frame):
            if not session.trying:
                report(session, error, frame.output)
                raise (BatchEnd if session.options.xact_abort or error.severity >= 20 else ScopeEnd) from None
            raise
        frame.caught.append(error)
        try:
            run_all(session, node.handler, frame)
        finally:
            frame.caught.pop()


def returned(session: Session, node: nodes.Return, frame: Frame) -> None:
    status = 0 if node.value is None else integer_of(session, node.value, frame)
    quiet(session, 1)
    raise Returned(status)


def wait_for(session: Session, node: nodes.WaitFor, frame: Frame) -> None:
    kind, raw = evaluate(session, node.value, None, frame)
    value = decode(kind, raw)
    if node.kind == "time":
        raise SqlError(40517, "WAITFOR TIME is not supported by fakemssql.")
    try:
        clock = str(value.time() if hasattr(value, "time") else value).split(":")
        if int(clock[0]) > 23 or int(clock[1]) > 59:
            raise ValueError
        seconds = int(clock[0]) * 3600 + int(clock[1]) * 60 + (float(clock[2]) if len(clock) > 2 else 0.0)
    except (ValueError, IndexError):
        raise SqlError(148, f"Incorrect time syntax in time string '{value}' used with WAITFOR.", severity=15) from None
    # PostgreSQL sleeps, so that the wait ends at once when the client cancels.
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        session.transactions.run([Request(f"SELECT pg_sleep({left})")])
    quiet(session)


def use(session: Session, node: nodes.Use, frame: Frame) -> None:
    entry = session.catalog.database(node.database)
    if entry is None:
        raise errors.no_database(node.database)
    session.security.identity(entry[1])
    old, session.database = session.database, entry[1]
    session.activity.update(session)
    frame.output.database(entry[1], old)
    frame.output.message(SqlError(5701, f"Changed database context to '{entry[1]}'.", severity=0, state=1))
    quiet(session)


def transaction(session: Session, node: nodes.Transaction, frame: Frame) -> None:
    transactions = session.transactions
    name = node.name
    if name is not None and name.startswith("@"):
        name = text_of(session, nodes.Variable(name), frame, 128)
    if node.kind == "begin":
        transactions.begin(name, frame.output)
    elif node.kind == "commit":
        transactions.commit(frame.output)
    elif node.kind == "rollback":
        transactions.rollback(name, frame.output)
    else:
        assert name is not None
        transactions.save(name)
    quiet(session)


def declare(session: Session, node: nodes.Declare, frame: Frame) -> None:
    if node.name in frame.tables:
        raise SqlError(134, f"The variable name '{node.name}' has already been declared.", severity=15)
    frame.types[node.name] = node.type
    frame.values.setdefault(node.name, None)
    if node.value is not None:
        frame.values[node.name] = evaluate(session, node.value, node.type, frame)[1]
        quiet(session, 1)


def declare_table(session: Session, node: nodes.DeclareTable, frame: Frame) -> None:
    if node.name in frame.tables:
        return
    session.transactions.define(lambda: frame.tables.__setitem__(node.name, create(session.definer, node.table)))


def set_variable(session: Session, node: nodes.SetVariable, frame: Frame) -> None:
    kind = frame.types.get(node.name)
    if kind is None:
        raise SqlError(137, f'Must declare the scalar variable "{node.name}".', severity=15, state=1)
    value = node.value
    if node.op != "=":
        cached = frame.code.combined.get(id(node))
        if cached is None:
            cached = nodes.Binary(node.op[0], nodes.Variable(node.name), value)
            frame.code.combined[id(node)] = cached
        value = cached
    frame.values[node.name] = evaluate(session, value, kind, frame)[1]
    quiet(session, 1)
