"""Redaction of a body, JSON or XML, whose encoding and byte order mark stay, and the values that it would change."""

from __future__ import annotations

from airflow_sqlqueue.bodies.text import kind_of, read_text
from airflow_sqlqueue.redaction.actions import ACTIONS, Hasher
from airflow_sqlqueue.redaction.fields import FieldActions, FieldChanges, Walk
from airflow_sqlqueue.redaction.json_body import redact_json
from airflow_sqlqueue.redaction.paths import FieldPath
from airflow_sqlqueue.redaction.xml_body import redact_xml


class FieldValues(list[str]):
    """Texts that a path reaches. ``misplaced``: one stands where the path names an object, and may hold the field."""

    misplaced = False


def redact_body(
    body: bytes, content_type: str | None, actions: FieldActions, hasher: Hasher
) -> tuple[bytes, FieldChanges]:
    """Return the redacted body, and the paths that were found in it.

    Raises :class:`BodyError` for a body that cannot be parsed, which must be left out whole.
    """
    (text, mark, encoding), walk = read_text(body, content_type), Walk(actions)
    if kind_of(content_type, text) == "json":
        redacted = redact_json(text, walk, hasher, encoding).encode(encoding)
    else:
        redacted = redact_xml(text, walk, hasher).encode(encoding, "xmlcharrefreplace")
    return (mark + redacted if walk.changes.found else body), walk.changes


def field_values(body: bytes, content_type: str | None, path: FieldPath) -> FieldValues:
    """Return the texts of the values that an action on a path would change, as they are hashed.

    Raises :class:`BodyError` where :func:`redact_body` does.
    """
    values = FieldValues()

    def noted(text: str) -> str:
        values.append(text)
        return text

    _, changes = redact_body(body, content_type, FieldActions(((path, ACTIONS["hash"]),)), noted)
    values.misplaced = bool(changes.misplaced)
    return values
