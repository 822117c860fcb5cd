"""Options of an operation as options of its command, made from the fields of their dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Annotated, Any, Optional, TypeVar

import typer

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import BYTES, Option, Options, plain

T = TypeVar("T", bound=Options)

_TYPES = {"bool": bool, "int": int, "float": float, "int | None": Optional[int], "float | None": Optional[float]}
"""Types of typer by those of fields; all others are given as texts."""


def parameters_of(kind: type[Options]) -> Iterator[inspect.Parameter]:
    """Yield a parameter for typer for each option that the command line has; a flag is off unless it is given."""
    flags = {each.name: (each.flag or "").partition("/")[0] for each in _options(kind)}
    for each in _options(kind):
        hint = Optional[str] if _is_written(each) else _TYPES[each.type]
        about = typer.Option(each.flag, help=plain(each.text, lambda word: flags.get(word, word)))
        default = False if each.type == "bool" else each.words(each.default) if _is_written(each) else each.default
        yield inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, about]
        )


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
