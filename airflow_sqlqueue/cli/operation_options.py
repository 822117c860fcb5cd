"""Options of an operation, and those of a command itself, as options of the command line."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import Field
from datetime import datetime, timedelta
from typing import Annotated, Any, Optional, TypeVar, get_args, get_origin

import typer

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import BYTES, Option, Options, option_of, plain

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
        yield _parameter(each, hint, about, default)


def parameter_of(name: str, declared: Any, hint: Any) -> inspect.Parameter:
    """Return a parameter for typer: of an option that a command has itself, or of its own typer's annotation.

    A time is given as a text.
    """
    if not isinstance(declared, Field):
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=declared, annotation=hint)
    each, kinds, meaning = option_of(declared, name), get_args(hint), declared.metadata["option"].meaning
    if {timedelta, datetime} & {*kinds}:
        hint = Optional[str]
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
