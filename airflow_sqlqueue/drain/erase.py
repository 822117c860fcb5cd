"""Erase: remove single messages, such as those of one person, from batches that are sealed, consumed or put back.

Source: docs/guides/redaction.md, "Erase one person's messages".
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_sqlqueue.bodies.redaction.actions import keyed_forms
from airflow_sqlqueue.bodies.redaction.bodies import field_values
from airflow_sqlqueue.bodies.redaction.redactor import hasher_of
from airflow_sqlqueue.bodies.redaction.rules import FieldPath
from airflow_sqlqueue.drain.batches import batches
from airflow_sqlqueue.drain.erased_parts import FileEraser
from airflow_sqlqueue.drain.ledger import ErasedPart, Ledger, Part
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.drain.stages.staging_table import MessageTable
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import (
    BatchError,
    BatchMismatchError,
    BodyError,
    ConfigurationError,
    StagingError,
    TransactionError,
)
from airflow_sqlqueue.messages.message import HeaderNames, decode_headers
from airflow_sqlqueue.messages.row import COLUMN_HEADERS, NAMES
from airflow_sqlqueue.untrusted import quoted

log = logging.getLogger(__name__)

_MESSAGE_ID = HeaderNames.MESSAGE_ID
_PAYLOADS = "it has payloads of the data bus: remove its files payloads*, erase, and fetch them again"


@dataclass(frozen=True, kw_only=True)
class EraseRequest:
    """Messages to erase: those that meet at least one condition. Values are compared exactly.

    :param message_ids: message ids, of the header ``NServiceBus.MessageId`` or of the row.
    :param headers: names of headers, compared without case, each with the value of the messages to erase.
    :param fields: paths of fields of the body, as in :class:`~airflow_sqlqueue.RedactionRules`, each with the value: a
        text, or a number as it is written.
    :param key: the key of the hashes of redacted batches, where the hashes of the values are searched for as well.
    :param batch_ids: only these batches, by their ids or the texts of these; None: all of the ledger that are not open.
    :param dry_run: erase nothing, only count.

    Raises :class:`ConfigurationError` without a condition, for an empty value, a value that is no text, a path that
    cannot be read, and an id of no form of a batch's.
    """

    message_ids: Collection[str] = field(default=(), repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    fields: Mapping[str, str] = field(default_factory=dict, repr=False)
    key: str | bytes | None = field(default=None, repr=False)
    batch_ids: Collection[uuid.UUID] | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        for name, values in (("headers", self.headers), ("fields", self.fields)):
            if not isinstance(values, Mapping):
                raise ConfigurationError(f"{name} is a mapping of names and values, not a {type(values).__name__}.")
        if isinstance(self.message_ids, str):
            raise ConfigurationError("message_ids is a list of texts, not one text.")
        # A generator would be used up by the checks, and nothing would be erased.
        object.__setattr__(self, "message_ids", tuple(self.message_ids))
        given = (*self.message_ids, *self.headers.values(), *self.fields.values())
        # A value of another type, as a UUID or a number, would equal no text.
        if other := next((value for value in given if not isinstance(value, str)), None):
            raise ConfigurationError(f"A value of the messages to erase is a {type(other).__name__}: give a text.")
        if not (self.message_ids or self.headers or self.fields):
            raise ConfigurationError("Name the messages to erase: message_ids, headers or fields.")
        if not all(given):
            raise ConfigurationError("A value of the messages to erase is empty, as of an unset variable: give it.")
        for path in self.fields:
            FieldPath.of(path)
        if self.batch_ids is not None:
            object.__setattr__(self, "batch_ids", frozenset(map(_batch_id, self.batch_ids)))


def _batch_id(value: object) -> uuid.UUID:
    try:
        return uuid.UUID(str(value))
    except ValueError:
        raise ConfigurationError(f"batch_ids is a list of ids of batches: {quoted(str(value))} is not one.") from None


@dataclass
class EraseResult:
    """Counts of an erasure.

    :param messages: the number of messages that were erased, or would be.
    :param batches: the ids of their batches.
    :param unread: the number of messages for which a condition on headers or fields could not be checked, because the
        headers or the body cannot be parsed, or a value stands where a path names an object. They stay.
    :param skipped: the ids of batches from which nothing was erased, each with the reason: it is open, a task works on
        it, others have locked it, as to put it back, it has messages to erase and payloads of the data bus beside its
        parts, or its files cannot be read.
    :param files: the number of files that were removed.
    """

    messages: int = 0
    batches: list[uuid.UUID] = field(default_factory=list)
    unread: int = 0
    skipped: dict[uuid.UUID, str] = field(default_factory=dict)
    files: int = 0


class Conditions:
    """Conditions of a request, with the hashes of their values."""

    def __init__(self, request: EraseRequest) -> None:
        hasher = hasher_of(request.key) if request.key else None

        def forms(value: str, kinds: Iterable[str] = ("text", "number", "boolean", "header")) -> set[str | None]:
            return {value, *(keyed_forms(value, hasher, kinds) if hasher else ())}

        self._headers: dict[str, set[str | None]] = {}
        self._row_ids: set[str | None] = set()
        for name, value in (*((_MESSAGE_ID, each) for each in request.message_ids), *request.headers.items()):
            self._headers.setdefault(name.lower(), set()).update(forms(value))
            if name.lower() == _MESSAGE_ID.lower():
                self._row_ids |= forms(value.lower(), ["row_id"])
        self._fields = [(FieldPath.of(path), forms(value)) for path, value in request.fields.items()]

    def match(self, row: Mapping[str, Any]) -> bool | None:
        """Return whether a message meets a condition, by its columns; None if it meets none and one is in doubt."""
        decoded, body = decode_headers(row["Headers"]), row.get("Body") or b""
        headers = (*decoded.values.items(), *((header, row.get(name)) for name, header in COLUMN_HEADERS.items()))
        if str(row["Id"]).lower() in self._row_ids or any(
            value is not None and value in self._headers.get(name.lower(), ()) for name, value in headers
        ):
            return True
        unread = decoded.problem_code is not None or decoded.has_repeats
        try:
            for path, forms in self._fields if body else ():
                values, misplaced = field_values(body, decoded.values.get(HeaderNames.CONTENT_TYPE), path)
                if not forms.isdisjoint(values):
                    return True
                unread |= misplaced
        except BodyError:
            unread = True
        return None if unread else False


def erase(
    ledger: Ledger, locks: BatchLocks, request: EraseRequest, staging: StagingFolder | None = None
) -> EraseResult:
    """Erase messages from staged batches. Repeatable: a call that was interrupted is finished by the next one.

    ``staging`` as for :func:`~airflow_sqlqueue.drain.batch_reader.rows_in_order`. Raises :class:`TransactionError`
    inside a transaction; :class:`BatchNotFoundError` where there is no ledger; for a named batch too if it is unknown,
    :class:`BatchError` if it is open, and :class:`BatchMismatchError` or :class:`StagingError` if its files cannot be
    read.
    """
    if ledger.session.in_transaction:
        raise TransactionError("Files are removed, which no rollback brings back: erase outside the transaction.")
    erasure, result = _Erasure(ledger, request, staging), EraseResult()
    for batch_id in _chosen(ledger, request, result):
        if not request.dry_run and not locks.take(batch_id):
            result.skipped[batch_id] = "a task works on it"
            continue
        try:
            erasure.run(batch_id, result)
        except (BatchMismatchError, StagingError) as error:
            if request.batch_ids is not None:
                raise
            # Files that one batch has lost must not keep a person's messages in the others.
            log.warning("Nothing was erased from batch %s: %s", batch_id, error)
            result.skipped[batch_id] = "its files cannot be read"
        finally:
            if not request.dry_run:
                locks.release(batch_id)
    log.info(
        "%s %d messages of %d batches; %d could not be read, %d batches were skipped",
        "Found" if request.dry_run else "Erased",
        *(result.messages, len(result.batches), result.unread, len(result.skipped)),
    )
    return result


def _chosen(ledger: Ledger, request: EraseRequest, result: EraseResult) -> Iterator[uuid.UUID]:
    # Without a ledger that this login sees, "nothing to erase" could be wrong.
    ledger.require()
    ledger.create()
    for batch_id in request.batch_ids or ():
        if ledger.find(batch_id).state == "open":
            raise BatchError(f"Batch {batch_id} is still open: run its drain to the end first; nothing was erased.")
    found = {info.batch_id: info for info in batches(ledger)}
    for batch_id in dict.fromkeys((*found, *ledger.ids())):
        if request.batch_ids is not None and batch_id not in request.batch_ids:
            continue
        if batch_id not in found:
            result.skipped[batch_id] = "others have locked it"
        elif found[batch_id].state == "open":
            result.skipped[batch_id] = "it is open"
        else:
            yield batch_id


class _Erasure:
    """Erasure from one batch after the other."""

    def __init__(self, ledger: Ledger, request: EraseRequest, staging: StagingFolder | None) -> None:
        self._ledger, self._request, self._staging = ledger, request, staging
        self._conditions = Conditions(request)
        self._table = MessageTable(ledger.session, ledger.catalog, ledger.schema)

    def run(self, batch_id: uuid.UUID, result: EraseResult) -> None:
        batch, dry_run, bodies = self._ledger.manifest(batch_id), self._request.dry_run, bool(self._request.fields)
        batch.check_files()
        has_folder = batch.stage != "table" and (batch.paths or self._staging is not None)
        files = FileEraser(batch, self._ledger.folder(batch_id), self._staging) if has_folder else None
        found: dict[Part, set[tuple[int, str]]] = {}
        for part in (each for each in self._ledger.parts(batch_id) if each.messages):
            for row in files.rows(part, bodies=bodies) if files else self._rows(batch_id, part, bodies=bodies):
                met = self._conditions.match(row)
                result.unread += met is None
                if met:
                    found.setdefault(part, set()).add((row["RowVersion"], str(row["Id"])))
        if found and files and files.has_payloads():
            result.skipped[batch_id] = _PAYLOADS
            return
        messages = sum(map(len, found.values()))
        if found and not dry_run:
            with self._ledger.session.transaction():
                # It begins on the server with the first statement, after the files were written.
                erased = files.rewrite(found) if files else self._erase_rows(batch_id, found)
                self._ledger.replace_parts(batch, erased)
                if files:
                    # A reader of the ledger's new list finds its manifest file.
                    files.publish(self._ledger.manifest(batch_id))
            messages = sum(each.messages for each in erased)
        if messages:
            result.messages += messages
            result.batches.append(batch_id)
        if files and not dry_run:
            result.files += files.remove_unlisted(self._ledger.manifest(batch_id), self._ledger.parts(batch_id))

    def _rows(self, batch_id: uuid.UUID, part: Part, *, bodies: bool) -> Iterator[dict[str, Any]]:
        for page in self._table.part(batch_id, part.id, part.messages, bodies=bodies):
            yield from (dict(zip(NAMES, row, strict=True)) for row in page)

    def _erase_rows(self, batch_id: uuid.UUID, found: Mapping[Part, Collection[tuple[int, str]]]) -> list[ErasedPart]:
        erased = []
        for part, rows in found.items():
            messages, size = self._table.erase(batch_id, part.id, list(rows))
            erased.append(ErasedPart(part, replace(part, messages=part.messages - messages, bytes=part.bytes - size)))
        return erased
