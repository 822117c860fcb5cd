"""Redaction of a body, JSON or XML, whose encoding and byte order mark stay, and the values that it would change."""

from __future__ import annotations

from airflow_sqlqueue.bodies.text import kind_of, read_text
from airflow_sqlqueue.redaction.actions import ACTIONS, Hasher
from airflow_sqlqueue.redaction.fields import FieldChanges, Reach, Walk, Way
from airflow_sqlqueue.redaction.json_body import redact_json
from airflow_sqlqueue.redaction.paths import FieldPath
from airflow_sqlqueue.redaction.xml_body import redact_xml


def redact_body(body: bytes, content_type: str | None, start: Reach, hasher: Hasher) -> tuple[bytes, FieldChanges]:
    """Return the redacted body, and the paths that were found in it. ``start`` is what rules say.

    Raises :class:`BodyError` for a body that cannot be parsed, which must be left out whole.
    """
    (text, mark, encoding), walk = read_text(body, content_type), Walk(start)
    if kind_of(content_type, text) == "json":
        redacted = redact_json(text, walk, hasher, encoding).encode(encoding)
    else:
        redacted = redact_xml(text, walk, hasher).encode(encoding, "xmlcharrefreplace")
    return (mark + redacted if walk.changes.found else body), walk.changes


def field_values(body: bytes, content_type: str | None, path: FieldPath) -> tuple[list[str], bool]:
    """Return the texts of the values that an action on a path would change, as they are hashed.

    With them comes whether one stands where the path names an object, and may hold the field. Raises
    :class:`BodyError` where :func:`redact_body` does.
    """
    texts: list[str] = []

    def noted(text: str) -> str:
        texts.append(text)
        return text

    start = Reach(ways=(Way(path.text, ACTIONS["hash"], path.steps),))
    _, changes = redact_body(body, content_type, start, noted)
    return texts, bool(changes.misplaced)
