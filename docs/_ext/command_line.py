"""The directive ``command-line``: a section for each command of ``sqlqueue``, from the typer app itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def commands() -> dict[str, Any]:
    """The commands by name, in the order in which ``sqlqueue --help`` lists them."""
    from typer.main import get_command

    from airflow_sqlqueue.cli.app import app

    return dict(get_command(app).commands)  # type: ignore[attr-defined]


def lines_for(name: str, command: Any) -> Iterator[str]:
    """One command in reStructuredText: its usage, what it does, its arguments and options."""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    words = [each.human_readable_name.upper() for each in arguments]
    usage = " ".join(["sqlqueue", name, *(_shown(each, word) for each, word in zip(arguments, words, strict=True))])
    yield from (name, "-" * len(name), "", "::", "", f"    {usage} [OPTIONS]", "", command.help or "", "")
    for each, word in zip(arguments, words, strict=True):
        yield from (f"``{word}``", f"   {_sentence(each)}", "")
    for each in options:
        flags = ", ".join(f"``{flag}``" for flag in (*each.opts, *each.secondary_opts) if flag)
        yield from (f"{flags}{_value(each)}", f"   {_sentence(each)}", "")


def _shown(argument: Any, word: str) -> str:
    word = f"{word}..." if argument.nargs == -1 else word
    return word if argument.required else f"[{word}]"


def _value(option: Any) -> str:
    if option.is_flag or option.count:
        return ""
    return f" *{option.type.name}*" + (", any number of times" if option.multiple else "")


def _sentence(parameter: Any) -> str:
    text = str(parameter.help or "").replace("*", "\\*").replace("|", "\\|")
    default = parameter.default
    if default not in (None, False, "", ()) and not callable(default):
        text += f" Default: ``{default}``."
    if parameter.required and parameter.param_type_name == "option":
        text += " Required."
    if variable := getattr(parameter, "envvar", None):
        text += f" Also read from the environment variable ``{variable}``."
    return text or "."


class CommandLine(SphinxDirective):
    """``.. command-line::`` at the place where the sections shall stand."""

    def run(self) -> list[nodes.Node]:
        text = [line for name, command in commands().items() for line in lines_for(name, command)]
        return self.parse_text_to_nodes(StringList(text, source="sqlqueue --help"), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True}
