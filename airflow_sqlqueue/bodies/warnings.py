"""Warnings of limits, before and when a batch reaches one.

Source: docs/guides/bodies.md, "Limits".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from airflow_sqlqueue.untrusted import quoted

Limit: TypeAlias = Literal["types", "many types", "fields", "many fields", "new fields", "statistics", "schema"]

_TEXTS: dict[Limit, str] = {
    "types": "{count} message types get no table, because there are too many: {first}. Choose types by patterns",
    "many types": "{count} message types have a schema, and {first} at most get one without a person. Choose types by "
    "patterns",
    "many fields": "the schema of {type} has {count} fields, and room for {first} at most. Remove fields or hint a map",
    "fields": "{count} fields of {type} get no column, as the schema is full: {first}. Remove fields or hint a map",
    "new fields": "{count} fields of {type} are new, the first one is {first}. A dictionary may need a hint",
    "statistics": "the statistics of {type} have room for {count} fields, and the messages have more. "
    "A dictionary may need a hint",
    "schema": "the schema of {type} cannot be used, and its messages are not parsed: {first}",
}


@dataclass(frozen=True)
class SchemaWarning:
    """A limit of schemas that is reached or near, or a schema that cannot be used.

    :param message_type: the type; None where several are meant.
    :param count: the number of paths or types.
    :param first: the first path or type, the limit itself, or the reason why a schema cannot be used.
    """

    limit: Limit
    message_type: str | None
    count: int
    first: str

    def __str__(self) -> str:
        first = quoted(self.first) if self.limit in ("types", "fields", "new fields") else self.first
        text = _TEXTS[self.limit].format(count=f"{self.count:,}", type=quoted(self.message_type), first=first)
        return text.removesuffix(".") + "."
