"""Action tokens: signed orders of the page to its DAG, whose own right to be run must not stand for the page's.

Ids, addresses and counts, and nothing of what a message holds: an order lies in the run's configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from airflow.sdk import conf
from itsdangerous import BadSignature, SignatureExpired, URLSafeTimedSerializer

from airflow_sqlqueue.errors import ConfigurationError

ACTIONS = ("return", "redirect", "requeue", "sweep", "mark_consumed")
PREVIEWED_SECONDS = 600
"""How long a preview may be confirmed."""
ORDER_SECONDS = 86_400
"""How long the run of an order may begin, or begin again."""


@dataclass(frozen=True)
class Order:
    """One action of the page.

    ``group`` is a name of :func:`~airflow_sqlqueue.errorqueue.failed_message.group_name`; ``messages`` is how many the
    user confirmed, and no more are touched; none above ``up_to`` either, the last RowVersion that was counted, so that
    an order that is run again meets only what it was given for. ``holder`` is who may use it: a user for a preview, a
    DAG run for an order.
    """

    action: str
    connection: str
    messages: int
    queue: str | None = None
    batch_id: str | None = None
    group: str | None = None
    row_versions: tuple[int, ...] | None = None
    up_to: int | None = None
    destination: str | None = None
    holder: str = ""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Order:
        """From JSON values that were signed."""
        known = {field.name for field in fields(cls)}
        given = {name: value for name, value in values.items() if name in known}
        row_versions = given.get("row_versions")
        return cls(**{**given, "row_versions": None if row_versions is None else tuple(map(int, row_versions))})

    def to_dict(self) -> dict[str, Any]:
        """JSON values; what is not given is left out."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}

    @property
    def filters(self) -> dict[str, Any]:
        """The failed messages that are meant, as :class:`~airflow_sqlqueue.errorqueue.filters.ErrorFilter` has them."""
        given = {"group": self.group, "row_versions": self.row_versions, "up_to": self.up_to}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given.items()
            if value not in (None, "", ())
        }


def signed(order: Order, holder: str, kind: str) -> str:
    """The order as text that only this Airflow can write, for one holder. ``kind`` is ``preview`` or ``order``."""
    return str(_serializer(kind).dumps(replace(order, holder=holder).to_dict()))


def read(text: str, holder: str, kind: str, *, seconds: int | None = None) -> Order:
    """The order again. Raises :class:`ConfigurationError` for one that is too old, another's, or not signed here."""
    try:
        order = Order.of(_serializer(kind).loads(text, max_age=seconds))
    except SignatureExpired:
        raise ConfigurationError(f"The {kind} is too old: look again at what would be done.") from None
    except (BadSignature, TypeError, ValueError):
        raise ConfigurationError(
            "The order is not signed by this Airflow's page: start it there, and give [api] secret_key, or [sqlqueue] "
            "page_secret_key, the same value for API servers and workers."
        ) from None
    if order.holder != holder:
        raise ConfigurationError("The order was given to somebody else: look again at what would be done.")
    return order


def _serializer(kind: str) -> URLSafeTimedSerializer:
    key = conf.get("sqlqueue", "page_secret_key", fallback="") or conf.get("api", "secret_key", fallback="")
    if not key:
        raise ConfigurationError("No key to sign with: set [api] secret_key, or [sqlqueue] page_secret_key.")
    return URLSafeTimedSerializer(key, salt=f"airflow_sqlqueue.page.{kind}")
