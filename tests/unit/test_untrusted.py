"""The one module that lets a row's text into logs, events, terminals, pages and other rows."""

from __future__ import annotations

import ast
import importlib
import io
import json
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

import airflow_sqlqueue
from airflow_sqlqueue import bodies, drain, endpoint, messages, queue, server, untrusted
from airflow_sqlqueue.cli import output
from airflow_sqlqueue.errors import AddressError, NoReplyError, SqlQueueError
from airflow_sqlqueue.messages.message import decode_headers
from airflow_sqlqueue.untrusted import is_text, printable

HOSTILE = {
    "\x1b[2J\x1b]52;c;cm0gLXJmIC8=\x07": r"\x1b[2J\x1b]52;c;cm0gLXJmIC8=\x07",
    "safe\roverwritten": r"safe\x0doverwritten",
    "\x9b31m": r"\x9b31m",
    "file\u202etxt.exe": r"file\u202etxt.exe",
    "\x7f\x00": r"\x7f\x00",
    "half \ud800": r"half \ud800",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_control_characters_are_escaped(text: str) -> None:
    assert printable(text) == HOSTILE[text]


@pytest.mark.parametrize("text", ["", "Łódź 🎁 ☃", "a\tb\nc", "C:\\x1b", "👩‍👩‍👧"])
def test_other_text_is_printed_as_it_is(text: str) -> None:
    assert printable(text) == text
    assert printable("a\r\nb") == "a\nb"


@pytest.mark.parametrize("as_list", [False, True])
def test_headers_send_no_commands_to_the_terminal(as_list: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(output, "stdout", Console(file=screen, width=200))
    for text in HOSTILE:
        record = {"exception": text, "addresses": [text]}
        output.show([record] if as_list else record, as_json=False, title="Failed")
        output.say(text, text)
    assert not set(screen.getvalue()) & {"\x1b", "\x07", "\x9b", "\r", "\x00", "\x7f", "\u202e"}


ROOMS = [messages, bodies, server, queue, drain, endpoint]
OF_MESSAGES = re.compile(
    "(?:headers|body|content|key|header|machines|fields|keywords|password|access_token|filesystem|values"
    "|exception_message|exception_data|stack_trace|help_link|tracestate|baggage|properties|headers_text|data_bus|layouts)"
)
NO_VALUES = {"Column", "ErrorGroup", "Redaction", "RedactionRule", "Sender", "Shape", "TaskBatches"}
"""Names of headers, keys of other kinds, and groups that people asked for."""


def test_no_representation_shows_what_messages_and_secrets_hold() -> None:
    """Tracebacks and logs print objects by their representation."""
    modules = [module.name for room in ROOMS for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")]
    shown = {
        f"{kind.__name__}.{field.name}"
        for module in modules
        for kind in vars(importlib.import_module(module)).values()
        if isinstance(kind, type) and is_dataclass(kind) and kind.__name__ not in NO_VALUES
        for field in fields(kind)
        if OF_MESSAGES.fullmatch(field.name) and field.repr
    }
    assert shown == set()


TEXTS = st.text(st.characters(exclude_categories=()), max_size=300)


@given(TEXTS)
def test_a_quoted_value_is_one_line_that_can_be_encoded(text: str) -> None:
    shown = untrusted.quoted(text)
    shown.encode()
    assert untrusted.sentence(shown) == shown
    assert len(shown) <= untrusted.QUOTED * 10 + 5
    assert untrusted.quoted(None) == "None"


@given(TEXTS)
@example("half \ud83d")
@example("a\0b")
def test_an_event_has_a_value_as_it_is_or_none(text: str) -> None:
    value = untrusted.event_value(text)
    assert value in (text, None)
    if value is not None:
        assert "\0" not in value.encode().decode()
    longest = "x" * 1_000
    assert untrusted.event_value(longest) == longest
    assert untrusted.event_value(longest + "x") is None


@given(TEXTS)
@example("half \ud83d")
@example("")
def test_a_header_for_another_message_has_a_value_as_it_is_or_none(text: str) -> None:
    value = untrusted.header_value(text)
    assert value == (text if text and is_text(text) else None)
    assert untrusted.header_value("x" * 8_193) is None
    assert untrusted.header_value("x" * 8_192) == "x" * 8_192
    assert untrusted.header_value(None) is None


@given(TEXTS, st.integers(0, 9))
@example("abc\U0001f600", 4)
@example("half \ud83d", 9)
def test_a_cut_text_fits_into_its_column_and_is_text(text: str, most: int) -> None:
    value = untrusted.cut(text, most)
    assert untrusted.row_text(text).startswith(value)
    assert is_text(value)
    assert most - 1 <= untrusted.units(value) <= most or value == untrusted.row_text(text)


@pytest.mark.parametrize(
    ("shorten", "most", "end"),
    [
        (lambda text: str(untrusted.quoted(text)).replace("'", ""), 200, "..."),
        (untrusted.label, 500, "…"),
        (untrusted.sentence, 4_000, "..."),
    ],
)
def test_a_text_has_a_largest_length(shorten: Callable[[str], str], most: int, end: str) -> None:
    assert shorten("x" * most) == "x" * most
    assert shorten("x" * (most + 1)) == "x" * most + end


@given(st.dictionaries(TEXTS, TEXTS | st.none(), max_size=4))
@example({"a": "half \ud83d of a pair", "\ude00": None})
def test_headers_for_another_row_stay_the_same_json(headers: dict[str, str | None]) -> None:
    """As text too that is JSON with halves of surrogate pairs as they are."""
    text = json.dumps(headers, ensure_ascii=False)
    written = untrusted.row_text(text)
    written.encode()
    assert json.loads(written) == json.loads(text)


@given(TEXTS)
def test_repairing_text_never_makes_it_json(text: str) -> None:
    assert decode_headers(untrusted.row_text(text)) == decode_headers(text)


@given(TEXTS)
def test_an_error_is_one_line_whatever_it_quotes(text: str) -> None:
    for kind in (SqlQueueError, AddressError, NoReplyError):
        shown = str(kind(f"The queue {text} is missing: create it."))
        shown.encode()
        assert not set(shown) & set(map(chr, range(32)))
        assert shown.startswith("The queue ")
    assert len(str(SqlQueueError(text * 100))) <= 6 * untrusted.SENTENCE + 3


_SINKS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
_VALUES = {
    *("message_id", "correlation_id", "conversation_id", "message_type", "message_types", "related_to", "headers"),
    *("failed_queue", "exception_type", "exception_message", "stack_trace", "machines", "content_type", "body"),
    *("originating_endpoint", "originating_machine", "processing_endpoint", "processing_machine", "reply_to_address"),
    *("headers_text", "address_text", "destination", "raw", "decoded", "envelope"),
}
"""Names under which the product keeps what a row holds."""

_DOORS = {"quoted", "event_value", "printable", "label", "row_text", "len", "type_name", "_payload"}
"""Functions that take such a value; an event's payload is tried with a zoo of them, encoded as Airflow does it."""

_OURS = {"failure.exception_type", "failed.failure.exception_type", "envelope.problem"}
"""The type of an exception that a handler raised in this process, and a sentence of the product's own."""


def _untrusted(node: ast.AST) -> Iterator[str]:
    """The names of values of rows in an expression that no function of this module was called with."""
    if (isinstance(node, ast.Call) and _name(node.func) in _DOORS) or ast.unparse(node) in _OURS:
        return
    if isinstance(node, (ast.Attribute, ast.Name)) and _name(node) in _VALUES:
        yield ast.unparse(node)
    for child in ast.iter_child_nodes(node):
        yield from _untrusted(child)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def leaks(source: str) -> list[str]:
    """Places where a module passes a value of a row unchanged to a log, an event or XCom."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        is_log = isinstance(node.func, ast.Attribute) and node.func.attr in _SINKS and "log" in ast.unparse(node.func)
        if is_log or _name(node.func) in {"TriggerEvent", "xcom_push"}:
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            found += [f"line {node.lineno}: {name}" for each in arguments for name in _untrusted(each)]
    return found


def test_no_module_hands_a_value_of_a_row_to_a_log_or_an_event_as_it_is() -> None:
    root = Path(airflow_sqlqueue.__file__).parent
    found = {str(path.relative_to(root)): leaks(path.read_text("utf-8")) for path in root.rglob("*.py")}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        'log.error("Message %r", envelope.identity.message_id)',
        'self.log.info(f"{message.headers}")',
        "TriggerEvent({'type': message_type})",
        'context["ti"].xcom_push(key="x", value=reply.headers)',
    ],
)
def test_a_leak_is_found(line: str) -> None:
    assert leaks(line)
    assert not leaks(
        re.sub(r"(envelope\.identity\.message_id|message\.headers|message_type|reply\.headers)", r"quoted(\1)", line)
    )
