"""Redaction of a body, JSON or XML, whose encoding and byte order mark stay, and the values that it would change."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_sqlqueue.bodies.text import kind_of, read_text
from airflow_sqlqueue.redaction.actions import ACTIONS, Hasher
from airflow_sqlqueue.redaction.fields import FieldActions, FieldChanges, mark
from airflow_sqlqueue.redaction.json_body import JsonBody
from airflow_sqlqueue.redaction.paths import FieldPath
from airflow_sqlqueue.redaction.xml_body import XmlBody


class FieldValues(list[str]):
    """Texts that a path reaches. ``misplaced``: one stands where the path names an object, and may hold the field."""

    def __init__(self, texts: Iterable[str], *, misplaced: bool) -> None:
        super().__init__(texts)
        self.misplaced = misplaced


def redact_body(
    body: bytes, content_type: str | None, actions: FieldActions, hasher: Hasher
) -> tuple[bytes, FieldChanges]:
    """Return the redacted body, and the paths that were found in it.

    Raises :class:`BodyError` for a body that cannot be parsed, which must be left out whole.
    """
    text = read_text(body, content_type)
    parsed = _parsed(text.text, content_type)
    changes = mark(parsed, actions)
    if not (changes.found or parsed.root.pruned):
        return body, changes
    redacted = text.mark + parsed.written(hasher, text.encoding)
    if redacted != body and not changes.found:
        changes.add("*", ACTIONS["drop"])
    return redacted, changes


def field_values(body: bytes, content_type: str | None, path: FieldPath) -> FieldValues:
    """Return the texts of the values that an action on a path would change, as they are hashed.

    Raises :class:`BodyError` where :func:`redact_body` does.
    """
    parsed = _parsed(read_text(body, content_type).text, content_type)
    changes = mark(parsed, FieldActions(((path, ACTIONS["mask"]),)))
    reached = (node.text for node in parsed.root.leaves() if node.action is not None)
    return FieldValues(reached, misplaced=bool(changes.misplaced))


def _parsed(text: str, content_type: str | None) -> JsonBody | XmlBody:
    return JsonBody(text) if kind_of(content_type, text) == "json" else XmlBody(text)
