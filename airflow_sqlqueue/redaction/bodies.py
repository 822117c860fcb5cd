"""Redaction of a body, JSON or XML, whose encoding and byte order mark stay."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_sqlqueue.bodies.text import kind_of, read_text
from airflow_sqlqueue.errors import BodyError
from airflow_sqlqueue.redaction.actions import FieldActions, Hasher
from airflow_sqlqueue.redaction.json_body import JsonRedaction, json_values
from airflow_sqlqueue.redaction.paths import FieldPath
from airflow_sqlqueue.redaction.xml_body import XmlRedaction, xml_values


def redact_body(
    body: bytes, content_type: str | None, actions: FieldActions, hasher: Hasher
) -> tuple[bytes, dict[str, str]]:
    """Return the redacted body, and the paths that were found in it, each with its action.

    Raises :class:`BodyError` for a body that cannot be parsed or rewritten, which must be left out whole.
    """
    text, mark, encoding = read_text(body, content_type)
    kind = kind_of(content_type, text)
    redaction = (JsonRedaction if kind == "json" else XmlRedaction)(actions, hasher)
    redacted = redaction.apply(text)
    if redacted == text:
        return body, redaction.changed
    if mark + text.encode(encoding) != body:
        raise BodyError("encoding")
    return mark + redacted.encode(encoding), redaction.changed


def field_values(body: bytes, content_type: str | None, path: FieldPath) -> Iterator[str]:
    """Yield the texts of the values at a path, as they are hashed. Raises :class:`BodyError`."""
    text = read_text(body, content_type).text
    values = json_values if kind_of(content_type, text) == "json" else xml_values
    yield from values(text, path.steps)
