"""Erase: remove single messages, such as those of one person, from batches that are sealed, consumed or put back.

Parts with such messages are written again under new names. One transaction enters the new parts and the counts in the
ledger; after it the old files are removed. A kill at any step leaves the batch as it was, or without the messages, and
the next call removes the files that were left. In the table of staged messages one transaction deletes the rows.

Source: docs/guides/redaction.md, "Erase one person's messages".
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_sqlqueue.drain.batches import batches
from airflow_sqlqueue.drain.erased_parts import FileEraser, remove_unlisted
from airflow_sqlqueue.drain.ledger import ErasedPart, Ledger
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.stages.message_table import MessageTable
from airflow_sqlqueue.drain.storage.batch_files import write_manifest
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import (
    BatchError,
    BatchMismatchError,
    BodyError,
    ConfigurationError,
    StagingError,
    TransactionError,
)
from airflow_sqlqueue.message import HeaderNames, decode_headers
from airflow_sqlqueue.redaction.actions import keyed_forms
from airflow_sqlqueue.redaction.bodies import field_values
from airflow_sqlqueue.redaction.redactor import hasher_of
from airflow_sqlqueue.redaction.rules import FieldPath
from airflow_sqlqueue.row import COLUMN_HEADERS, NAMES

log = logging.getLogger(__name__)

_PAYLOADS = "it has payloads of the data bus: remove its files payloads*, erase, and fetch them again"


@dataclass(frozen=True, kw_only=True)
class EraseRequest:
    """Messages to erase: those that meet at least one condition. Values are compared exactly.

    :param message_ids: message ids, of the header ``NServiceBus.MessageId`` or of the row.
    :param headers: names of headers, compared without case, each with the value of the messages to erase.
    :param fields: paths of fields of the body, as in :class:`~airflow_sqlqueue.RedactionRules`, each with the value: a
        text, or a number as it is written.
    :param key: the key of the hashes of redacted batches, where the hashes of the values are searched for as well.
    :param batch_ids: only these batches; None: all of the ledger that are not open.
    :param dry_run: erase nothing, only count.

    Raises :class:`ConfigurationError` without a condition, and for a path that cannot be read.
    """

    message_ids: Collection[str] = field(default=(), repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    fields: Mapping[str, str] = field(default_factory=dict, repr=False)
    key: str | bytes | None = field(default=None, repr=False)
    batch_ids: Collection[uuid.UUID] | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.message_ids, str):
            raise ConfigurationError("message_ids is a list of texts, not one text.")
        if not (self.message_ids or self.headers or self.fields):
            raise ConfigurationError("Name the messages to erase: message_ids, headers or fields.")
        for path in self.fields:
            FieldPath.of(path)


@dataclass
class EraseResult:
    """Counts of an erasure.

    :param messages: the number of messages that were erased, or would be.
    :param batches: the ids of their batches.
    :param unread: the number of messages for which a condition on headers or fields could not be checked, because the
        headers or the body cannot be parsed, or a value stands where a path names an object. They stay.
    :param skipped: the ids of batches from which nothing was erased, each with the reason: it is open, a task works on
        it, it has messages to erase and payloads of the data bus beside its parts, or its files cannot be read.
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

        def forms(value: str) -> set[str]:
            return {value, *(keyed_forms(value, hasher) if hasher else ())}

        self._headers = {name.lower(): forms(value) for name, value in request.headers.items()}
        self._ids = {form for value in request.message_ids for form in forms(value)}
        self._fields = [(FieldPath.of(path), forms(value)) for path, value in request.fields.items()]
        of_header = (value for name, value in request.headers.items() if name.lower() == HeaderNames.MESSAGE_ID.lower())
        ids = [value.lower() for value in (*request.message_ids, *of_header)]
        self._row_ids = {*ids, *(form for each in ids if hasher for form in keyed_forms(each, hasher, ["row_id"]))}

    def match(self, row: Mapping[str, Any], body: bytes | None) -> bool | None:
        """Whether a message meets a condition, by the columns of its row, whose names are those of the table.

        The result is None if no condition is met, and one could not be checked: the headers or the body cannot be
        parsed, a header comes twice, or a value stands where a path names an object.
        """
        decoded = decode_headers(row["Headers"])
        if str(row["Id"]).lower() in self._row_ids or decoded.values.get(HeaderNames.MESSAGE_ID) in self._ids:
            return True
        columns = [(header, row[name]) for name, header in COLUMN_HEADERS.items() if row.get(name) is not None]
        for name, value in (*decoded.values.items(), *columns):
            if value in self._headers.get(name.lower(), ()):
                return True
        unread = decoded.problem_code is not None or decoded.has_repeats
        try:
            for path, forms in self._fields if body else ():
                content_type = decoded.values.get(HeaderNames.CONTENT_TYPE)
                values, misplaced = field_values(body or b"", content_type, path)
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
    inside a transaction; for a named batch :class:`BatchNotFoundError` if it is unknown, :class:`BatchError` if it is
    open, and :class:`BatchMismatchError` or :class:`StagingError` if its files cannot be read.
    """
    if ledger.session.in_transaction:
        raise TransactionError("Files are removed, which no rollback brings back: erase outside the transaction.")
    erasure = _Erasure(ledger, request, staging)
    result = erasure.result
    for batch_id in _chosen(ledger, request, result):
        if not request.dry_run and not locks.take(batch_id):
            result.skipped[batch_id] = "a task works on it"
            continue
        try:
            erasure.run(batch_id)
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
    exists = ledger.exists()
    if exists:
        ledger.create()
    for batch_id in request.batch_ids or ():
        if ledger.find(batch_id).state == "open":
            raise BatchError(f"Batch {batch_id} is still open: run its drain to the end first; nothing was erased.")
    for info in batches(ledger) if exists else ():
        if request.batch_ids is None and info.state == "open":
            result.skipped[info.batch_id] = "it is open"
        elif request.batch_ids is None or info.batch_id in request.batch_ids:
            yield info.batch_id


class _Erasure:
    """Erasure from one batch after the other."""

    def __init__(self, ledger: Ledger, request: EraseRequest, staging: StagingFolder | None) -> None:
        self._ledger, self._request, self._staging = ledger, request, staging
        self._conditions, self.result = Conditions(request), EraseResult()

    def run(self, batch_id: uuid.UUID) -> None:
        batch = self._ledger.manifest(batch_id)
        if batch.stage == "table":
            self._count(batch_id, self._erase_rows(batch))
        elif batch.paths or not self._request.dry_run:
            self._erase_files(batch_id, batch)

    def _erase_rows(self, batch: Batch) -> int:
        table = MessageTable(self._ledger.session, self._ledger.catalog, self._ledger.schema)
        batch_id, found = uuid.UUID(batch.batch_id), {}
        for part in self._ledger.parts(batch_id):
            pages = table.part(batch_id, part.id, part.messages, bodies=bool(self._request.fields))
            rows = [
                row for page in pages for row in page if self._matches(dict(zip(NAMES, row, strict=True)), row.body)
            ]
            if rows:
                found[part] = [(row.row_version, str(row.id)) for row in rows]
        if self._request.dry_run or not found:
            return sum(map(len, found.values()))
        with self._ledger.session.transaction():
            erased = []
            for part, keys in found.items():
                messages, size = table.erase(batch_id, part.id, keys)
                rest = replace(part, messages=part.messages - messages, bytes=part.bytes - size)
                erased.append(ErasedPart(part, rest))
            self._ledger.replace_parts(batch, erased)
        return sum(each.messages for each in erased)

    def _erase_files(self, batch_id: uuid.UUID, batch: Batch) -> None:
        batch.check_files()
        eraser = FileEraser(batch, self._staging, reads_bodies=bool(self._request.fields))
        parts = [part for part in self._ledger.parts(batch_id) if part.path is not None]
        found = {part: rows for part in parts if (rows := eraser.find(part, self._matches))}
        if found and eraser.has_payloads():
            self.result.skipped[batch_id] = _PAYLOADS
            return
        if self._request.dry_run:
            self._count(batch_id, sum(map(len, found.values())))
            return
        if found:
            erased = eraser.rewrite(found)
            with self._ledger.session.transaction():
                self._ledger.replace_parts(batch, erased)
                # A reader of the ledger's new list finds its manifest file.
                self._publish(self._ledger.manifest(batch_id), eraser)
            self._count(batch_id, sum(each.messages for each in erased))
        batch = self._ledger.manifest(batch_id)
        self.result.files += remove_unlisted(batch, self._ledger.parts(batch_id), eraser.folders)

    def _publish(self, batch: Batch, eraser: FileEraser) -> None:
        if batch.paths:
            write_manifest(eraser.folder, replace(batch, state="sealed"), eraser.mode)

    def _matches(self, row: Mapping[str, Any], body: bytes | None) -> bool:
        found = self._conditions.match(row, body)
        self.result.unread += found is None
        return bool(found)

    def _count(self, batch_id: uuid.UUID, messages: int) -> None:
        self.result.messages += messages
        if messages:
            self.result.batches.append(batch_id)
