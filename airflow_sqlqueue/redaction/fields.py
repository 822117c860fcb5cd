"""Fields that the paths of rules reach in a body of any format: one walk decides for the redaction and the erasure.

A path goes through every list on its way. It also reaches a value that stands where it names an object, such as an
object that is written as JSON in a text: that value may hold the field. Source: docs/guides/redaction.md, "The rules".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from airflow_sqlqueue.bodies.tree import TEXT
from airflow_sqlqueue.redaction.actions import ACTIONS, RedactionAction, find_action, stricter
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

    found: dict[str, RedactionAction] = field(default_factory=dict)
    misplaced: set[str] = field(default_factory=set)

    def add(self, path: str, action: RedactionAction) -> None:
        self.found[path] = stricter(self.found.get(path, action), action)


class _Way(NamedTuple):
    """A path on its way through a body, and the rest of its steps.

    ``is_in_list``: the elements of the one that it has reached may be the items of a list, and are no step.
    """

    path: FieldPath
    action: RedactionAction
    rest: tuple[PathStep, ...]
    is_in_list: bool = False


class Body(Protocol):
    """The nodes of a body: its root, and those of its messages, whose fields have paths from there."""

    root: Node
    messages: Sequence[Node]


def mark(body: Body, actions: FieldActions) -> FieldChanges:
    """Mark what rules reach in a body: nodes with actions, and members that are dropped."""
    marking = _Marking()
    for root in dict.fromkeys((body.root, *body.messages)):
        marking.visit(root, [_Way(path, action, path.steps) for path, action in actions.actions])
    for kept in actions.kept:
        removed = [_prune(message, [path.steps for path in kept]) for message in body.messages]
        if body.root is not body.messages[0]:
            removed.append(_prune(body.root, None))
        if any(removed):
            marking.changes.add("*", ACTIONS["drop"])
    return marking.changes


class _Marking:
    def __init__(self) -> None:
        self.changes = FieldChanges()

    def visit(
        self,
        node: Node,
        ways: Sequence[_Way],
        action: RedactionAction | None = None,
        of_members: RedactionAction | None = None,
    ) -> None:
        """Mark a node that paths have reached, and what is below it.

        ``action`` concerns the node and all below it, because another place may refer to something there.
        """
        node.action = stricter(node.action, action)
        inherited = stricter(action, of_members)
        if node.kind in ("object", "list"):
            for member in node.members if ways or inherited else ():
                if node.kind == "list":
                    self.visit(member.node, ways, inherited)
                else:
                    self._step(node, member, ways, inherited)
        elif node.kind != "null":
            self._reach_value(node, ways)

    def _step(self, node: Node, member: Member, ways: Sequence[_Way], inherited: RedactionAction | None) -> None:
        """Go on with the paths that name a member, and with those that go through a list."""
        child, of_members = member.node, None
        is_element = node.has_elements and member.name[0] not in "@#"
        is_text = node.is_element and member.name == TEXT
        ahead = list(ways) if _is_items(member) else []
        for way in ways:
            step, rest = way.rest[0], way.rest[1:]
            if way.is_in_list and is_element:
                ahead.append(way._replace(is_in_list=False))
            if is_text and (rest or not step.matches(TEXT)):
                ahead.append(way)
            elif step.matches(member.name):
                is_list = child.has_elements and (step.each or child.is_list_like)
                if rest:
                    ahead.append(way._replace(rest=rest, is_in_list=is_list))
                    continue
                self.changes.add(way.path.text, way.action)
                if is_list and step.each:
                    of_members = stricter(of_members, way.action)
                else:
                    inherited = stricter(inherited, way.action)
        if ahead or inherited or of_members:
            self.visit(child, list(dict.fromkeys(ahead)) if len(ahead) > len(ways) else ahead, inherited, of_members)

    def _reach_value(self, node: Node, ways: Sequence[_Way]) -> None:
        """Mark a value that is no object, and where paths still have steps to go."""
        for way in ways:
            last = (way.rest[0].name or "") if len(way.rest) == 1 else ""
            if not last.startswith("@"):
                node.action = stricter(node.action, way.action)
                self.changes.add(way.path.text, way.action)
                if last != TEXT:
                    self.changes.misplaced.add(way.path.text)


def _is_items(member: Member) -> bool:
    return member.name == VALUES and member.node.kind == "list"


def _prune(node: Node, paths: Sequence[tuple[PathStep, ...]] | None) -> bool:
    """Drop the members that no path leads to, also those of the items of a list; True if one was dropped.

    None stands for the paths to all elements.
    """
    node.pruned, removed = True, node.kind == "text"
    for member in node.members:
        child = member.node
        if paths is None:
            rest: list[tuple[PathStep, ...]] = [()] if member.name[0] not in "@#" else []
        elif node.kind == "list" or _is_items(member):
            rest = list(paths)
        else:
            rest = [rest for path in paths for rest in _after(path, member)]
        if () in rest:
            continue
        if rest and child.kind in ("object", "list", "null"):
            removed |= _prune(child, rest)
        else:
            member.dropped = removed = True
    return removed


def _after(path: tuple[PathStep, ...], member: Member) -> Iterator[tuple[PathStep, ...]]:
    """Yield the paths that go on below a member; an item of a list of elements may have any name."""
    if path[0].keeps(member.name):
        yield path[1:]
        if path[0].each and member.node.has_elements and len(path) > 1:
            yield (PathStep(None), *path[1:])
