"""Action tokens: signed requests of the page to its DAG, so that the right to run the DAG gives no right over queues.

A request has ids, addresses and counts, but no content of messages, because the run's configuration holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from airflow.providers.common.compat.sdk import conf
from itsdangerous import BadSignature, SignatureExpired, URLSafeTimedSerializer

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.plugin.addresses import Address

MAX_SECONDS = {"preview": 600, "order": 86_400}
"""Age up to which a user may confirm a preview, and up to which a run may begin, or begin again, with an order."""


@dataclass(frozen=True)
class ActionRequest:
    """Action of the page on messages or on a batch.

    ``group`` is a name of :func:`~airflow_sqlqueue.queue.errors.groupings.group_name`. ``limit`` is the number of
    messages to count, ``rate`` the number of them a second. ``reason`` is the text of the user, and ``by`` that user's
    name. The user confirmed ``messages``, so the action takes at most that number, and only up to the RowVersion
    ``up_to``, the last one counted: a repeated request takes no later messages. Only the ``holder`` may use the token:
    a user for a preview, a DAG run for an order.
    """

    action: str
    connection: str
    messages: int
    queue: Address | None = None
    batch_id: str | None = None
    group: str | None = None
    row_versions: tuple[int, ...] | None = None
    up_to: int | None = None
    to_queue: Address | None = None
    limit: int | None = None
    rate: float | None = None
    reason: str | None = None
    by: str | None = None
    holder: str = ""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ActionRequest:
        """Request of JSON values that were signed."""
        known = {field.name for field in fields(cls)}
        given = {name: value for name, value in values.items() if name in known}
        row_versions = given.get("row_versions")
        return cls(**{**given, "row_versions": None if row_versions is None else tuple(map(int, row_versions))})

    def to_dict(self) -> dict[str, Any]:
        """JSON values, without empty ones."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}

    @property
    def filters(self) -> dict[str, Any]:
        """Conditions on failed messages, for :class:`~airflow_sqlqueue.queue.errors.filters.ErrorFilter`."""
        given = {"group": self.group, "row_versions": self.row_versions, "up_to": self.up_to}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given.items()
            if value not in (None, "", ())
        }


def signed(request: ActionRequest, holder: str, kind: str) -> str:
    """Return the token, a ``preview`` or an ``order``, of the request for one holder; only this Airflow can sign it."""
    return str(_serializer(kind).dumps(replace(request, holder=holder).to_dict()))


def read(text: str, holder: str, kind: str) -> ActionRequest:
    """Request of a token. Raises :class:`ConfigurationError` for one too old, of another holder, or not signed here."""
    try:
        request = ActionRequest.of(_serializer(kind).loads(text, max_age=MAX_SECONDS[kind]))
    except SignatureExpired:
        raise ConfigurationError(f"The {kind} is too old: request a new preview.") from None
    except (BadSignature, TypeError, ValueError):
        raise ConfigurationError(
            "The order is not signed by this Airflow's page: start it there, and give [api] secret_key, or [sqlqueue] "
            "page_secret_key, the same value for API servers and workers."
        ) from None
    if request.holder != holder:
        raise ConfigurationError("The order belongs to another user or run: request a new preview.")
    return request


def _serializer(kind: str) -> URLSafeTimedSerializer:
    key = conf.get("sqlqueue", "page_secret_key", fallback="") or conf.get("api", "secret_key", fallback="")
    if not key:
        raise ConfigurationError("No key to sign with: set [api] secret_key, or [sqlqueue] page_secret_key.")
    return URLSafeTimedSerializer(key, salt=f"airflow_sqlqueue.page.{kind}")
