"""Statements PRINT, THROW and RAISERROR."""

from __future__ import annotations

import re

from fakemssql.contract import SqlError
from fakemssql.tsql.datatypes.codec import decode
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.execution.interpreter import integer_of, quiet, text_of
from fakemssql.tsql.runtime.execution.plans import evaluate
from fakemssql.tsql.runtime.frames import Frame, Raised, Thrown
from fakemssql.tsql.runtime.session.session import Session


def print_text(session: Session, node: nodes.Print, frame: Frame) -> None:
    text = text_of(session, node.value, frame)
    frame.output.message(SqlError(0, text, severity=0, line=node.line, procedure=frame.procedure))
    quiet(session)


def throw(session: Session, node: nodes.Throw, frame: Frame) -> None:
    if node.number is None:
        if not frame.caught:
            raise SqlError(
                10704, "To rethrow an error, a THROW statement must be used inside a CATCH block.", severity=15
            )
        old = frame.caught[-1]
        raise Thrown(
            old.number,
            old.message,
            severity=old.severity,
            state=old.state,
            line=old.line,
            procedure=old.procedure,
            then=old.then,
        )
    assert node.message is not None
    assert node.state is not None
    number = integer_of(session, node.number, frame)
    if number < 50000:
        raise SqlError(
            35100,
            f"Error number {number} in the THROW statement is outside the valid range."
            " Specify an error number in the valid range of 50000 to 2147483647.",
        )
    raise Thrown(
        number,
        text_of(session, node.message, frame),
        state=integer_of(session, node.state, frame) % 256,
        line=node.line,
    )


def raise_error(session: Session, node: nodes.RaiseError, frame: Frame) -> None:
    kind, raw = evaluate(session, node.message, None, frame)
    number, text = 50000, ""
    if kind.name in ("int", "smallint", "tinyint", "bigint"):
        number = decode(kind, raw)
        if number < 13000:
            raise SqlError(
                2732,
                f"Error number {number} is invalid. The number must be from 13000 through 2147483647 and it cannot be"
                " 50000.",
            )
        raise SqlError(
            18054,
            f"Error {number}, severity 16, state 1 was raised, but no"
            " message with that error number was found in sys.messages.",
        )
    text = decode(kind, raw) or ""
    severity = min(max(integer_of(session, node.severity, frame), 0), 25)
    state = integer_of(session, node.state, frame)
    state = 1 if state < 0 else min(state, 255)
    if len(node.arguments) > 20:
        raise SqlError(
            2747, "Too many substitution parameters for RAISERROR. Cannot exceed 20 substitution parameters."
        )
    values = []
    for argument in node.arguments:
        argument_kind, value = evaluate(session, argument, None, frame)
        values.append(decode(argument_kind, value))
    text = _format(text, values)
    if severity <= 10:
        frame.output.message(
            SqlError(number, text, severity=severity, state=state, line=node.line, procedure=frame.procedure)
        )
        session.error_number = number if "SETERROR" in node.options else 0
        session.rowcount = 0
        return
    if severity > 18 and "LOG" not in node.options:
        raise SqlError(
            2754,
            "Error severity levels greater than 18 can only be specified"
            " by members of the sysadmin role, using the WITH LOG option.",
        )
    raise Raised(number, text, severity=severity, state=state, line=node.line, procedure=frame.procedure)


def _format(text: str, values: list[object]) -> str:
    """Fill in %s %d %i %u %x %o of RAISERROR, with flags and widths."""
    rest = list(values)

    def replace(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        flags, width, precision, kind = match[1], match[2], match[3], match[4]
        if width == "*":
            width = str(rest.pop(0))
        value = rest.pop(0) if rest else "(null)"
        if value is None:
            value = "(null)"
        elif isinstance(value, str) == (kind != "s") and value != "(null)":
            position = len(values) - len(rest)
            raise SqlError(
                2786,
                f"The data type of substitution parameter {position} does not match the expected type of the format"
                " specification.",
            )
        spec = f"%{flags}{width or ''}{precision or ''}"
        if isinstance(value, int) and not isinstance(value, bool):
            if value < 0 and kind in "uxXo":
                value += 1 << (64 if "I64" in match[0] else 32)
            return (spec + {"i": "d", "u": "d"}.get(kind, kind)) % value
        return (spec + "s") % value

    wrong = re.search(r"%(?!%|[-+0# ]*(\d+|\*)?(\.\d+)?(?:I64|l|h)?[sdiuxXo])[-+0# \d.*]*\w", text.replace("%%", ""))
    if wrong is not None:
        raise SqlError(2787, f"Invalid format specification: '{wrong[0]}'.")
    return re.sub(r"%%|%([-+0# ]*)(\d+|\*)?(\.\d+)?(?:I64|l|h)?([sdiuxXo])", replace, text)[:2047]
