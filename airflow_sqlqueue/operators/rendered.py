"""Numbers, times, options and filters of templated arguments: a template renders to a text, such as ``"1000"``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    from airflow_sqlqueue.queue import MessageFilter

Number = TypeVar("Number", int, float)


def whole_number(name: str, value: Any) -> int | None:
    """A whole number; None for None and for an empty text. Raises :class:`ConfigurationError` for other values."""
    return _number(name, value, int, "a whole number")


def number(name: str, value: Any) -> float | None:
    """A number; None for None and for an empty text. Raises :class:`ConfigurationError` for other values."""
    return _number(name, value, float, "a number")


def interval_or(default: timedelta, name: str, value: Any) -> timedelta:
    """As :func:`interval`, with a default in place of None."""
    found = interval(name, value)
    return default if found is None else found


def interval(name: str, value: Any) -> timedelta | None:
    """A timedelta, from one or from a number of seconds; None for None and for an empty text.

    Raises :class:`ConfigurationError` for other values.
    """
    if isinstance(value, timedelta):
        return value
    seconds = _number(name, value, float, "a timedelta or a number of seconds")
    try:
        return None if seconds is None else timedelta(seconds=seconds)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"{name} is {quoted(str(value))}: that many seconds are no timedelta.") from error


def flag(name: str, value: Any) -> bool | None:
    """True or False, also as a text in any case; None for None and for an empty text.

    Raises :class:`ConfigurationError` for other values.
    """
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("", "none"):
        return None
    if text not in ("true", "false"):
        raise ConfigurationError(f"{name} is {quoted(str(value))}: give True or False.")
    return text == "true"


_READERS: dict[str, Callable[[str, Any], Any]] = {"int": whole_number, "float": number, "bool": flag}


def typed_options(name: str, kind: type[Any], values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Options of a dataclass, whose values may be texts that templates made; an empty text leaves its option out.

    ``name`` is the parameter's, ``kind`` the dataclass. Raises :class:`ConfigurationError` for a text that is no number
    or flag where the option is one, and for no mapping. Other values and unknown names are left as they are.
    """
    if not isinstance(values or {}, Mapping):
        raise ConfigurationError(f"{name} is a mapping of options, not {type(values).__name__}.")
    readers = {field.name: _READERS.get(str(field.type).removesuffix(" | None")) for field in fields(kind)}
    found = {}
    for option, value in (values or {}).items():
        read = readers.get(option)
        if read is None or not isinstance(value, str):
            found[option] = value
        elif (given := read(f"{name}[{option!r}]", value)) is not None:
            found[option] = given
    return found


def message_filter(filters: Mapping[str, Any] | None) -> MessageFilter | None:
    """A filter of messages from its conditions; None for None. Raises :class:`ConfigurationError`."""
    from airflow_sqlqueue.queue.filters import MessageFilter

    return None if filters is None else MessageFilter.of(filters)


def _number(name: str, value: Any, kind: Callable[[Any], Number], what: str) -> Number | None:
    text = value.strip() if isinstance(value, str) else value
    # A template of a missing value renders to the word None.
    if text is None or text in ("", "None"):
        return None
    try:
        if not isinstance(text, bool):
            found = kind(text)
            if isinstance(text, str) or found == text:
                return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise ConfigurationError(f"{name} is {quoted(str(value))}: give {what}.")
