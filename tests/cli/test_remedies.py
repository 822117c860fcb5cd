"""Commands that errors, logs and hints of the package print for people to copy."""

from __future__ import annotations

import ast
import re
import shlex
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import airflow_sqlqueue
from airflow_sqlqueue.cli.app import app
from tests.cli.runner import one_sentence, sqlqueue

ROOT = Path(airflow_sqlqueue.__file__).parent
DOCS = ROOT.parent / "docs"

_PRINTED = re.compile(r"'(sqlqueue [a-z][^']*)'")


def texts() -> Iterator[str]:
    """Yield the texts of files that name a command; a value that is filled in stands in angle brackets."""
    for file in ROOT.rglob("*"):
        if file.suffix not in {".py", ".sql", ".js", ".html"} or "sqlqueue " not in (source := file.read_text()):
            continue
        if file.suffix == ".py":
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.JoinedStr):
                    parts = (
                        p.value if isinstance(p, ast.Constant) else f"<{ast.unparse(p.value)}>" for p in node.values
                    )
                    yield "".join(map(str, parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
        else:
            yield source


PRINTED = sorted({command for text in texts() for command in _PRINTED.findall(text)})


def filled(command: str) -> list[str]:
    """Return the words of a command, with an id, a time or a name in the place of each value."""

    def value(word: re.Match[str]) -> str:
        return str(uuid.uuid4()) if word[0].endswith("id>") else "1d" if word[0] == "<time>" else "name"

    return shlex.split(re.sub(r"<[^>]*>", value, command))


def test_printed_commands_are_found() -> None:
    """No text names a command in another form, which the next test would not find."""
    assert {filled(command)[1] for command in PRINTED} >= {"abandon", "copies", "create", "drain", "drop", "requeue"}
    names = "|".join(command.name or "" for command in app.registered_commands)
    elsewhere = re.compile(rf"(?<!')\bsqlqueue ({names}) [-<a-z]")
    assert [text for text in texts() if elsewhere.search(text)] == []


@pytest.mark.parametrize("command", PRINTED)
def test_a_printed_command_runs(server: Any, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets as far as the login, which is refused: no argument is missing, and no option is unknown."""
    monkeypatch.chdir(tmp_path)
    url = f"mssql://nobody:x@{server.host}:{server.port}/sqlqueue?Encrypt=no"
    assert "refused the login 'nobody'" in one_sentence(sqlqueue(*filled(command)[1:], url=url), 1)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_a_command_in_a_sentence_of_the_manual_exists(page: Path) -> None:
    root = get_command(app)
    for command in re.findall(r"`sqlqueue ([a-z][^`]*)`", page.read_text()):
        word, *rest = command.split()
        assert word in root.commands, command
        node = root.commands[word]
        if isinstance(node, TyperGroup) and rest:
            node, rest = node.commands[rest[0]], rest[1:]
        known = {"--help"} | {
            name for parameter in node.params for name in (*parameter.opts, *parameter.secondary_opts)
        }
        assert {each.rstrip(",") for each in rest if each.startswith("--")} <= known, command
