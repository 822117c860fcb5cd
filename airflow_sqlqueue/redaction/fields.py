"""Fields that the paths of rules reach in a body of any format: one walk decides for the redaction and the erasure.

A path goes through every list on its way. It also reaches a value that stands where it names an object, such as an
object that is written as JSON in a text: that value may hold the field. Source: docs/guides/redaction.md, "The rules".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from airflow_sqlqueue.bodies.names import column_key
from airflow_sqlqueue.bodies.tree import TEXT, Element
from airflow_sqlqueue.redaction.actions import ACTIONS, RedactionAction, stricter
from airflow_sqlqueue.redaction.paths import PathStep
from airflow_sqlqueue.redaction.rules import RedactionRule

Kind: TypeAlias = Literal["text", "number", "boolean", "null", "object", "list"]
Steps: TypeAlias = "tuple[PathStep, ...]"

VALUES = "$values"
"""The member of an object that is a list with metadata, in System.Text.Json and Newtonsoft.Json."""

ANY_ELEMENT = PathStep("<>")
"""The step to each message of a body of several messages, which is no name of XML."""


@dataclass
class FieldChanges:
    """Paths that rules reach in one body, ``*`` for what no list keeps; ``misplaced``: another value is in place."""

    found: dict[str, RedactionAction] = field(default_factory=dict)
    misplaced: set[str] = field(default_factory=set)

    def add(self, path: str, action: RedactionAction) -> None:
        self.found[path] = stricter(self.found.get(path, action), action)


class Way(NamedTuple):
    """A path on its way through a body, and the rest of its steps.

    ``is_in_list``: the elements of the one that it has reached may be the items of a list, and are no step.
    """

    path: str
    action: RedactionAction
    rest: Steps
    is_in_list: bool = False


class Reach(NamedTuple):
    """Effect of rules on one place of a body: ``action`` on the value, ``below`` on all that is below it.

    ``ways`` are the paths that go on, ``keeps`` for each list of a rule those that members stay by. ``dropped``: a list
    of a rule does not lead here.
    """

    action: RedactionAction | None = None
    below: RedactionAction | None = None
    ways: tuple[Way, ...] = ()
    keeps: tuple[tuple[Steps, ...], ...] = ()
    dropped: bool = False

    @classmethod
    def of(cls, rules: Sequence[RedactionRule]) -> Reach:
        """Return what the rules of one message say about its body as a whole."""
        keeps = []
        for rule in rules:
            if rule.keep_fields is not None:
                paths = (*rule.keep_fields, *(path for path, action in rule.fields if not action.removes))
                keeps.append(tuple(path.steps for path in paths))
        actions = (each for rule in rules for each in rule.fields)
        return cls(ways=tuple(Way(path.text, action, path.steps) for path, action in actions), keeps=tuple(keeps))

    @property
    def removed(self) -> bool:
        return self.dropped or (self.action is not None and self.action.removes)

    def merged(self, other: Reach) -> Reach:
        """Return what concerns a value that two places have, here the first one."""
        return Reach(
            stricter(self.action, other.action),
            stricter(self.below, other.below),
            _once(self.ways, other.ways),
            _once(self.keeps, other.keeps),
            self.dropped,
        )


NOTHING = Reach()


class Walk:
    """A walk through one body, in which ``changes`` are noted."""

    def __init__(self, start: Reach) -> None:
        self.start, self.changes = start, FieldChanges()

    def value(self, reach: Reach, kind: Kind) -> Reach:
        """Return what concerns a value, also if it stands where paths still have steps to go."""
        action = reach.action
        for way in reach.ways if kind not in ("object", "list", "null") else ():
            last = (way.rest[0].name or "") if len(way.rest) == 1 else ""
            if not last.startswith("@"):
                action = stricter(action, way.action)
                self.changes.add(way.path, way.action)
                if last != TEXT:
                    self.changes.misplaced.add(way.path)
        return reach if action is reach.action else reach._replace(action=action)

    def below(self, reach: Reach, name: str | None, child: Any, kind: Kind) -> Reach:
        """Return what concerns a member of an object; an item of a list, which is no step, has no name."""
        action, of_members, is_items = reach.below, None, name == VALUES and kind == "list"
        ways = list(reach.ways) if name is None or is_items else []
        if name is not None:
            key, is_text = column_key(name), name == TEXT and isinstance(child, Element)
            for way in reach.ways:
                if way.is_in_list and name[0] not in "@#":
                    ways.append(way._replace(is_in_list=False))
                step, rest = way.rest[0], way.rest[1:]
                matches = step.matches(key)
                if is_text and (rest or not matches):
                    ways.append(way)
                elif matches:
                    is_list = has_elements(child) and (step.each or _is_list_like(child))
                    if rest:
                        ways.append(way._replace(rest=rest, is_in_list=is_list))
                        continue
                    self.changes.add(way.path, way.action)
                    if is_list and step.each:
                        of_members = stricter(of_members, way.action)
                    else:
                        action = stricter(action, way.action)
        keeps, dropped = self._kept(reach, name, child, kind) if reach.keeps else ((), False)
        if not (ways or keeps or dropped or action or of_members):
            return NOTHING
        more = _once(ways) if len(ways) > len(reach.ways) else tuple(ways)
        return self.value(Reach(action, stricter(action, of_members), more, keeps, dropped), kind)

    def _kept(
        self, reach: Reach, name: str | None, child: Any, kind: Kind
    ) -> tuple[tuple[tuple[Steps, ...], ...], bool]:
        keeps, dropped = [], False
        for paths in reach.keeps:
            if name is not None and not (name == VALUES and kind == "list"):
                paths = _once(rest for path in paths for rest in _after(path, name, child))
            if () in paths:
                continue
            if paths and kind in ("object", "list", "null"):
                keeps.append(paths)
            else:
                dropped = True
                self.changes.add("*", ACTIONS["drop"])
        return tuple(keeps), dropped


def has_elements(value: Any) -> bool:
    """Whether a value is an element of XML with elements."""
    return isinstance(value, Element) and any(name[0] not in "@#" for name, _ in value.children)


def _is_list_like(element: Element) -> bool:
    """Whether its elements look like the items of a list."""
    elements = [(name, child) for name, child in element.children if name[0] not in "@#"]
    return len({name for name, _ in elements}) == 1 and all(child and child.children for _, child in elements)


def _after(path: Steps, name: str, child: Any) -> Iterator[Steps]:
    """Yield the paths that go on below a member; an item of a list of elements may have any name."""
    if path[0].name in (None, column_key(name)) or (path[0] is ANY_ELEMENT and name[0] not in "@#"):
        yield path[1:]
        if path[0].each and len(path) > 1 and has_elements(child):
            yield (PathStep(None), *path[1:])


def _once(*given: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(each for values in given for each in values))
