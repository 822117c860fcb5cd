"""Actions that the rules of one message have on the fields of its body, in any format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from airflow_sqlqueue.redaction.paths import FieldPath
from airflow_sqlqueue.redaction.rules import FIELD_ACTIONS, RedactionRule

MASK = "***"
"""The text that replaces a masked text. Other masked values become null, or an empty element."""

Hasher = Callable[[str], str]
"""Function that returns the hash of a value's text."""


@dataclass(frozen=True)
class FieldActions:
    """Actions on the fields of a body.

    :param actions: paths with their actions, the strictest last.
    :param kept: for each rule that keeps only what is listed, the paths that stay.
    """

    actions: tuple[tuple[FieldPath, str], ...] = ()
    kept: tuple[tuple[FieldPath, ...], ...] = ()

    @classmethod
    def of(cls, rules: Iterable[RedactionRule]) -> FieldActions:
        rules = tuple(rules)
        actions = [pair for rule in rules for pair in rule.fields]
        actions.sort(key=lambda pair: FIELD_ACTIONS.index(pair[1]))
        kept = [
            (*rule.keep_fields, *(path for path, action in rule.fields if action != "drop"))
            for rule in rules
            if rule.keep_fields is not None
        ]
        return cls(tuple(actions), tuple(kept))

    def __bool__(self) -> bool:
        return bool(self.actions or self.kept)
