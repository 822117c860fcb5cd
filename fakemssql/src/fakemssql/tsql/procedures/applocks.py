"""Procedures sp_getapplock and sp_releaseapplock."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.runtime.frames import Frame, Raised
from fakemssql.tsql.runtime.session.session import Arguments, Session
from fakemssql.tsql.security import errors


def _userlock(session: Session, frame: Frame, number: int, message: str) -> int:
    """Report an error of the lock procedures: a TRY catches it, elsewhere the call returns -999."""
    error = Raised(number, message, procedure="xp_userlock")
    if session.trying:
        raise error
    session.error_number = number
    frame.output.message(error)
    return -999


def _no_transaction(session: Session, frame: Frame, what: str) -> int:
    text = f"You attempted to {what} a transactional application lock without an active transaction."
    return _userlock(session, frame, 50000, text)


def sp_getapplock(session: Session, arguments: Arguments, frame: Frame) -> int:
    resource, mode, owner, timeout, _ = arguments.take(
        "resource", "lockmode", "lockowner", "locktimeout", "dbprincipal"
    )
    owner = (owner or "Transaction").lower()
    for name, value in (("@Resource", resource), ("@LockMode", mode)):
        if value is None:
            raise errors.missing_argument("sp_getapplock", name)
    if mode.lower() in ("update", "intentshared", "intentexclusive"):
        raise SqlError(40517, f"The lock mode {mode} of sp_getapplock is not supported by fakemssql.")
    if mode.lower() not in ("shared", "exclusive") or owner not in ("transaction", "session"):
        return -999
    if owner == "transaction" and not session.transaction_count:
        return _no_transaction(session, frame, "acquire")
    if timeout is not None and timeout < -1:
        return -999
    if timeout is None:
        timeout = session.options.lock_timeout
    session.transactions.start()
    return session.applocks.get(resource[:255], mode.lower() == "shared", owner, timeout)


def sp_releaseapplock(session: Session, arguments: Arguments, frame: Frame) -> int:
    resource, owner, _ = arguments.take("resource", "lockowner", "dbprincipal")
    owner = (owner or "Transaction").lower()
    if resource is None or owner not in ("transaction", "session"):
        return -999
    if owner == "transaction" and not session.transaction_count:
        return _no_transaction(session, frame, "release")
    if not session.applocks.release(resource[:255], owner):
        return _userlock(
            session,
            frame,
            1223,
            f"Cannot release the application lock (Database Principal: 'public', Resource: '{resource[:32]}')"
            " because it is not currently held.",
        )
    return 0
