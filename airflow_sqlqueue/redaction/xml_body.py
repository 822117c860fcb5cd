"""Redaction of XML: elements are changed by their paths, at their places in the text; the rest stays as it is.

The steps of a path are local names of elements below the element of the message. A list is an element with an element
for each item, so a step that is marked as a list (``Lines[]``) stands for the element and for each element in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from airflow_sqlqueue.bodies.tree import MAX_DEPTH, MAX_NODES
from airflow_sqlqueue.errors import BodyError
from airflow_sqlqueue.redaction.actions import MASK, FieldActions, Hasher
from airflow_sqlqueue.redaction.paths import PathStep

_XSI = "http://www.w3.org/2001/XMLSchema-instance "


@dataclass
class _Node:
    """Element and its places in the bytes of the text: of its start tag, its content, and its end."""

    name: str
    attributes: list[str]
    start: int
    nil: bool = False
    inner: int = 0
    inner_end: int = 0
    end: int = 0
    children: list[_Node] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


@dataclass
class XmlRedaction:
    """Redaction of one XML text. ``changed`` has the paths that were found, each with its action."""

    actions: FieldActions
    hasher: Hasher
    changed: dict[str, str] = field(default_factory=dict)

    def apply(self, text: str) -> str:
        """Return the redacted text, the same one if no field was found. Raises :class:`BodyError`.

        The reason is ``attribute`` where an attribute may hold a field that a rule names.
        """
        data = text.encode()
        root = _Parser(data).root
        self._edits: list[tuple[int, int, bytes]] = []
        for path, action in self.actions.actions:
            for node in _found(root, path.steps):
                self.changed[path.text] = action
                self._edit(node, action)
        self._check_attributes(root)
        for kept in self.actions.kept:
            self._prune_all(data, root, [path.steps for path in kept])
        return _edited(data, self._edits).decode()

    def _edit(self, node: _Node, action: str) -> None:
        if action == "drop":
            self._edits.append((node.start, node.end, b""))
            return
        if node.attributes:
            raise BodyError("attribute")
        if node.nil or node.inner == node.inner_end:
            return
        text = "" if node.children else MASK if action == "mask" else self.hasher("".join(node.texts))
        # An edit that comes later, and is stricter, replaces one of the same place.
        self._edits = [edit for edit in self._edits if edit[:2] != (node.inner, node.inner_end)]
        self._edits.append((node.inner, node.inner_end, text.encode()))

    def _check_attributes(self, root: _Node) -> None:
        last = [path.steps[-1] for path, _ in self.actions.actions]
        waiting = [root]
        while last and waiting:
            node = waiting.pop()
            if any(step.matches(name) for step in last for name in node.attributes):
                raise BodyError("attribute")
            waiting.extend(node.children)

    def _prune_all(self, data: bytes, root: _Node, paths: list[tuple[PathStep, ...]]) -> None:
        """Remove what no path leads to, and all comments, between the elements that stay and around the root."""
        declaration = data.find(b"?>") + 2 if data.startswith(b"<?xml") else 0
        around = [(declaration, root.start), (root.end, len(data))]
        message = root
        if root.name == "Messages" and len(root.children) == 1:
            message = root.children[0]
            if root.attributes:
                raise BodyError("attribute")
            around += [(root.inner, message.start), (message.end, root.inner_end)]
        for start, end in around:
            self._remove(data, start, end)
        self._prune(data, message, paths)

    def _prune(self, data: bytes, node: _Node, paths: list[tuple[PathStep, ...]]) -> None:
        if node.attributes:
            raise BodyError("attribute")
        position = node.inner
        for child in node.children:
            rest = [rest for path in paths for rest in _after(path, child.name)]
            if not rest:
                continue
            self._remove(data, position, child.start)
            position = child.end
            if () not in rest:
                self._prune(data, child, rest)
        self._remove(data, position, node.inner_end)

    def _remove(self, data: bytes, start: int, end: int) -> None:
        if data[start:end].strip():
            self.changed["*"] = "drop"
            self._edits.append((start, end, b""))


def xml_values(text: str, steps: tuple[PathStep, ...]) -> Iterator[str]:
    """Yield the texts of the elements without children at a path. Raises :class:`BodyError`."""
    for node in _found(_Parser(text.encode()).root, steps):
        if not node.children and not node.nil:
            yield "".join(node.texts)


def _after(path: tuple[PathStep, ...], name: str) -> Iterator[tuple[PathStep, ...]]:
    """Yield the paths that go on below a child; a list's item may have any name."""
    if path[0].matches(name):
        yield path[1:]
        if path[0].each and len(path) > 1:
            yield (PathStep(None), *path[1:])


def _found(root: _Node, steps: tuple[PathStep, ...]) -> list[_Node]:
    messages = [root, *root.children] if root.name == "Messages" else [root]
    return [node for message in messages for node in _below(message, steps)]


def _below(node: _Node, steps: tuple[PathStep, ...]) -> Iterator[_Node]:
    step, rest = steps[0], steps[1:]
    for child in node.children:
        if not step.matches(child.name):
            continue
        if rest:
            for each in [child, *(child.children if step.each else ())]:
                yield from _below(each, rest)
        else:
            yield from child.children if step.each and child.children else [child]


def _edited(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """Return the bytes with all edits; one that lies within another has no effect."""
    pieces, position = [], 0
    for start, end, replacement in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if start >= position:
            pieces += [data[position:start], replacement]
        position = max(position, end)
    return b"".join([*pieces, data[position:]])


class _Parser:
    """Reads the elements of a text with their places; each event of the parser ends the token before it."""

    def __init__(self, data: bytes) -> None:
        self._top = _Node("", [], 0)
        self._open = [self._top]
        self._ended: Callable[[int], None] | None = None
        self._nodes = 0
        self._parser = parser = expat.ParserCreate("utf-8", " ")
        parser.buffer_text = False
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuse
        parser.CommentHandler = parser.ProcessingInstructionHandler = parser.DefaultHandler = self._other
        parser.StartCdataSectionHandler = parser.EndCdataSectionHandler = self._other
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            raise BodyError("xml") from error
        self._close(len(data))
        (self.root,) = self._top.children

    def _close(self, index: int) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(index)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        index = self._parser.CurrentByteIndex
        self._close(index)
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise BodyError("size")
        if len(self._open) > MAX_DEPTH:
            raise BodyError("depth")
        own = [each.rpartition(" ")[2] for each in attributes if not each.startswith(_XSI)]
        node = _Node(name.rpartition(" ")[2], own, index, attributes.get(f"{_XSI}nil") in ("true", "1"))
        self._open[-1].children.append(node)
        self._open.append(node)

        def ended(index: int) -> None:
            node.inner = index

        self._ended = ended

    def _end(self, name: str) -> None:
        index = self._parser.CurrentByteIndex
        self._close(index)
        node = self._open.pop()
        node.inner_end = index

        def ended(index: int) -> None:
            node.end = index

        self._ended = ended

    def _text(self, text: str) -> None:
        self._close(self._parser.CurrentByteIndex)
        self._open[-1].texts.append(text)

    def _other(self, *_: object) -> None:
        self._close(self._parser.CurrentByteIndex)

    def _refuse(self, *_: object) -> None:
        raise BodyError("xml")
