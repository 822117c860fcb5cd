"""Internal errors of fakemssql, reported as SQL Server reports its own; the log has the cause.

Numbers, severities and texts: "Database Engine events and errors (8000 to 8999)".
"""

from __future__ import annotations

import logging
import secrets
import traceback

from fakemssql.contract import SqlError

log = logging.getLogger(__name__)

PLANNING, RUNNING = 8624, 8630
_TEXTS = {
    PLANNING: (16, "The query processor could not produce a query plan."),
    RUNNING: (17, "The query processor encountered an unexpected error during execution."),
}


def fault(error: BaseException, number: int = RUNNING, what: str = "") -> SqlError:
    """Log an exception that no text of a user should cause, and return the internal error for the client.

    The error's text has a reference. Under it the log has the exception's class, ``what``, and the lines of the program
    that it passed. The exception's own text may quote data and is left out.
    """
    reference = secrets.token_hex(4)
    frames = traceback.extract_tb(error.__traceback__)
    lines = "\n".join(f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames)
    log.error("internal error %s: %s%s\n%s", reference, type(error).__name__, f" ({what})" if what else "", lines)
    severity, text = _TEXTS[number]
    return SqlError(
        number,
        f"Internal Query Processor Error: {text} This is a fault of fakemssql; its log has details under {reference}.",
        severity=severity,
    )
