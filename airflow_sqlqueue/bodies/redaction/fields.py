"""Fields that the paths of rules reach in a body of any format: one walk decides for the redaction and the erasure.

Source: docs/guides/redaction.md, "The rules".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from airflow_sqlqueue.bodies.names import name_key
from airflow_sqlqueue.bodies.redaction.actions import ACTIONS, Hasher, RedactionAction, stricter
from airflow_sqlqueue.bodies.redaction.rules import PathStep, RedactionRule
from airflow_sqlqueue.bodies.tree import TEXT, Element, is_element

Kind: TypeAlias = Literal["text", "number", "boolean", "null", "object", "list"]
Steps: TypeAlias = "tuple[PathStep, ...]"

VALUES = "$values"
_WRAPPED = (VALUES, "$value")
"""Members that stand for their object, a list or a value with metadata (System.Text.Json and Newtonsoft.Json)."""

_ANY, _ITEM = PathStep(None), PathStep("<>")
"""The steps to each member, and to each element of XML that is an item of a list, whatever its name."""


class Way(NamedTuple):
    """A path on its way through a body, and the rest of its steps."""

    path: str
    action: RedactionAction
    rest: Steps


class Reach(NamedTuple):
    """Effect of rules on one place of a body."""

    action: RedactionAction | None = None
    """The action on the value, and on all that is below it."""
    ways: tuple[Way, ...] = ()
    keeps: tuple[tuple[Steps, ...], ...] = ()
    """For each list of a rule the paths that members stay by."""
    dropped: bool = False
    """Whether a list of a rule does not lead here."""

    @classmethod
    def of(cls, rules: Sequence[RedactionRule]) -> Reach:
        """Return what the rules of one message say about its body as a whole."""
        ways = tuple(Way(path.text, action, path.steps) for rule in rules for path, action in rule.fields)
        keeps = tuple(tuple(path.steps for path in rule.keep_fields) for rule in rules if rule.keep_fields)
        return cls(ways=ways, keeps=keeps)

    @property
    def removed(self) -> bool:
        return self.dropped or (self.action is not None and self.action.removes)

    def merged(self, other: Reach) -> Reach:
        """Return what concerns a value that two places have, here the first one."""
        action = stricter(self.action, other.action) if self.action else other.action
        return Reach(action, _once((*self.ways, *other.ways)), _once((*self.keeps, *other.keeps)), self.dropped)

    def of_messages(self) -> Reach:
        """Return what concerns a body of several messages: paths lead from each, those of actions from it as well."""
        ways = (way._replace(rest=(_ITEM, *way.rest)) for way in self.ways)
        keeps = tuple(tuple((_ITEM, *path) for path in paths) for paths in self.keeps)
        return self._replace(ways=(*self.ways, *ways), keeps=keeps)


NOTHING = Reach()


class Walk:
    """A walk through one body: ``found`` are the paths that reach a value, ``*`` for what no list of a rule keeps.

    ``misplaced`` are those that reach another value than they name.
    """

    def __init__(self, start: Reach, hasher: Hasher) -> None:
        self.start, self.hasher = start, hasher
        self.found: dict[str, RedactionAction] = {}
        self.misplaced: set[str] = set()

    def note(self, path: str, action: RedactionAction) -> None:
        self.found[path] = stricter(action, self.found.get(path))

    def value(self, reach: Reach, kind: Kind) -> Reach:
        """Return what concerns a value, also if it stands where paths still have steps to go."""
        action = reach.action
        if not reach.ways or kind in ("object", "list", "null"):
            return reach
        for way in reach.ways:
            last = (way.rest[0].name or "") if len(way.rest) == 1 else ""
            if not last.startswith("@"):
                action = stricter(way.action, action)
                self.note(way.path, way.action)
                if last != TEXT:
                    self.misplaced.add(way.path)
        return reach._replace(action=action)

    def below(self, reach: Reach, name: str | None, child: Any, kind: Kind) -> Reach:
        """Return what concerns a member of an object; an item of a list has no name."""
        if reach is NOTHING:
            return NOTHING
        action, dropped = reach.action, False
        ways: list[Way] = []
        keeps: list[tuple[Steps, ...]] = []
        for way in reach.ways:
            for rest in _rests(way.rest, name, child, in_doubt=True):
                if rest:
                    ways.append(way._replace(rest=rest))
                else:
                    self.note(way.path, way.action)
                    action = stricter(way.action, action)
        for paths in reach.keeps:
            left = _once(rest for path in paths for rest in _rests(path, name, child))
            if () in left:
                continue
            if left and kind in ("object", "list", "null"):
                keeps.append(left)
            else:
                dropped = True
                self.note("*", ACTIONS["drop"])
        if not (action or ways or keeps or dropped):
            return NOTHING
        return self.value(Reach(action, _once(ways), tuple(keeps), dropped), kind)


def _rests(steps: Steps, name: str | None, child: Any, *, in_doubt: bool = False) -> list[Steps]:
    """Return what is left of a path below a member, nothing if it does not lead there.

    In doubt, for actions, ``Email`` leads to an attribute ``@Email`` as well, a path to the text beside elements, and
    through what looks like a list.
    """
    if name is None:
        return [steps]
    step, rest, key = steps[0], steps[1:], name_key(name)
    found = [steps] if name in _WRAPPED else []
    leads = step.name is None or step.name == key or (step is _ITEM and is_element(name))
    if in_doubt and name == TEXT and (rest or not leads):
        return [steps]
    if not (leads or (in_doubt and key[:1] == "@" and key[1:] == step.name)):
        return found
    elements = elements_of(child)
    lists = step.lists if elements else 0
    if not rest:
        return [*found, (_ANY,) if lists and in_doubt else ()]
    if in_doubt and not lists and step is not _ITEM and len({each for each, _ in elements}) == 1:
        # They look like the items of a list, and some may be empty.
        lists = int(any(each and each.children for _, each in elements))
    return [*found, *((*[_ITEM] * number, *rest) for number in range(lists + 1))]


def elements_of(value: Any) -> list[tuple[str, Any]]:
    """Return the elements in an element of XML, nothing for another value."""
    return [each for each in value.children if is_element(each[0])] if isinstance(value, Element) else []


def _once(given: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(given))
