"""Fields that the paths of rules reach in a body of any format: one walk decides for the redaction and the erasure.

A path goes through every list on its way. It also reaches a value that stands where it names an object, such as an
object that is written as JSON in a text: that value may hold the field. Source: docs/guides/redaction.md, "The rules".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from airflow_sqlqueue.bodies.tree import TEXT
from airflow_sqlqueue.redaction.actions import RedactionAction, find_action, stricter
from airflow_sqlqueue.redaction.paths import FieldPath, PathStep
from airflow_sqlqueue.redaction.rules import RedactionRule

Kind: TypeAlias = Literal["text", "number", "boolean", "null", "object", "list"]

VALUES = "$values"
"""The member of an object that is a list with metadata, in System.Text.Json and Newtonsoft.Json."""


@dataclass(slots=True, eq=False)
class Node:
    """A value of a body. Places that refer to each other share one node, so that an action concerns all of them.

    :param text: the text that is compared and hashed: a number as it is written, ``true``, ``false``, or a text itself.
    :param members: members of an object, or items of a list, whose names are empty.
    :param source: the value in the tree of the format.
    :param is_element: whether it is an element of XML.
    :param has_elements: whether it has elements of XML, so that it may be a list of them.
    :param is_list_like: whether these look like the items of a list.
    :param action: the strictest action of the paths that reach it.
    :param pruned: whether only listed members stay.
    """

    kind: Kind
    text: str = ""
    members: list[Member] = field(default_factory=list)
    source: Any = None
    is_element: bool = False
    has_elements: bool = False
    is_list_like: bool = False
    action: RedactionAction | None = None
    pruned: bool = False

    def leaves(self) -> Iterator[Node]:
        """Yield the values below that are not null, each as often as it is a place."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            if node.kind in ("object", "list"):
                waiting.extend(member.node for member in node.members)
            elif node.kind != "null":
                yield node


@dataclass(slots=True, eq=False)
class Member:
    """A member of an object, or an item of a list. ``dropped``: no list of a rule keeps it."""

    name: str
    node: Node
    dropped: bool = False

    @property
    def is_removed(self) -> bool:
        return self.dropped or (self.node.action is not None and self.node.action.removes)


@dataclass(frozen=True)
class FieldActions:
    """Actions on the fields of a body.

    :param actions: paths with their actions.
    :param kept: for each rule that keeps only what is listed, the paths that stay.
    """

    actions: tuple[tuple[FieldPath, RedactionAction], ...] = ()
    kept: tuple[tuple[FieldPath, ...], ...] = ()

    @classmethod
    def of(cls, rules: Iterable[RedactionRule]) -> FieldActions:
        """Put the rules of one message together. Raises :class:`ConfigurationError` for an unknown action."""
        actions, kept = [], []
        for rule in rules:
            own = [(path, find_action(action, "fields")) for path, action in rule.fields]
            actions += own
            if rule.keep_fields is not None:
                kept.append((*rule.keep_fields, *(path for path, action in own if not action.removes)))
        return cls(tuple(actions), tuple(kept))

    def __bool__(self) -> bool:
        return bool(self.actions or self.kept)


@dataclass
class FieldChanges:
    """Fields of one body that rules reach.

    :param found: paths with the strictest of their actions; ``*`` for what no list of a rule keeps.
    :param misplaced: paths that name a field of an object where another value stands.
    """

    found: dict[str, str] = field(default_factory=dict)
    misplaced: set[str] = field(default_factory=set)


class _Way(NamedTuple):
    """A path on its way through a body: the number of its steps that are taken.

    ``is_in_list``: the elements of the one that it has reached may be the items of a list, and are no step.
    """

    path: FieldPath
    action: RedactionAction
    taken: int = 0
    is_in_list: bool = False

    @property
    def rest(self) -> tuple[PathStep, ...]:
        return self.path.steps[self.taken :]


class Body(Protocol):
    """The nodes of a body: its root, and those of its messages, whose fields have paths from there."""

    root: Node
    messages: Sequence[Node]


def mark(body: Body, actions: FieldActions) -> FieldChanges:
    """Mark what rules reach in a body: nodes with actions, and members that are dropped."""
    marking = _Marking()
    for root in dict.fromkeys((body.root, *body.messages)):
        marking.visit(root, [_Way(*pair) for pair in actions.actions], None)
    for kept in actions.kept:
        paths = [path.steps for path in kept]
        removed = [_prune(message, paths) for message in body.messages]
        if body.root is not body.messages[0]:
            removed.append(_prune_wrapper(body.root))
        if any(removed):
            marking.changes.found["*"] = "drop"
    return marking.changes


class _Marking:
    def __init__(self) -> None:
        self.changes = FieldChanges()

    def visit(
        self,
        node: Node,
        ways: Sequence[_Way],
        action: RedactionAction | None,
        of_members: RedactionAction | None = None,
    ) -> None:
        """Mark a node that paths have reached, and what is below it.

        ``action`` concerns the node and all below it, because another place may refer to something there.
        """
        if action is not None:
            node.action = stricter(node.action, action)
        inherited = stricter(action, of_members)
        if node.kind not in ("object", "list"):
            if node.kind != "null":
                self._reach_value(node, ways)
            return
        if not (ways or inherited):
            return
        for member in node.members:
            if node.kind == "list" or (member.name == VALUES and member.node.kind == "list"):
                self.visit(member.node, ways, inherited)
            else:
                self._step(node, member, ways, inherited)

    def _step(self, node: Node, member: Member, ways: Sequence[_Way], inherited: RedactionAction | None) -> None:
        """Go on with the paths that name a member, and with those that go through a list of elements."""
        child, is_element = member.node, node.has_elements and member.name[0] not in "@#"
        is_text = node.is_element and member.name == TEXT
        ahead: list[_Way] = []
        of_members: RedactionAction | None = None
        for way in ways:
            step, is_last = way.path.steps[way.taken], way.taken + 1 == len(way.path.steps)
            if way.is_in_list and is_element:
                ahead.append(way._replace(is_in_list=False))
            if is_text and not (is_last and step.matches(TEXT)):
                ahead.append(way)
                continue
            if not step.matches(member.name):
                continue
            is_list = child.has_elements and (step.each or child.is_list_like)
            if not is_last:
                ahead.append(way._replace(taken=way.taken + 1, is_in_list=is_list))
                continue
            self._find(way)
            if is_list and step.each:
                of_members = stricter(of_members, way.action)
            else:
                inherited = stricter(inherited, way.action)
        if len(ahead) > len(ways):
            ahead = list(dict.fromkeys(ahead))
        if ahead or inherited or of_members:
            self.visit(child, ahead, inherited, of_members)

    def _reach_value(self, node: Node, ways: Sequence[_Way]) -> None:
        """Mark a value that is no object, and where paths still have steps to go."""
        for way in ways:
            last = way.rest[0].name or "" if len(way.rest) == 1 else ""
            if last.startswith("@"):
                continue
            node.action = stricter(node.action, way.action)
            self._find(way)
            if last != TEXT:
                self.changes.misplaced.add(way.path.text)

    def _find(self, way: _Way) -> None:
        known = self.changes.found.get(way.path.text)
        if known is None or stricter(find_action(known, "fields"), way.action) is way.action:
            self.changes.found[way.path.text] = way.action.name


def _prune(node: Node, paths: Sequence[tuple[PathStep, ...]]) -> bool:
    """Drop the members that no path leads to, also those of the items of a list; True if one was dropped."""
    node.pruned, removed = True, node.kind == "text"
    for member in node.members:
        child, is_item = member.node, node.kind == "list"
        if is_item or (member.name == VALUES and child.kind == "list"):
            rest = list(paths)
        else:
            rest = [rest for path in paths for rest in _after(path, member, node)]
        if () in rest:
            continue
        if rest and child.kind in ("object", "list", "null"):
            removed |= _prune(child, rest)
        else:
            member.dropped = removed = True
    return removed


def _prune_wrapper(root: Node) -> bool:
    """Drop the attributes and the text of an element of messages; True if there are some."""
    root.pruned = True
    own = [member for member in root.members if member.name[0] in "@#"]
    for member in own:
        member.dropped = True
    return bool(own)


def _after(path: tuple[PathStep, ...], member: Member, node: Node) -> Iterator[tuple[PathStep, ...]]:
    """Yield the paths that go on below a member; an item of a list of elements may have any name."""
    if path[0].keeps(member.name):
        yield path[1:]
        if path[0].each and member.node.has_elements and len(path) > 1:
            yield (PathStep(None), *path[1:])
