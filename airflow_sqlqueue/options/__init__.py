"""Options of operations: a field of a dataclass with its meaning, unit and limits.

Docstrings, the options of operators, those of the command line, and the checks of values are made from it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields, replace
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, ClassVar, TypeVar

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.untrusted import quoted

T = TypeVar("T", bound="Options")
Kind = TypeVar("Kind")
Number = TypeVar("Number", int, float)

BYTES = "bytes"
"""Unit of an option that takes sizes, such as ``16MiB``."""

_SIZES = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "": 1}
_TIMES = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SIZE = re.compile(r"\s*(\d{1,18})\s*(GiB|MiB|KiB|)")
_AGE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[smhd])")
MOST_SECONDS = 1_000_000_000
"""The most seconds of a wait, some 30 years: Python's functions that wait take no more than 292 years."""

_NUMBERS = ("int", "float")
"""Types whose values stand for each other."""
_LITERAL = re.compile(r"``([^`]*)``")


@dataclass(frozen=True)
class Option:
    """Option of an operation.

    :param meaning: one or two plain sentences, without a capital letter at the start and a full stop at the end, for
        docs and for ``--help``; words in double backticks are literals.
    :param unit: :data:`BYTES`, or nothing.
    :param choices: the texts that it takes.
    :param least: the least value.
    :param most: the most value.
    :param above: a value that it has to be above.
    :param because: the reason for these limits, for errors.
    :param form: its form on the command line if that is not ``--name``; ``/`` for a pair with ``--no-name``; None if it
        has none there.
    :param metavar: the word for its value in ``--help``.
    :param in_mapping: False: operators and commands give it from an argument of their own, or not at all.
    """

    meaning: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    least: Any = None
    most: Any = None
    above: Any = None
    because: str = ""
    form: str | None = ""
    metavar: str = ""
    in_mapping: bool = True
    name: str = ""
    type: str = ""
    default: Any = None

    @property
    def flag(self) -> str | None:
        """The option on the command line, or None."""
        word = self.name.replace("_", "-")
        return f"--{word}/--no-{word}" if self.form == "/" else f"--{word}" if self.form == "" else self.form

    @property
    def text(self) -> str:
        """The meaning, with the choices and the limits that it does not name itself."""
        text, choices = self.meaning, [f"``{choice}``" for choice in self.choices]
        if any(choice not in text for choice in choices):
            text += f": {', '.join(choices[:-1])} or {choices[-1]}"
        return text if self.most is None else f"{text}; {self.limits}"

    @property
    def sentence(self) -> str:
        """The meaning for a docstring, with a default that the signature has as a plain number."""
        is_number = self.unit == BYTES or isinstance(self.default, timedelta)
        return f"{self.text}{f', {self.words(self.default)} by default' if is_number and self.default else ''}."

    @property
    def limits(self) -> str:
        """The limits of the value in words."""
        most = "" if self.most is None else self.words(self.most)
        if self.above is not None:
            return f"more than {self.words(self.above)}" + (most and f", up to {most}")
        return f"{self.words(self.least)} to {most}" if most else f"{self.words(self.least)} or more"

    def words(self, value: Any) -> Any:
        """Return a value as a person writes it: ``16MiB``, ``7d``, ``2,000``; None as it is."""
        if isinstance(value, timedelta):
            return _in_units(value.total_seconds(), _TIMES)
        if value is None or isinstance(value, str):
            return value
        return _in_units(value, _SIZES) if self.unit == BYTES else f"{value:,}"

    def read(self, value: Any, name: str = "") -> Any:
        """Return the value of a text, as templates and the command line give it, or of another; empty gives None."""
        reader = _READERS.get(self.unit or self.type.removesuffix(" | None"))
        return value if reader is None else reader(name or self.name, value)

    def check(self, value: Any) -> None:
        """Raise :class:`ConfigurationError` for a value of another kind, or outside of the choices or the limits."""
        if value is None:
            return
        if self.choices and value not in self.choices:
            raise ConfigurationError(f"{self.name} is {quoted(str(value))}: choose one of {', '.join(self.choices)}.")
        check_type(self.name, self.type, value)
        above, least, most = self.above, self.least, self.most
        try:
            # Not a number is beyond every limit.
            is_within = (
                (above is None or value > above)
                and (least is None or value >= least)
                and (most is None or value <= most)
            )
        except TypeError:
            kind = self.type.removesuffix(" | None")
            raise ConfigurationError(f"{self.name} is {quoted(str(value))}: give a value of type {kind}.") from None
        if self.type.startswith("int") and value % 1:
            raise ConfigurationError(f"{self.name} is {quoted(str(value))}: give a whole number.")
        if not is_within:
            reason = self.because or ("leave it out for no limit" if self.default is None else "")
            raise ConfigurationError(f"{self.name} must be {self.limits}{reason and f': {reason}'}.")
        # Seconds, or a rate, whose reciprocal is the seconds for a message.
        if self.type.startswith("float") and value and not 1 / MOST_SECONDS <= value <= MOST_SECONDS:
            raise ConfigurationError(
                f"{self.name} is {quoted(str(value))}: give a number from 0.000000001 to {MOST_SECONDS:,}."
            )


def option(
    default: Any,
    meaning: str,
    *,
    repr: bool = True,  # noqa: A002
    hash: bool | None = None,  # noqa: A002
    **description: Any,
) -> Any:
    """Return a field of a dataclass of options, with the description of an :class:`Option`."""
    return field(default=default, repr=repr, hash=hash, metadata={"option": Option(meaning, **description)})


def argument(default: Any, meaning: str, *, repr: bool = True) -> Any:  # noqa: A002
    """Return a field that operators and commands give from an argument of their own, or not at all."""
    return option(default, meaning, repr=repr, form=None, in_mapping=False)


def option_of(each: Field[Any], name: str = "") -> Option:
    """Return the option of a field; that of a class that is no dataclass yet, or of a command, has no name."""
    found: Option = each.metadata["option"]
    return replace(found, name=each.name or name, type=str(each.type), default=each.default)


def describe_fields(kind: type[Kind]) -> type[Kind]:
    """Put the parameters of fields with an :func:`option` into the docstring of a class that is no dataclass yet."""
    if kind.__doc__:
        known = [vars(base).get("__dataclass_fields__", {}) for base in reversed(kind.__mro__)]
        known.append({name: value for name, value in vars(kind).items() if isinstance(value, Field)})
        found = {name: each for named in known for name, each in named.items() if each.metadata}
        lines = [f":param {name}: {option_of(each).sentence}" for name, each in found.items()]
        kind.__doc__ = "\n".join((inspect.cleandoc(kind.__doc__), "", *lines, ""))
    return kind


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base class of options, whose docstrings get their parameters from the fields.

    Raises :class:`ConfigurationError` for a value that an option does not take.
    """

    parameter: ClassVar[str] = "options"
    """The parameter of operators that takes these options as a mapping: ``drain_options`` for ``DrainOptions``."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "parameter" not in vars(cls):
            cls.parameter = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
        describe_fields(cls)

    def __post_init__(self) -> None:
        for each in self.described():
            each.check(vars(self)[each.name])

    @classmethod
    def described(cls) -> list[Option]:
        """Return the options in order."""
        return [option_of(each) for each in fields(cls)]

    @classmethod
    def check_names(cls, values: Mapping[str, Any]) -> None:
        """Raise :class:`ConfigurationError` for a name of no option, with the names that are like it."""
        check_names(
            values, [each.name for each in cls.described() if each.in_mapping], f"{cls.parameter} has no option"
        )

    @classmethod
    def of(cls: type[T], values: Mapping[str, Any] | T | None, **arguments: Any) -> T:
        """Make options of a mapping, or of options, and of arguments that were given beside it; None is not given.

        Values may be texts, as templates make them; an empty text leaves its option out. Raises
        :class:`ConfigurationError` for an unknown option, one that is given twice, and a value that an option does not
        take.
        """
        if isinstance(values, Options):
            values = values.changed()
        elif not isinstance(values or {}, Mapping):
            raise ConfigurationError(f"{cls.parameter} is a mapping of options, not {type(values).__name__}.")
        else:
            cls.check_names(values or {})
        known = {each.name: each for each in cls.described()}
        read = [(name, known[name].read(value, f"{cls.parameter}[{name!r}]")) for name, value in (values or {}).items()]
        read += [(name, known[name].read(value)) for name, value in arguments.items()]
        given = [(name, value) for name, value in read if value is not None]
        names = [name for name, _ in given]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ConfigurationError(f"{twice[0]} is given twice, by itself and in {cls.parameter}: give it once.")
        return cls(**dict(given))

    @classmethod
    def or_default(cls: type[T], options: T | None) -> T:
        """Return the options, for None the defaults. Raises :class:`ConfigurationError` for other values."""
        if options is None:
            return cls()
        check_type(cls.parameter, cls.__name__, options)
        return options

    def changed(self) -> dict[str, Any]:
        """Return the options whose values are not their defaults."""
        given = vars(self)
        return {each.name: given[each.name] for each in self.described() if given[each.name] != each.default}


def check_names(names: Iterable[Any], known: Sequence[str], says: str) -> None:
    """Raise :class:`ConfigurationError` for a name that is not known, with those like it; ``says`` begins its text."""
    for name in names:
        if name not in known:
            near = get_close_matches(str(name), known, n=2)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"choose from {', '.join(known)}."
            raise ConfigurationError(f"{says} {quoted(str(name))}: {hint}")


def check_type(name: str, kind: str, value: Any) -> None:
    """Raise :class:`ConfigurationError` for a value of another type than the annotation says; numbers are not checked.

    An annotation that is more than a name, such as a tuple of others, is not checked either.
    """
    wanted, given = kind.removesuffix(" | None").rpartition(".")[2], type(value)
    if wanted.isidentifier() and wanted not in _NUMBERS and wanted not in [each.__name__ for each in given.__mro__]:
        raise ConfigurationError(f"{name} is a value of type {given.__name__}: give one of type {wanted}.")


def plain(text: str, replace: Callable[[str], str] = str) -> str:
    """Return a meaning as a sentence for a terminal; ``replace`` gets each literal without its backticks."""
    start = text[:1] if text.startswith("`") else text[:1].upper()
    return _LITERAL.sub(lambda found: replace(found[1]), f"{start}{text[1:]}.")


def whole_number(name: str, value: Any) -> int | None:
    """Return a whole number; None for None and for an empty text. Raises :class:`ConfigurationError` for others."""
    return _number(name, value, int, "a whole number")


def whole_numbers(name: str, values: Any) -> list[int]:
    """Return the numbers of a list. Raises :class:`ConfigurationError` for a text, whose digits would each be one, and
    for other values.
    """
    given = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else None
    if given is None or not all(isinstance(value, int) for value in given):
        raise ConfigurationError(f"{name} is {quoted(str(values))}: give a list of whole numbers, as [12, 34].")
    return given


def number(name: str, value: Any) -> float | None:
    """Return a number; None for None and for an empty text. Raises :class:`ConfigurationError` for other values."""
    return _number(name, value, float, "a number")


def seconds(name: str, value: Any, most: int = MOST_SECONDS) -> float:
    """Return a number of seconds to wait, 0 or more. Raises :class:`ConfigurationError` for other values."""
    with suppress(TypeError, ValueError, OverflowError):
        if 0 <= (found := float(value)) <= most:
            return found
    raise ConfigurationError(f"{name} is {quoted(str(value))}: give a number of seconds, 0 to {most:,}.")


def size(name: str, value: Any) -> int | None:
    """Return bytes, from a number or a size such as ``16MiB``. Raises :class:`ConfigurationError` for other values."""
    if not isinstance(value, str) or value.strip() in ("", "None"):
        return whole_number(name, value)
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ConfigurationError(f"{name} takes bytes, as 1000000, 512KiB, 16MiB or 1GiB, not {quoted(value)}.")
    return int(match[1]) * _SIZES[match[2]]


def interval(name: str, value: Any) -> timedelta | None:
    """Return a timedelta, from one, a number of seconds, or a time such as ``12h``; None for None and an empty text."""
    if isinstance(value, timedelta):
        return value
    match = _AGE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        seconds: float | None = float(match["number"]) * _TIMES[match["unit"]]
    else:
        seconds = _number(name, value, float, "a number of seconds, or a time as 90s, 30m, 12h or 7d")
    try:
        return None if seconds is None else timedelta(seconds=seconds)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"{name} is {quoted(str(value))}: that is too long a time.") from error


def length_of_time(name: str, text: str) -> timedelta | None:
    """Return the timedelta of a time such as ``12h``; None for a text without a unit. Raises as :func:`interval`."""
    return interval(name, text) if _AGE.fullmatch(text.strip()) else None


def truth(name: str, value: Any) -> bool | None:
    """Return True or False, also of their names in upper or lower case; None for None and for an empty text."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("", "none"):
        return None
    if text not in ("true", "false"):
        raise ConfigurationError(f"{name} is {quoted(str(value))}: give True or False.")
    return text == "true"


def _text(name: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    raise ConfigurationError(f"{name} is {quoted(str(value))}: give a text.")


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "int": whole_number,
    "float": number,
    "bool": truth,
    "timedelta": interval,
    "str": _text,
    BYTES: size,
}


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


def _in_units(value: float, units: Mapping[str, int]) -> str:
    """Return a number in the largest unit that divides it."""
    unit = next((unit for unit, many in units.items() if value and value % many == 0), list(units)[-1])
    return f"{value / units[unit]:.15g}{unit}"
