"""How commands stand in the help, and how an error in one names what its caller can type."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

from airflow_sqlqueue.errors import SqlQueueError

_ELSEWHERE = {"time_to_be_received": "expire_after"}
"""Names of the core that are a parameter of another name here."""

_PLAIN_WORDS = re.compile(r"^(rate|workers|chunk|pause|limit)\b(?= must| is)")
"""Options of one word, which a sentence may use as a word, are meant where it begins with them."""


class Command(TyperCommand):
    """A command whose errors say ``--max-messages`` where the core says ``max_messages``, but not what is in quotes."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SqlQueueError as error:
            error.args = (self._with_options(str(error)), *error.args[1:])
            raise

    def _with_options(self, text: str) -> str:
        options = {str(p.name): p.opts[0] for p in self.params if p.opts and p.opts[0].startswith("--")}
        options |= {name: options[ours] for name, ours in _ELSEWHERE.items() if ours in options}
        for name, option in options.items():
            if "_" in name:
                text = re.sub(rf"(?<![\w.'-]){name}(?![\w=-]|\.\w)", option, text)
        return _PLAIN_WORDS.sub(lambda found: options.get(found[1], found[1]), text)


class Group(TyperGroup):
    """The commands under the headings that they were given."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        width = max(len(name) for name, _ in commands)
        panels = dict.fromkeys(str(getattr(command, "rich_help_panel", "Commands")) for _, command in commands)
        for panel in panels:
            rows = [
                (name.ljust(width), command.get_short_help_str(200))
                for name, command in commands
                if getattr(command, "rich_help_panel", None) == panel
            ]
            with formatter.section(panel):
                formatter.write_dl(rows)
