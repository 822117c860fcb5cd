"""Directive ``command-line``: a section for each command of ``sqlqueue``, with the text of ``--help``."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

WIDTH = 100


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield each command's name and help, in the order of ``sqlqueue --help``."""
    from typer.testing import CliRunner

    from airflow_sqlqueue.cli.app import app

    # Without rich it is plain text, which does not depend on a terminal.
    with patch.object(app, "rich_markup_mode", None):
        for command in app.registered_commands:
            name = command.name or command.callback.__name__  # type: ignore[union-attr]
            done = CliRunner().invoke(app, [name, "--help"], prog_name="sqlqueue", terminal_width=WIDTH)
            if done.exit_code != 0:
                raise RuntimeError(f"sqlqueue {name} --help: {done.output}")
            yield name, done.stdout


def section(name: str, text: str) -> list[str]:
    """Section of a command in reStructuredText."""
    return [name, "~" * len(name), "", "::", "", *(f"    {line}".rstrip() for line in text.strip().splitlines()), ""]


class CommandLine(SphinxDirective):
    """Sections of all commands, at the place of ``.. command-line::``."""

    def run(self) -> list[nodes.Node]:
        lines = [line for name, text in help_texts() for line in section(name, text)]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True}
