"""Typer's parts for this program: options and groups of them, headings in the help, and errors that name options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import wraps
from typing import Annotated, Any, Optional, TypeVar, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from airflow_sqlqueue.errors import ConfigurationError, SqlQueueError
from airflow_sqlqueue.messages.envelope.times import moment_of, parse_day
from airflow_sqlqueue.options import BYTES, Option, Options, interval, option_of, plain
from airflow_sqlqueue.queue.filters import TimeFilter

_OTHER_NAMES = {"time_to_be_received": "expire_after", "message_ids": "message_id"}
"""Names of the core, each with the parameter that has another name here."""

SYNONYMS = {
    **dict.fromkeys(("list", "ls", "status"), "queues"),
    **dict.fromkeys(("failures", "failed"), "errors"),
    "count": "depth",
    **dict.fromkeys(("show", "find", "search"), "peek"),
    "receive": "consume",
    "retry": "return",
    "move": "forward",
    "schema": "schemas",
    "export": "drain --copy",
    "batch": "batches",
    **dict.fromkeys(("clean", "cleanup", "delete-batches"), "sweep"),
}
"""Words that people try, each with the command that does it."""

OPTION_SYNONYMS = {
    "--list": ("--show",),
    "--id": ("--batch-id", "--batch", "--message-id", "--row-version"),
    "--file": ("--body", "--rules"),
    "--format": ("--json", "--csv"),
    "--output": ("--json", "--csv"),
    "--last": ("--since", "--older-than"),
    "--limit": ("--count", "--max-messages"),
    "--force": ("--yes",),
    "--group-by": ("--by",),
}
"""Options that people try, each with those that do it; a command may have one or several."""

TIMES = "2026-01-31, 2026-01-31T08:00Z, yesterday, or an age such as 12h or 7d"
"""Forms of a time in the help of its option."""

_FIRST_WORD = re.compile(r"^([a-z]+)(?= must| is)")
"""An option of one word: a sentence may use it as an ordinary word, so it is replaced only at its beginning."""


def with_option_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command for typer: each parameter whose type is a dataclass becomes one option for each of its
    fields, and one whose default is :func:`~airflow_sqlqueue.options.option` becomes that option.
    """
    hints = {name: _annotated(hint) for name, hint in get_type_hints(command, include_extras=True).items()}
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    members = {name: list(_parameters(kind)) for name, kind in groups.items()}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        parameters += members.get(name) or [parameter_of(name, parameter.default, hints[name])]
    times = {name: kind for name, hint in hints.items() for kind in _TIMES & {*get_args(hint)}}
    # By its text, because names of an annotation may be unknown where the program runs.
    named = {f"{kind.__name__} | None": kind for kind in _TIMES}
    times |= {each.name: named[each.type] for kind in groups.values() for each in fields(kind) if each.type in named}

    @wraps(command)
    def run(**given: Any) -> Any:
        now = datetime.now(timezone.utc)
        given |= {name: _time(name, kind, given[name], now) for name, kind in times.items() if name in given}
        made_of = {name: {each.name: given.pop(each.name) for each in members[name]} for name in groups}
        for name, kind in groups.items():
            given[name] = _made(kind, made_of[name])
        return command(**given)

    signature = inspect.Signature(parameters)
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _made(kind: Any, given: dict[str, Any]) -> Any:
    if issubclass(kind, TimeFilter):
        # An empty list is no condition, an empty text is one.
        return kind.of({name: value for name, value in given.items() if value or value == ""})
    return made(kind, given) if issubclass(kind, Options) else kind(**given)


_TIMES = {datetime, timedelta}


def _time(name: str, kind: type, text: Any, now: datetime) -> Any:
    """Return the datetime or the timedelta of an option; the age of a moment, which has begun before now."""
    option = f"--{name.replace('_', '-')}"
    if kind is datetime and text is not None:
        return moment_of(option, text, now)
    if name == "older_than" and isinstance(text, str) and (before := parse_day(text, now)) is not None:
        if before > now:
            raise ConfigurationError(f"{option} is a time that has not come yet: give an earlier one.")
        return now - before
    found = interval(option, text)
    if found is None and text is not None:
        raise ConfigurationError(f"{option} is empty: give a time as 90s, 30m, 12h or 7d.")
    return found


def _annotated(hint: Any) -> Any:
    """Return the hint without the Optional that Python 3.10 puts around that of a parameter whose default is None."""
    inner = [each for each in get_args(hint) if get_origin(each) is Annotated]
    return inner[0] if get_origin(hint) is Union and len(inner) == 1 else hint


def _parameters(group: Any) -> Iterable[inspect.Parameter]:
    """Return the parameters for the group's fields; one without a default is a required argument."""
    if issubclass(group, Options):
        return parameters_of(group)
    types, required = get_type_hints(group, include_extras=True), inspect.Parameter.empty
    return [
        parameter_of(
            field.name,
            field if field.metadata else required if field.default is MISSING else field.default,
            types[field.name],
        )
        for field in fields(group)
        if not field.metadata or option_of(field).flag is not None
    ]


T = TypeVar("T", bound=Options)

_TYPES = {"bool": bool, "int": int, "float": float, "int | None": Optional[int], "float | None": Optional[float]}
"""Types of typer by those of fields; all others are given as texts."""


def parameters_of(kind: type[Options]) -> Iterator[inspect.Parameter]:
    """Yield a parameter for typer for each option that the command line has; a flag is off unless it is given."""
    flags = {each.name: (each.flag or "").partition("/")[0] for each in _options(kind)}
    for each in _options(kind):
        hint = Optional[str] if _is_written(each) else _TYPES[each.type]
        about = plain(each.text, lambda word: flags.get(word, word))
        default = False if each.type == "bool" else each.words(each.default) if _is_written(each) else each.default
        metavar = each.metavar or ("TIME" if "timedelta" in each.type else "")
        yield _parameter(replace(each, metavar=metavar), hint, about, default)


def parameter_of(name: str, declared: Any, hint: Any) -> inspect.Parameter:
    """Return a parameter for typer: of an option that a command has itself, or of typer's own annotation."""
    if not isinstance(declared, Field):
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=declared, annotation=hint)
    each, kinds, meaning = option_of(declared, name), get_args(hint), declared.metadata["option"].meaning
    if _TIMES & {*kinds}:
        hint, each = Optional[str], replace(each, metavar=each.metavar or "TIME")
        meaning = meaning.partition(":")[0] + f": {TIMES}" if datetime in kinds and ":" in meaning else meaning
    elif kinds and get_origin(kinds[0]) is frozenset:
        hint, meaning = Optional[list[get_args(kinds[0])[0]]], f"{meaning}; any number of times"  # type: ignore[misc]
    elif type(None) in kinds:
        # As Optional, because typer does not know the types of Python 3.10's unions.
        hint = Optional[kinds[0]]
    return _parameter(each, hint, plain(meaning), each.default)


def _parameter(each: Option, hint: Any, about: str, default: Any) -> inspect.Parameter:
    annotation = Annotated[hint, typer.Option(each.flag, help=about, metavar=each.metavar or None)]
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def made(kind: type[T], given: dict[str, Any]) -> T:
    """Return the options that a command was given. Raises :class:`ConfigurationError`."""
    read = dict(given)
    for each in filter(_is_written, _options(kind)):
        read[each.name] = each.read(given[each.name], each.flag or "")
        if read[each.name] is None and given[each.name] is not None:
            raise ConfigurationError(f"{each.flag} is empty: give a value, or leave it out.")
    return kind(**read)


def words_of(options: Options) -> list[str]:
    """Return the options as a user types them, without those that have their defaults."""
    words = []
    for each in _options(type(options)):
        value, flag = vars(options)[each.name], (each.flag or "").partition("/")[0]
        if each.type == "bool":
            words += [flag] * value
        elif value != each.default:
            words += [flag, f"{each.words(value) if _is_written(each) else value}"]
    return words


def _options(kind: type[Options]) -> list[Option]:
    return [each for each in kind.described() if each.flag is not None]


def _is_written(each: Option) -> bool:
    return each.type not in _TYPES or each.unit == BYTES


class Command(TyperCommand):
    """A command whose errors say ``--max-messages`` where the core says ``max_messages``, except in quotes."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            tried = OPTION_SYNONYMS.get(str(getattr(error, "option_name", "")), ())
            own = [parameter for parameter in self.params if parameter.opts[0] in tried]
            if own:
                names, about = " or ".join(each.opts[0] for each in own), str(getattr(own[0], "help", ""))
                hint = f"{names}: {about}" if len(own) == 1 else f"{names}."
                ctx.fail(f"There is no option {error.option_name!r}: use {hint}")  # type: ignore[attr-defined]
            raise

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SqlQueueError as error:
            error.args = (self._with_options(str(error)), *error.args[1:])
            raise

    def _with_options(self, text: str) -> str:
        options = {str(p.name): p.opts[0] for p in self.params if p.opts and p.opts[0].startswith("--")}
        options |= {name: options[ours] for name, ours in _OTHER_NAMES.items() if ours in options}
        for name, option in options.items():
            if "_" in name:
                text = re.sub(rf"(?<![\w.'-]){name}(?![\w=-]|\.\w)", option, text)
        return _FIRST_WORD.sub(lambda found: options.get(found[1], found[1]), text)


class Group(TyperGroup):
    """The commands of the program, listed in the help under their headings."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and SYNONYMS.get(args[0], "").partition(" ")[0] in self.commands:
            ctx.fail(f"There is no command {args[0]!r}: use 'sqlqueue {SYNONYMS[args[0]]}'.")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands alone, each on one line, so that they fit a screen."""
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        width = max(len(name) for name, _ in commands)
        panels = dict.fromkeys(str(getattr(command, "rich_help_panel", "Commands")) for _, command in commands)
        formatter.write_paragraph()
        for panel in panels:
            formatter.write(f"{panel}:\n")
            with formatter.indentation():
                formatter.write_dl(
                    [
                        (name.ljust(width), command.get_short_help_str(formatter.width - width - 4))
                        for name, command in commands
                        if getattr(command, "rich_help_panel", None) == panel
                    ]
                )
